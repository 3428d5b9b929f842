//! Dotted keys of a scenario as a table.

use toml::{Table, Value};

/// A table of a scenario, read and written key by key: what stands before the semicolon as it says, what
/// stands behind it may be left out.
macro_rules! keys {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$own:meta])* pub $field:ident: $of:ty,)*
            ;
            $($(#[$doc:meta])* $key:ident: $what:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields, expecting = "a table of keys")]
        pub struct $name {
            $($(#[$own])* pub $field: $of,)*
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<$what>,
            )*
        }
    };
}

pub(super) use keys;

/// Whether the table says something at a dotted key.
pub(crate) fn has(table: &Table, key: &str) -> bool {
    let mut parts = key.split('.');
    let first = parts.next().and_then(|part| table.get(part));
    let found = parts.try_fold(first, |at, part| match at? {
        Value::Table(inner) => Some(inner.get(part)),
        Value::Array(items) => Some(part.parse().ok().and_then(|i: usize| items.get(i))),
        _ => None,
    });
    found.flatten().is_some()
}

/// Puts `value` at a dotted key, making tables on the way; list entries go by number. A table of the
/// scenario's own, as `wan.loss = 0.1` without quotes makes one, leaves what else is said there, unless it is
/// of another `kind`: what a file has to say is none of a video's.
pub(crate) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let is_alike =
        |old: &Table, new: &Table| new.get("kind").is_none_or(|kind| old.get("kind") == Some(kind));
    match (table.get_mut(key), value) {
        (Some(Value::Table(old)), Value::Table(new)) if is_alike(old, &new) => {
            new.into_iter().try_for_each(|(key, value)| set(old, &key, value))
        }
        (_, value) => put(table, key, value),
    }
}

fn put(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let (head, rest) = match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            return Ok(());
        }
        Some(parts) => parts,
    };
    let is_entry = rest.split('.').next().is_some_and(|part| part.parse::<usize>().is_ok());
    if is_entry && !table.contains_key(head) {
        return Err(format!("names an entry of `{head}`, and there is no such list"));
    }
    match table.entry(head.to_owned()).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => put(inner, rest, value),
        Value::Array(items) => {
            let (number, rest) =
                rest.split_once('.').ok_or("names a list, not one of its entries' keys")?;
            let count = items.len();
            // `0` and `00` would be two keys of one entry.
            let entry = number.parse().ok().filter(|i: &usize| i.to_string() == number);
            let item = entry.and_then(|i| items.get_mut(i));
            match item {
                Some(Value::Table(inner)) => put(inner, rest, value),
                _ => Err(format!("asks for entry {number} of {count}, counted from 0")),
            }
        }
        _ => Err(format!("goes through `{head}`, which is a plain value")),
    }
}

/// What one of something is written as: nothing.
pub(super) fn one() -> u32 {
    1
}

pub(super) fn is_zero(v: &f64) -> bool {
    *v == 0.0
}
