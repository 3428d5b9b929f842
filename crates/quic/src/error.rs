//! What breaks a connection, and how one ended.

/// Codes of CONNECTION_CLOSE [RFC 9000 §20.1].
pub mod code {
    /// Nothing is wrong.
    pub const NO_ERROR: u64 = 0x00;
    /// A limit of ours that no well-behaved peer meets.
    pub const INTERNAL_ERROR: u64 = 0x01;
    /// The server takes no new connections.
    pub const CONNECTION_REFUSED: u64 = 0x02;
    /// More data than was allowed.
    pub const FLOW_CONTROL_ERROR: u64 = 0x03;
    /// More streams than were allowed.
    pub const STREAM_LIMIT_ERROR: u64 = 0x04;
    /// A frame for a stream in a state that cannot have it.
    pub const STREAM_STATE_ERROR: u64 = 0x05;
    /// A stream has two lengths.
    pub const FINAL_SIZE_ERROR: u64 = 0x06;
    /// A frame that cannot be read.
    pub const FRAME_ENCODING_ERROR: u64 = 0x07;
    /// Transport parameters that cannot be.
    pub const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;
    /// More connection IDs than were allowed.
    pub const CONNECTION_ID_LIMIT_ERROR: u64 = 0x09;
    /// Any other breach.
    pub const PROTOCOL_VIOLATION: u64 = 0x0a;
    /// A Retry's token that is not good any more.
    pub const INVALID_TOKEN: u64 = 0x0b;
    /// The application closed before the handshake was done [RFC 9000 §10.2.3].
    pub const APPLICATION_ERROR: u64 = 0x0c;
    /// More of the handshake out of order than is kept.
    pub const CRYPTO_BUFFER_EXCEEDED: u64 = 0x0d;
    /// A key update that breaks the rules.
    pub const KEY_UPDATE_ERROR: u64 = 0x0e;
    /// Keys are worn out.
    pub const AEAD_LIMIT_REACHED: u64 = 0x0f;
    /// What the handshake says of versions is not what it is spoken in [RFC 9368 §4].
    pub const VERSION_NEGOTIATION_ERROR: u64 = 0x11;
    /// TLS alerts are added to it [RFC 9001 §4.8].
    pub const CRYPTO_ERROR: u64 = 0x0100;
}

/// A breach by the peer, for which the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// See [`code`].
    pub(crate) code: u64,
    /// In words.
    pub(crate) reason: &'static str,
}

impl Violation {
    pub(crate) const fn new(code: u64, reason: &'static str) -> Violation {
        Violation { code, reason }
    }

    /// A breach that has no code of its own.
    pub(crate) const fn of_protocol(reason: &'static str) -> Violation {
        Violation { code: code::PROTOCOL_VIOLATION, reason }
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// This side closed it.
    #[error("closed here")]
    Closed,
    /// The peer's application closed it.
    #[error("closed by the peer's application with code {code}")]
    ClosedByApplication {
        /// The application's.
        code: u64,
        /// In words; not always UTF-8.
        reason: Vec<u8>,
    },
    /// The peer's transport closed it.
    #[error("closed by the peer with code {code:#x}: {}", String::from_utf8_lossy(.reason))]
    ClosedByPeer {
        /// See [`code`].
        code: u64,
        /// In words; not always UTF-8.
        reason: Vec<u8>,
    },
    /// The peer broke the protocol.
    #[error("the peer broke the protocol ({code:#x}): {reason}")]
    Violation {
        /// See [`code`].
        code: u64,
        /// In words.
        reason: &'static str,
    },
    /// Nothing came for too long [RFC 9000 §10.1].
    #[error("the peer is silent")]
    TimedOut,
    /// The client had not ended its handshake in time, whatever else it said:
    /// [`Listen::handshake_time`](crate::Listen::handshake_time).
    #[error("the handshake took too long")]
    HandshakeTimedOut,
    /// The peer has lost its state [RFC 9000 §10.3].
    #[error("the peer does not know the connection")]
    Reset,
    /// The server speaks no version that is spoken here.
    #[error("the server speaks no version of QUIC that is spoken here")]
    VersionMismatch,
    /// A packet that shows the server the token of so many bytes that it asks for has no room for a handshake.
    #[error(
        "the server asks for a token of {0} bytes, beside which a packet has no room for a handshake"
    )]
    RetryToken(usize),
}

/// Why a call on a stream or connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UseError {
    /// There is no such stream, or it is done with.
    #[error("no such stream")]
    NoStream,
    /// The stream goes the other way.
    #[error("the stream goes the other way")]
    WrongWay,
    /// This side ended it.
    #[error("the stream was finished")]
    Finished,
    /// The peer wants no more of it, and says why.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The peer gave it up, and says why.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// The peer allows no further stream yet.
    #[error("the peer allows no further stream yet")]
    Limit,
    /// The connection has ended, or is ending.
    #[error("the connection is closed")]
    Closed,
    /// The connection cannot move to another path, or not yet.
    #[error("the connection cannot move to another address")]
    Unmovable,
    /// The peer takes no datagrams, or none as long.
    #[error("a datagram of {0} bytes cannot be sent")]
    Datagram(usize),
}
