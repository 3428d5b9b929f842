//! Transport parameters [RFC 9000 §18], with those of datagrams [RFC 9221], versions [RFC 9368],
//! ACK frequency [draft-ietf-quic-ack-frequency] and TACK (`docs/quic-tack.md`).

use core::time::Duration;

use super::ParseError;
use super::header::ConnectionId;
use super::read::{MAX_VARINT, Reader, put_varint};
use super::sender::Sender;
use super::versions::VersionInformation;

/// The version of TACK in QUIC that is spoken here.
pub const TACK_VERSION: u64 = 1;

mod id {
    pub(super) const ORIGINAL_DCID: u64 = 0x00;
    pub(super) const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const RESET_TOKEN: u64 = 0x02;
    pub(super) const MAX_UDP_PAYLOAD: u64 = 0x03;
    pub(super) const MAX_DATA: u64 = 0x04;
    pub(super) const MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub(super) const MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub(super) const MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub(super) const MAX_STREAMS_BIDI: u64 = 0x08;
    pub(super) const MAX_STREAMS_UNI: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const MAX_ACK_DELAY: u64 = 0x0b;
    pub(super) const NO_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const ACTIVE_CID_LIMIT: u64 = 0x0e;
    pub(super) const INITIAL_SCID: u64 = 0x0f;
    pub(super) const RETRY_SCID: u64 = 0x10;
    pub(super) const VERSION_INFORMATION: u64 = 0x11;
    pub(super) const MAX_DATAGRAM: u64 = 0x20;
    pub(super) const TACK: u64 = 0x3ac0;
    pub(super) const MIN_ACK_DELAY: u64 = 0xff04_de1b;
}

/// One side's transport parameters; what it left out has the RFC's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Where the client's first Initial went; server only.
    pub original_dcid: Option<ConnectionId>,
    /// Milliseconds; 0 is never.
    pub max_idle_timeout_ms: u64,
    /// For a stateless reset; server only.
    pub reset_token: Option<[u8; 16]>,
    /// Largest UDP payload it takes, bytes, at least 1200.
    pub max_udp_payload: u64,
    /// Bytes of all streams at first.
    pub max_data: u64,
    /// Bytes of each stream that it opens and both send on.
    pub max_stream_data_bidi_local: u64,
    /// Bytes of each stream that the other side opens and both send on.
    pub max_stream_data_bidi_remote: u64,
    /// Bytes of each stream that the other side opens and alone sends on.
    pub max_stream_data_uni: u64,
    /// Streams that both send on, at most 2^60.
    pub max_streams_bidi: u64,
    /// Streams that one sends on, at most 2^60.
    pub max_streams_uni: u64,
    /// Of ACK delays, at most 20.
    pub ack_delay_exponent: u64,
    /// How late its acknowledgments are at most; whole milliseconds below 2^14.
    pub max_ack_delay: Duration,
    /// It must stay at its address, as far as the other side can help it.
    pub disable_active_migration: bool,
    /// Another address of the server, as it travels; server only. Whole, but not looked into.
    pub preferred_address: Option<Vec<u8>>,
    /// Connection IDs that it keeps, at least 2.
    pub active_cid_limit: u64,
    /// The connection ID in its first packet.
    pub initial_scid: Option<ConnectionId>,
    /// That of its Retry; server only.
    pub retry_scid: Option<ConnectionId>,
    /// Largest DATAGRAM frame it takes, bytes; 0: none.
    pub max_datagram: u64,
    /// The shortest ACK delay that it can be asked for, microseconds; `None`: it knows no ACK_FREQUENCY.
    pub min_ack_delay: Option<Duration>,
    /// What it speaks; `None`: it does not say.
    pub version_information: Option<VersionInformation>,
    /// The version of TACK it speaks; `None`: none.
    pub tack: Option<u64>,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            original_dcid: None,
            max_idle_timeout_ms: 0,
            reset_token: None,
            max_udp_payload: 65_527,
            max_data: 0,
            max_stream_data_bidi_local: 0,
            max_stream_data_bidi_remote: 0,
            max_stream_data_uni: 0,
            max_streams_bidi: 0,
            max_streams_uni: 0,
            ack_delay_exponent: 3,
            max_ack_delay: Duration::from_millis(25),
            disable_active_migration: false,
            preferred_address: None,
            active_cid_limit: 2,
            initial_scid: None,
            retry_scid: None,
            max_datagram: 0,
            min_ack_delay: None,
            version_information: None,
            tack: None,
        }
    }
}

