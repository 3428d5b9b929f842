//! The transport parameter `version_information` [RFC 9368 §3]: what a handshake was spoken in, and what else
//! could be, said under TLS' protection, so that nobody on the way can talk two ends down.
//!
//! ```text
//! Chosen Version (32)   Available Versions (32) ...
//! ```

use super::ParseError;
use super::header::Version;
use super::read::Reader;
use super::sender::Sender;

const WHAT: &str = "version_information";

/// What one side says of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInformation {
    /// Of the packets that its sender's handshake is said in; a client's of its first.
    pub chosen: u32,
    /// Of a client: what its first flight may be taken for, the best first, the chosen one among them. Of a
    /// server: what it speaks. Those that are not spoken here are left out when they are read, and repetitions.
    pub available: Vec<Version>,
}

impl VersionInformation {
    /// What a client says: its first flight is of `version` and of no other.
    pub fn of_client(version: Version) -> VersionInformation {
        VersionInformation { chosen: version.number(), available: vec![version] }
    }

    /// What a server says whose connection is spoken in `version`.
    pub fn of_server(version: Version) -> VersionInformation {
        VersionInformation { chosen: version.number(), available: Version::ALL.to_vec() }
    }

    /// Reads the value of the parameter of `sender`.
    ///
    /// # Errors
    /// It is no list of versions, one of them is 0, or a client's chosen one is not available.
    pub fn parse(value: &[u8], sender: Sender) -> Result<VersionInformation, ParseError> {
        if value.len() < 4 || !value.len().is_multiple_of(4) {
            return Err(ParseError::Truncated { what: WHAT });
        }
        let mut reader = Reader::new(value);
        let chosen = u32::from_be_bytes(reader.array(WHAT)?);
        let (mut available, mut has_chosen, mut has_zero) = (Vec::new(), false, chosen == 0);
        while !reader.is_empty() {
            let number = u32::from_be_bytes(reader.array(WHAT)?);
            has_chosen |= number == chosen;
            has_zero |= number == 0;
            let known = Version::from_number(number).filter(|known| !available.contains(known));
            available.extend(known);
        }
        if has_zero {
            return Err(ParseError::Value { what: "version in version_information", value: 0 });
        }
        if sender == Sender::Client && !has_chosen {
            let (what, value) = ("chosen version, which is not available,", chosen.into());
            return Err(ParseError::Value { what, value });
        }
        Ok(VersionInformation { chosen, available })
    }

    /// Appends the value of the parameter.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let available = self.available.iter().map(|version| version.number());
        // A chosen one that nobody knows is not among `available`, and yet a client's is available.
        let unknown = Some(self.chosen).filter(|chosen| Version::from_number(*chosen).is_none());
        for number in core::iter::once(self.chosen).chain(available).chain(unknown) {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(numbers: &[u32], sender: Sender) -> Result<VersionInformation, ParseError> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        VersionInformation::parse(&bytes, sender)
    }

    #[test]
    fn version_information_survives_and_versions_that_nobody_knows_are_skipped() {
        for version in Version::ALL {
            let server = VersionInformation::of_server(version);
            for information in [VersionInformation::of_client(version), server] {
                let mut bytes = Vec::new();
                information.emit(&mut bytes);
                for sender in [Sender::Client, Sender::Server] {
                    let read = VersionInformation::parse(&bytes, sender);
                    assert_eq!(read.as_ref(), Ok(&information));
                }
            }
        }
        let (v2, reserved) = (Version::V2.number(), 0x1a2a_3a4a);
        let read = parse(&[1, reserved, v2, 1, v2, 1], Sender::Client).unwrap();
        assert_eq!(read.available, [Version::V2, Version::V1], "each once, as it was preferred");
        let unknown = parse(&[reserved, reserved], Sender::Client).unwrap();
        let mut again = Vec::new();
        unknown.emit(&mut again);
        assert_eq!(VersionInformation::parse(&again, Sender::Client), Ok(unknown));
        let many = vec![v2; 10_000];
        assert_eq!(parse(&many, Sender::Server).unwrap().available, [Version::V2]);
    }

    #[test]
    fn version_information_that_is_no_list_or_contradicts_itself_is_refused() {
        for len in [0, 1, 3, 5, 7, 9] {
            assert!(VersionInformation::parse(&vec![1; len], Sender::Server).is_err(), "{len}");
        }
        for sender in [Sender::Client, Sender::Server] {
            assert!(parse(&[0, 1], sender).is_err(), "a chosen version of 0");
            assert!(parse(&[1, 1, 0], sender).is_err(), "an available version of 0");
        }
        let v2 = Version::V2.number();
        for numbers in [&[1][..], &[1, v2]] {
            assert!(parse(numbers, Sender::Client).is_err(), "{numbers:?}");
            assert!(parse(numbers, Sender::Server).is_ok(), "{numbers:?}");
        }
    }
}
