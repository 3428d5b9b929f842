//! Whose connections are compared.

use clap::ValueEnum;

use crate::contestant::display_as_argument;

/// With TLS unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Who {
    /// The kernel's TCP, without TLS.
    Kernel,
    /// TLS over the kernel's TCP: rustls, as we have it over our own.
    KernelTls,
    /// quinn with its defaults.
    Quinn,
    /// Our TCP-TACK.
    Tack,
    /// The same without TLS.
    TackClear,
    /// Our TCP without TACK or TLS.
    PlainClear,
    /// Our QUIC-TACK.
    QuicTack,
    /// The kernel's, through `tack tunnel`.
    Tunnel,
    /// The same over QUIC.
    TunnelQuic,
}

display_as_argument!(Who);

impl Who {
    pub(super) const BESIDE_EACH_OTHER: [Who; 6] =
        [Who::Kernel, Who::KernelTls, Who::Quinn, Who::Tack, Who::QuicTack, Who::TackClear];

    /// What the two programs speak.
    pub(super) fn spoken(self) -> Who {
        if self.tunnel().is_some() { Who::Kernel } else { self }
    }

    /// Whether a tunnel lies between them; true: over QUIC.
    pub(super) fn tunnel(self) -> Option<bool> {
        match self {
            Who::Tunnel => Some(false),
            Who::TunnelQuic => Some(true),
            _ => None,
        }
    }
}