impl Parameters {
    /// Reads what `sender` sent. Unknown parameters are skipped.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR, each: cut off, twice, out of its range, or not the sender's to send.
    pub fn parse(bytes: &[u8], sender: Sender) -> Result<Parameters, ParseError> {
        let mut parameters = Parameters::default();
        let mut reader = Reader::new(bytes);
        let mut seen = Vec::new();
        while !reader.is_empty() {
            let id = reader.varint("parameter's ID")?;
            let value = reader.prefixed("parameter")?;
            // Of those that are known: a list that no peer can grow.
            if seen.contains(&id) {
                return Err(ParseError::Twice(id));
            }
            if parameters.set(id, value, sender)? {
                seen.push(id);
            }
        }
        let too_long = parameters.min_ack_delay.filter(|min| *min > parameters.max_ack_delay);
        if let Some(min) = too_long {
            let value = u64::try_from(min.as_micros()).unwrap_or(u64::MAX);
            return Err(ParseError::Value { what: "min_ack_delay", value });
        }
        let has_no_id = parameters.initial_scid.is_some_and(|id| id.as_bytes().is_empty());
        if has_no_id && parameters.preferred_address.is_some() {
            let what = "connection ID of who has a preferred address";
            return Err(ParseError::Value { what, value: 0 });
        }
        Ok(parameters)
    }

    /// What of a server's a client may remember for 0-RTT [RFC 9000 §7.4.1]; the rest is as if it had left
    /// it out. What is for 1-RTT packets alone is not remembered either.
    pub(crate) fn remembered(self) -> Parameters {
        let usual = Parameters::default();
        Parameters {
            original_dcid: None,
            reset_token: None,
            preferred_address: None,
            initial_scid: None,
            retry_scid: None,
            ack_delay_exponent: usual.ack_delay_exponent,
            max_ack_delay: usual.max_ack_delay,
            min_ack_delay: None,
            version_information: None,
            tack: None,
            ..self
        }
    }

    /// Nothing that 0-RTT packets may have used has shrunk [RFC 9000 §7.4.1, RFC 9221 §3].
    pub(crate) fn allows_as_much_as(&self, remembered: &Parameters) -> bool {
        let limits = |it: &Parameters| {
            [
                it.active_cid_limit,
                it.max_data,
                it.max_stream_data_bidi_local,
                it.max_stream_data_bidi_remote,
                it.max_stream_data_uni,
                it.max_streams_bidi,
                it.max_streams_uni,
                it.max_datagram,
            ]
        };
        limits(self).into_iter().zip(limits(remembered)).all(|(now, before)| now >= before)
    }

    /// Whether it is one that is known.
    fn set(&mut self, id: u64, value: &[u8], sender: Sender) -> Result<bool, ParseError> {
        let server_only =
            [id::ORIGINAL_DCID, id::RESET_TOKEN, id::PREFERRED_ADDRESS, id::RETRY_SCID];
        if sender == Sender::Client && server_only.contains(&id) {
            return Err(ParseError::ServerOnly(id));
        }
        let cid = |what| {
            let value = ConnectionId::new(value);
            value.map(Some).ok_or(ParseError::Truncated { what })
        };
        match id {
            id::ORIGINAL_DCID => self.original_dcid = cid("original connection ID")?,
            id::INITIAL_SCID => self.initial_scid = cid("initial connection ID")?,
            id::RETRY_SCID => self.retry_scid = cid("Retry's connection ID")?,
            id::RESET_TOKEN => {
                let cut_off = ParseError::Truncated { what: "stateless reset token" };
                self.reset_token = Some(value.try_into().map_err(|_| cut_off)?);
            }
            id::NO_MIGRATION => {
                let value = value.len() as u64;
                if value > 0 {
                    return Err(ParseError::Value { what: "disable_active_migration", value });
                }
                self.disable_active_migration = true;
            }
            id::PREFERRED_ADDRESS => self.preferred_address = Some(preferred_address(value)?),
            id::VERSION_INFORMATION => {
                self.version_information = Some(VersionInformation::parse(value, sender)?);
            }
            _ => return self.set_number(id, value),
        }
        Ok(true)
    }

