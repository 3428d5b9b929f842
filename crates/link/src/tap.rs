//! Writes what passes a link as pcapng, for Wireshark and tshark.
//!
//! The file has one interface per end, with raw IP packets (LINKTYPE_RAW), times in nanoseconds
//! since the start of the run, and a direction on each packet: outbound as it enters the link,
//! inbound as it leaves. Packets without bytes have nothing to show and are only counted.

use std::borrow::Cow;
use std::io::{self, Write};

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use tack_units::Instant;

use crate::link::{End, Link, Output, Packet};

/// Which way a packet passed the tap, seen from the host at that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// From the host into the link.
    Outbound,
    /// From the link to the host.
    Inbound,
}

/// A pcapng file of one link.
pub struct Capture<W: Write> {
    writer: PcapNgWriter<W>,
    packets: u64,
    without_bytes: u64,
}

impl<W: Write> Capture<W> {
    /// Starts a file whose interfaces are called `name-a` and `name-b`.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(out: W, name: &str) -> io::Result<Self> {
        let mut writer = PcapNgWriter::new(out).map_err(into_io)?;
        for end in ["a", "b"] {
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                // No limit: IP packets have their own.
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Owned(format!("{name}-{end}"))),
                    // Negative power of ten.
                    InterfaceDescriptionOption::IfTsResol(9),
                ],
            };
            writer.write_pcapng_block(interface).map_err(into_io)?;
        }
        Ok(Capture { writer, packets: 0, without_bytes: 0 })
    }

    /// Writes one packet.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn record(
        &mut self,
        end: End,
        crossing: Crossing,
        packet: &Packet,
        now: Instant,
    ) -> io::Result<()> {
        if packet.bytes.is_empty() {
            self.without_bytes += 1;
            return Ok(());
        }
        let flags = match crossing {
            Crossing::Inbound => 1,
            Crossing::Outbound => 2,
        };
        let block = EnhancedPacketBlock {
            interface_id: match end {
                End::A => 0,
                End::B => 1,
            },
            timestamp: now - Instant::ZERO,
            original_len: packet.bytes.len() as u32,
            data: Cow::Borrowed(&packet.bytes),
            options: vec![EnhancedPacketOption::Flags(flags)],
        };
        self.writer.write_pcapng_block(block).map_err(into_io)?;
        self.packets += 1;
        Ok(())
    }

    /// Packets written.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Packets that had no bytes to write.
    pub fn without_bytes(&self) -> u64 {
        self.without_bytes
    }

    /// The writer, flushed.
    ///
    /// # Errors
    /// When flushing fails.
    pub fn finish(self) -> io::Result<W> {
        let mut out = self.writer.into_inner();
        out.flush()?;
        Ok(out)
    }
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

/// A link with a capture at both of its ends. Behaves exactly like the link within.
pub struct Tap<L, W: Write> {
    link: L,
    /// The first error ends the capture, not the experiment.
    capture: io::Result<Capture<W>>,
}

impl<L: Link, W: Write> Tap<L, W> {
    /// Taps `link` and writes to `out`.
    ///
    /// # Errors
    /// When the file's header cannot be written.
    pub fn new(link: L, out: W, name: &str) -> io::Result<Self> {
        Ok(Tap { link, capture: Ok(Capture::new(out, name)?) })
    }

    /// The link within.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// The link and the writer, flushed.
    ///
    /// # Errors
    /// The first error since the start.
    pub fn finish(self) -> io::Result<(L, W)> {
        Ok((self.link, self.capture?.finish()?))
    }

    fn record(&mut self, end: End, crossing: Crossing, packet: &Packet, now: Instant) {
        if let Ok(capture) = &mut self.capture
            && let Err(error) = capture.record(end, crossing, packet, now)
        {
            self.capture = Err(error);
        }
    }
}

impl<L: Link, W: Write> Link for Tap<L, W> {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        self.record(end, Crossing::Outbound, &packet, now);
        self.link.offer(end, packet, now);
    }

    fn poll(&mut self, now: Instant) -> Output {
        let output = self.link.poll(now);
        if let Output::Deliver { end, packet } = &output {
            self.record(*end, Crossing::Inbound, packet, now);
        }
        output
    }
}

#[cfg(test)]
mod tests;
