//! The TACK acknowledgment mechanism, independent of TCP, sockets and clocks.
//!
//! TACK ("tame ACK") acknowledges as rarely as control allows: every `L` full-sized segments or
//! `beta` times per RTTmin, *whichever is less frequent*. What rare acknowledgments would break is
//! mended: the receiver detects loss, times the round trip and measures the delivery rate, and
//! instant ACKs (IACKs) report what cannot wait.
//!
//! Sources: \[TON\] is T. Li et al., "Revisiting Acknowledgment Mechanism for Transport Control:
//! Modeling, Analysis, and Implementation", IEEE/ACM Transactions on Networking, 2021; \[SIG\] is
//! T. Li et al., "TACK: Improving Wireless Transport Performance by Taming Acknowledgments",
//! SIGCOMM 2020. Places where this code departs from them say `Deviation:` and why.
//!
//! # The two halves
//!
//! [`Sender`] and [`Receiver`] are plain state machines: calls and a time go in, plain data and a
//! deadline come out. A connection that carries data both ways has one of each at both ends; they
//! share nothing. A host (TCP, QUIC, a toy) owns the bytes, reassembly, the wire format,
//! congestion control and pacing.
//!
//! ```text
//!           data (SEQ, PKT.SEQ, departure time)
//!   Sender ────────────────────────────────────► Receiver
//!      ▲    frequency IACK  ───────────────────►    │
//!      └──────────── TACK, IACK ────────────────────┘
//! ```
//!
//! # Hosting it: the order of calls
//!
//! Sending side:
//!
//! 1. [`Sender::new`]; give the handshake's RTT to [`Sender::on_cum_ack`] if there is one.
//! 2. When pacing and congestion control allow a packet: [`Sender::next_lost`] first, then new data.
//!    [`Sender::on_sent`] returns PKT.SEQ; put it on the packet with SEQ and a departure timestamp.
//!    When there is nothing to send although it were allowed: [`Sender::on_app_limited`].
//! 3. On feedback: [`Sender::on_tack`], [`Sender::on_iack`] or, for a cumulative acknowledgment on
//!    a data packet, [`Sender::on_cum_ack`]. Hand [`Acked`] to congestion control.
//! 4. After every feedback: [`Sender::poll_frequency`]; send what it returns as a frequency IACK.
//! 5. At [`Sender::deadline`]: [`Sender::on_timeout`]. On [`Timeout::Probe`] send one packet past
//!    the window (new data, else the last segment again); on [`Timeout::Rto`] tell congestion
//!    control, and go on at 2, with one segment in flight until something arrives where
//!    [`Sender::repairs_alone`].
//!
//! Receiving side:
//!
//! 1. [`Receiver::new`].
//! 2. On data: put it into the reassembly buffer, then [`Receiver::on_data`].
//!    When the application reads: [`Receiver::on_window`]. On a frequency IACK:
//!    [`Receiver::on_frequency`]; on an RTT-update IACK: [`Receiver::on_rtt_update`].
//! 3. After each of these, and at [`Receiver::deadline`]: [`Receiver::poll`] until `None`.
//!
//! After one change, drain the outputs before the next one. Numbers travel truncated:
//! [`PktSeq::expand`] restores PKT.SEQ near the next one expected; SEQ is the host's to unwrap.
//! `examples/toy.rs` hosts all of this in under 200 lines.
//!
//! # Bytes, or packets
//!
//! A host of one stream fills holes: what is lost is sent again as the same bytes, and what has
//! arrived becomes contiguous. A host of many streams (QUIC) packs what a lost packet carried anew, and
//! the number is never filled again. Its SEQ is PKT.SEQ:
//!
//! | | [`Bytes`] | [`Packets`] |
//! |---|---|---|
//! | sending | [`Sender::on_sent`] a range | [`Sender::on_packet`], `on_uncounted`, `skip` |
//! | what became of it | [`Sender::next_lost`]: send that range | [`Sender::poll_fate`] of each packet |
//! | [`Tack::holes`] | lost, and filled some time | told until the floor has passed them: [`RbbPolicy::Every`] |
//! | [`Buffer::rcv_nxt`] | the next byte expected | the floor; the host raises it once the sender knows, up to [`Receiver::settled_below`] |
//! | a loss is told at once | by a TACK that names the packets: [`Tack::lost`] | by a TACK: [`Receiver::tells_loss`] |
//! | packets that ask for nothing | have no PKT.SEQ | [`Receiver::on_unasked`] |
//!
//! `examples/toy_quic` hosts that.
//!
//! # From the papers' symbols to this code
//!
//! | Symbol | Name here | Unit | Where |
//! |---|---|---|---|
//! | `f` | [`equations::tack_frequency`]; in time form the receiver's schedule | Hz | Eq. 4, `receiver/schedule.rs` |
//! | `f_b`, `f_p`, `f_delayed` | [`equations::byte_counting_frequency`], [`periodic_frequency`](equations::periodic_frequency), [`delayed_frequency`](equations::delayed_frequency) | Hz | Eqs. 1 to 3 |
//! | `bw` | `bw` of [`Sender::poll_frequency`], from congestion control | [`Rate`](tack_units::Rate), bit/s | TON §VI-C |
//! | `MSS` | [`Params::mss`] | bytes | TON §IV-A |
//! | `L` | [`Params::segments_per_ack`], [`Frequency::segments_per_ack`] | segments | Eq. 1 |
//! | `beta` | [`Params::beta`] | TACKs per RTTmin | Eq. 4 |
//! | `alpha` | [`equations::alpha`], [`Frequency::interval`], [`Tack::interval`] | time | Eq. 2 |
//! | `RTTmin` | [`Sender::rtt_min`]; at the receiver [`Frequency::rtt_min`] | time | TON §V-B, `sender/rtt_min.rs` |
//! | `bdp` | [`equations::bdp`], [`Frequency::bdp`] | bytes | Eq. 4 |
//! | `rho` | [`Tack::rho`] per interval, [`Receiver::rho`] in the long run | share | TON §VI-C, `receiver/delivery.rs` |
//! | `rho'` | [`Sender::rho_prime`], [`Frequency::rho_prime`] | share | TON §VI-C, `sender/ack_loss.rs` |
//! | `Q` | [`RbbPolicy::Poor`], 1 in [`RbbPolicy::OnDemand`] | holes | Eq. 5 |
//! | `dQ` | [`equations::additional_blocks`] (a trigger only, see `receiver/report.rs`) | holes | TON §V-A |
//! | `tau` | [`Params::tau`] | time | TON §V-B |
//! | `theta_filter` | congestion control's window over [`Acked::rate`]; not here | TACK intervals | TON §VI-D |
//! | `t0*` | [`Timing::departure_us`] | us of the sender's clock | TON §V-B, `receiver/owd.rs` |
//! | `dt*` (TACK delay) | [`Timing::delay`] | time | TON §V-B, `receiver/owd.rs` |
//! | OWD | `OneWayDelay` | us, relative | TON §V-B, `receiver/owd.rs` |
//! | `t1` | `clock_us` of [`Sender::on_tack`] | us of the sender's clock | TON Fig. 5 |
//! | SEQ | `seq` of [`Sender::on_sent`]; the ranges of [`Buffer`] | bytes, 64 bits | TON §V-A |
//! | PKT.SEQ | [`PktSeq`] on the wire, `pkt_seq: u64` inside | transmissions | TON §V-A |
//! | Largest, second largest PKT.SEQ | the ends of a gap in [`IackReason::Loss`] | transmissions | TON Fig. 9 |
//! | HOL.SEQ | end of the first of [`Tack::holes`] | SEQ | TON §VI-B |
//! | RBB, "unacked list" | [`Tack::holes`], lost below [`Tack::settled_below`] | SEQ ranges | TON §VI-B, `receiver/report.rs` |
//! | "acked list" | [`Ranges`], [`Buffer::queued`] | SEQ ranges | TON §V-A |
//! | Received-inflight-data | [`Tack::received_in_flight`] | bytes | TON §VI-B |
//! | `d_delivered`, `delivery_rate` | [`Tack::delivery_rate`] | bit/s | TON §VI-D, `receiver/delivery.rs` |
//! | RWND | [`Tack::window`], [`Iack::window`] | bytes from `cum_ack` | TON §V-C |
//! | `W_min`, buffer | [`equations::minimum_window`], [`equations::bottleneck_buffer`] | bytes | TON §VIII |
//! | IACK delay (settling time) | [`Params::settling_divisor`] | RTTmin / divisor | TON §VIII, `receiver/loss.rs` |
//! | "once per RTT" | `OncePerRtt` | | TON §V-A, `sender/once_per_rtt.rs` |
//!
//! # Hostile peers
//!
//! Feedback that names what was never sent is ignored as a whole. PKT.SEQ may jump at will: gaps
//! are ranges, their number is bounded. A list of holes is read up to the first one that overlaps,
//! is inverted or lies beyond what the peer claims to have. A segment's retransmission is repeated
//! at most once per RTTmin whatever is claimed. Counters and clocks wrap and may lie: they bend
//! estimates of the connection that lies, and nothing else.

pub mod equations;
mod feedback;
mod pace;
mod params;
mod pkt_seq;
mod quota;
mod ranges;
mod receiver;
mod sender;

pub use feedback::{Acked, Frequency, Iack, IackReason, Regime, Tack, Timing};
pub use params::{Params, RbbPolicy, StartupAcks};
pub use pkt_seq::PktSeq;
pub use ranges::Ranges;
pub use receiver::{Arrival, Buffer, Feedback, Receiver};
pub use sender::{Bytes, Fate, Outstanding, Packets, Sender, Timeout};