    fn set_number(&mut self, id: u64, value: &[u8]) -> Result<bool, ParseError> {
        let number = |least: u64, most: u64, what: &'static str| -> Result<u64, ParseError> {
            let mut reader = Reader::new(value);
            let number = reader.varint(what)?;
            if !reader.is_empty() {
                return Err(ParseError::Truncated { what });
            }
            match (least..=most).contains(&number) {
                true => Ok(number),
                false => Err(ParseError::Value { what, value: number }),
            }
        };
        const STREAMS: u64 = 1 << 60;
        const ANY: u64 = MAX_VARINT;
        match id {
            id::MAX_IDLE_TIMEOUT => self.max_idle_timeout_ms = number(0, ANY, "max_idle_timeout")?,
            id::MAX_UDP_PAYLOAD => self.max_udp_payload = number(1_200, ANY, "max_udp_payload")?,
            id::MAX_DATA => self.max_data = number(0, ANY, "initial_max_data")?,
            id::MAX_STREAM_DATA_BIDI_LOCAL => {
                self.max_stream_data_bidi_local = number(0, ANY, "max_stream_data_bidi_local")?;
            }
            id::MAX_STREAM_DATA_BIDI_REMOTE => {
                self.max_stream_data_bidi_remote = number(0, ANY, "max_stream_data_bidi_remote")?;
            }
            id::MAX_STREAM_DATA_UNI => {
                self.max_stream_data_uni = number(0, ANY, "max_stream_data_uni")?;
            }
            id::MAX_STREAMS_BIDI => self.max_streams_bidi = number(0, STREAMS, "max_streams_bidi")?,
            id::MAX_STREAMS_UNI => self.max_streams_uni = number(0, STREAMS, "max_streams_uni")?,
            id::ACK_DELAY_EXPONENT => {
                self.ack_delay_exponent = number(0, 20, "ack_delay_exponent")?;
            }
            id::MAX_ACK_DELAY => {
                let ms = number(0, (1 << 14) - 1, "max_ack_delay")?;
                self.max_ack_delay = Duration::from_millis(ms);
            }
            id::ACTIVE_CID_LIMIT => {
                self.active_cid_limit = number(2, ANY, "active_connection_id_limit")?;
            }
            id::MAX_DATAGRAM => self.max_datagram = number(0, ANY, "max_datagram_frame_size")?,
            id::MIN_ACK_DELAY => {
                let us = number(0, (1 << 24) - 1, "min_ack_delay")?;
                self.min_ack_delay = Some(Duration::from_micros(us));
            }
            id::TACK => self.tack = Some(number(1, ANY, "version of TACK")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends what is not the default. The caller leaves out what only a server may send.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let usual = Parameters::default();
        let mut bytes = |id: u64, value: &[u8]| {
            put_varint(id, out);
            put_varint(value.len() as u64, out);
            out.extend_from_slice(value);
        };
        let cids = [
            (id::ORIGINAL_DCID, &self.original_dcid),
            (id::INITIAL_SCID, &self.initial_scid),
            (id::RETRY_SCID, &self.retry_scid),
        ];
        for (id, cid) in cids {
            if let Some(cid) = cid {
                bytes(id, cid.as_bytes());
            }
        }
        if let Some(token) = &self.reset_token {
            bytes(id::RESET_TOKEN, token);
        }
        if let Some(address) = &self.preferred_address {
            bytes(id::PREFERRED_ADDRESS, address);
        }
        if let Some(information) = &self.version_information {
            let mut value = Vec::new();
            information.emit(&mut value);
            bytes(id::VERSION_INFORMATION, &value);
        }
        if self.disable_active_migration {
            bytes(id::NO_MIGRATION, &[]);
        }
        for ((id, value), (_, default)) in self.numbers().into_iter().zip(usual.numbers()) {
            if let Some(value) = value.filter(|_| value != default) {
                let mut number = Vec::with_capacity(8);
                put_varint(value.min(MAX_VARINT), &mut number);
                bytes(id, &number);
            }
        }
    }

    fn numbers(&self) -> [(u64, Option<u64>); 14] {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(MAX_VARINT);
        [
            (id::MAX_IDLE_TIMEOUT, Some(self.max_idle_timeout_ms)),
            (id::MAX_UDP_PAYLOAD, Some(self.max_udp_payload)),
            (id::MAX_DATA, Some(self.max_data)),
            (id::MAX_STREAM_DATA_BIDI_LOCAL, Some(self.max_stream_data_bidi_local)),
            (id::MAX_STREAM_DATA_BIDI_REMOTE, Some(self.max_stream_data_bidi_remote)),
            (id::MAX_STREAM_DATA_UNI, Some(self.max_stream_data_uni)),
            (id::MAX_STREAMS_BIDI, Some(self.max_streams_bidi)),
            (id::MAX_STREAMS_UNI, Some(self.max_streams_uni)),
            (id::ACK_DELAY_EXPONENT, Some(self.ack_delay_exponent)),
            (id::MAX_ACK_DELAY, Some(micros(self.max_ack_delay) / 1_000)),
            (id::ACTIVE_CID_LIMIT, Some(self.active_cid_limit)),
            (id::MAX_DATAGRAM, Some(self.max_datagram)),
            (id::MIN_ACK_DELAY, self.min_ack_delay.map(micros)),
            (id::TACK, self.tack),
        ]
    }
}

/// A server's other address, if it is one: those of both families, a connection ID of 1 to 20 bytes and a token
/// for its reset [RFC 9000 §18.2].
fn preferred_address(value: &[u8]) -> Result<Vec<u8>, ParseError> {
    const ADDRESSES: usize = 4 + 2 + 16 + 2;
    const TOKEN: usize = 16;
    let what = "preferred address";
    let len = *value.get(ADDRESSES).ok_or(ParseError::Truncated { what })?;
    if !(1..=20).contains(&len) {
        let what = "length of a preferred address's ID";
        return Err(ParseError::Value { what, value: len.into() });
    }
    let is_whole = value.len() == ADDRESSES + 1 + usize::from(len) + TOKEN;
    is_whole.then(|| value.to_vec()).ok_or(ParseError::Truncated { what })
}

#[cfg(test)]
#[path = "parameters_tests.rs"]
mod tests;
