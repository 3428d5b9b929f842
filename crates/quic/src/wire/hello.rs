//! What must be known of a ClientHello before TLS may read it [RFC 8446 §4.1.2]: the transport parameters in
//! it, and whether it announces early data.
//!
//! ```text
//! type 1 (8)   length (24)   version (16)   random (256)
//! session ID <8>   cipher suites <16>   compression methods <8>   extensions <16>: type (16) data <16>
//! ```

use super::ParseError;
use super::read::Reader;

const CLIENT_HELLO: u8 = 1;
/// A longer one TLS refuses, whatever it says.
const MOST: usize = 64 << 10;
const EARLY_DATA: u16 = 42;
/// [RFC 9001 §8.2], and the same in version 2.
const TRANSPORT_PARAMETERS: u16 = 0x39;

/// See the [module's text](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hello<'a> {
    /// More bytes of it must come.
    Partial,
    /// It is another message, or cannot be read: TLS shall say why.
    Other,
    /// All of it is there.
    Whole {
        /// `None`: it has none.
        parameters: Option<&'a [u8]>,
        is_early: bool,
    },
}

impl<'a> Hello<'a> {
    /// What begins with these bytes.
    pub(crate) fn read(bytes: &'a [u8]) -> Hello<'a> {
        let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
            return match bytes.first() {
                None | Some(&CLIENT_HELLO) => Hello::Partial,
                Some(_) => Hello::Other,
            };
        };
        let len = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        if head[0] != CLIENT_HELLO || len > MOST {
            return Hello::Other;
        }
        let Some(body) = rest.get(..len) else { return Hello::Partial };
        whole(body).unwrap_or(Hello::Other)
    }
}

fn whole(body: &[u8]) -> Result<Hello<'_>, ParseError> {
    let mut reader = Reader::new(body);
    reader.take(2 + 32, "random")?;
    let session = reader.byte("session ID")?;
    reader.take(session.into(), "session ID")?;
    prefixed(&mut reader)?;
    let compression = reader.byte("compression methods")?;
    reader.take(compression.into(), "compression methods")?;
    let mut extensions = Reader::new(prefixed(&mut reader)?);
    let (mut parameters, mut is_early) = (None, false);
    while !extensions.is_empty() {
        let kind = u16::from_be_bytes(extensions.array("extension")?);
        let data = prefixed(&mut extensions)?;
        is_early |= kind == EARLY_DATA;
        if kind == TRANSPORT_PARAMETERS {
            parameters.get_or_insert(data);
        }
    }
    Ok(Hello::Whole { parameters, is_early })
}

/// Bytes behind their length in two bytes.
fn prefixed<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], ParseError> {
    let len = u16::from_be_bytes(reader.array("length")?);
    reader.take(len.into(), "ClientHello")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With these extensions.
    fn hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (kind, data) in extensions {
            list.extend(kind.to_be_bytes());
            list.extend((data.len() as u16).to_be_bytes());
            list.extend_from_slice(data);
        }
        let mut body = vec![3; 34];
        body.extend([1, 7, 0, 2, 0x13, 1, 1, 0]);
        body.extend((list.len() as u16).to_be_bytes());
        body.extend(list);
        [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat()
    }

    #[test]
    fn transport_parameters_and_early_data_are_found_among_other_extensions() {
        let parameters = Some(&b"told"[..]);
        let bytes = hello(&[(0, b"name"), (0x39, b"told"), (51, b"share")]);
        assert_eq!(Hello::read(&bytes), Hello::Whole { parameters, is_early: false });
        let bytes = [hello(&[(42, b""), (0x39, b"told")]), vec![9; 9]].concat();
        assert_eq!(Hello::read(&bytes), Hello::Whole { parameters, is_early: true });
        assert_eq!(Hello::read(&hello(&[])), Hello::Whole { parameters: None, is_early: false });
    }

    #[test]
    fn a_hello_is_waited_for_until_it_is_whole_and_what_is_none_is_not() {
        let bytes = hello(&[(0x39, b"told")]);
        for cut in 0..bytes.len() {
            assert_eq!(Hello::read(&bytes[..cut]), Hello::Partial, "{cut}");
        }
        assert_eq!(Hello::read(&[2]), Hello::Other);
        assert_eq!(Hello::read(&[1, 1, 0, 1]), Hello::Other, "longer than TLS takes");
        assert_eq!(Hello::read(&[1, 0, 0, 0]), Hello::Other, "nothing in it");
    }

    #[test]
    fn any_byte_of_a_hello_may_be_another() {
        let bytes = hello(&[(0, b"name"), (0x39, b"told"), (42, b"")]);
        for at in 0..bytes.len() {
            for byte in 0..=255 {
                let mut changed = bytes.clone();
                changed[at] = byte;
                Hello::read(&changed);
            }
        }
    }
}
