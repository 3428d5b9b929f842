//! What finds a packet's connection and its keys, read once and borrowed from nothing.

use super::header::{ConnectionId, Header, Protected, Version};
use crate::seen::PacketKind;

/// See the [module's text](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) form: Form,
    pub(crate) dcid: ConnectionId,
    /// Of a long header.
    pub(crate) scid: Option<ConnectionId>,
    /// Where the packet ends; the datagram's next one begins there.
    pub(crate) end: usize,
}

/// What kind of packet it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Retry,
    VersionNegotiation,
    /// A packet with a number, which begins at `number_at`.
    Numbered {
        kind: PacketKind,
        /// Of a long header.
        version: Option<Version>,
        has_token: bool,
        number_at: usize,
    },
}

impl Form {
    /// Of a long header with a number.
    pub(crate) fn version(&self) -> Option<Version> {
        match self {
            Form::Numbered { version, .. } => *version,
            Form::Retry | Form::VersionNegotiation => None,
        }
    }
}

impl Head {
    pub(crate) fn of(packet: &Protected<'_>) -> Head {
        let (end, dcid) = (packet.end, packet.header.dcid());
        let number_at = packet.number_at.unwrap_or(end);
        let (form, scid) = match &packet.header {
            Header::Retry { scid, .. } => (Form::Retry, Some(*scid)),
            Header::VersionNegotiation { scid, .. } => (Form::VersionNegotiation, Some(*scid)),
            Header::Long { version, kind, scid, token, .. } => {
                let (kind, version, has_token) =
                    ((*kind).into(), Some(*version), !token.is_empty());
                (Form::Numbered { kind, version, has_token, number_at }, Some(*scid))
            }
            Header::Short { .. } => {
                let (kind, version, has_token) = (PacketKind::OneRtt, None, false);
                (Form::Numbered { kind, version, has_token, number_at }, None)
            }
        };
        Head { form, dcid, scid, end }
    }

    pub(crate) fn is_initial(&self) -> bool {
        matches!(self.form, Form::Numbered { kind: PacketKind::Initial, .. })
    }
}
