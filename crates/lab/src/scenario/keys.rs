//! Dotted keys of a scenario as a table.

use toml::{Table, Value};

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

/// Puts `value` at a dotted key, making tables on the way; list entries go by number.
pub(crate) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
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
        Value::Table(inner) => set(inner, rest, value),
        Value::Array(items) => {
            let (number, rest) =
                rest.split_once('.').ok_or("names a list, not one of its entries' keys")?;
            let count = items.len();
            let item = number.parse::<usize>().ok().and_then(|i| items.get_mut(i));
            match item {
                Some(Value::Table(inner)) => set(inner, rest, value),
                _ => Err(format!("asks for entry {number} of {count}, counted from 0")),
            }
        }
        _ => Err(format!("goes through `{head}`, which is a plain value")),
    }
}
