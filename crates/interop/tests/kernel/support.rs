//! What most tests begin with.

use std::time::Duration;

use tack_interop::world::within;
use tack_interop::{Family, World, sockets, stream};
use tack_link::queue::{Limit, QueueConfig};
use tack_link::wired::DirectionConfig;
use tack_net::{ConnConfig, TackListener, TackStream};
use tack_units::Rate;
use tokio::net::TcpStream;

/// More than anything here takes on a busy machine; a minute of silence is not among it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Who sends the first SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    We,
    Kernel,
}

impl Opener {
    pub(crate) const BOTH: [Opener; 2] = [Opener::We, Opener::Kernel];
}

/// A path at this rate with this delay each way; the queue holds a round trip, but 64 KiB at least.
pub(crate) fn way(mbps: u64, delay_ms: u64) -> DirectionConfig {
    let bytes = (mbps * delay_ms * 2 * 1_000 / 8).max(64 << 10);
    let delay = Duration::from_millis(delay_ms);
    DirectionConfig::clean(Rate::from_mbps(mbps), delay, Limit::Bytes(bytes))
}

/// The same with a queue that nothing here overflows.
pub(crate) fn roomy(mbps: u64, delay_ms: u64) -> DirectionConfig {
    DirectionConfig { queue: QueueConfig::drop_tail(Limit::Bytes(8 << 20)), ..way(mbps, delay_ms) }
}

/// A connection of ours with the peer, opened by either.
pub(crate) async fn pair(
    world: &World,
    family: Family,
    opener: Opener,
    conn: ConnConfig,
) -> (TackStream, TcpStream) {
    let opening = async {
        match opener {
            Opener::We => {
                let any_port = world.kernel(family, 0);
                let listener = sockets::listen(world.far(), any_port).unwrap();
                let to = listener.local_addr().unwrap();
                let connecting = world.endpoint.connect_plain_with(to, conn);
                let (ours, theirs) = tokio::join!(connecting, listener.accept());
                (ours.unwrap(), theirs.unwrap().0)
            }
            Opener::Kernel => {
                let (listener, port) = listen_anywhere(world, conn);
                let connecting = sockets::connect(world.far(), world.ours(family, port));
                let (theirs, ours) = tokio::join!(connecting, listener.accept());
                (ours.unwrap().0, theirs.unwrap())
            }
        }
    };
    within(LIMIT, &format!("opening over {family:?} by {opener:?}"), opening).await
}

/// Listens on a port that is free in this world: the next one.
fn listen_anywhere(world: &World, conn: ConnConfig) -> (TackListener, u16) {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let port = NEXT.fetch_add(1, Ordering::Relaxed);
    (world.listen(port, conn), port)
}

/// Both send so much at once, end their halves, and get what the other sent.
pub(crate) async fn talk(ours: &mut TackStream, theirs: &mut TcpStream, bytes: u64) {
    let both = async {
        tokio::join!(stream::exchange(ours, 1, bytes), stream::exchange(theirs, 2, bytes + 1))
    };
    let (ours, theirs) = within(LIMIT, &format!("twice {bytes} bytes"), both).await;
    let ((we_sent, we_got), (they_sent, they_got)) = (ours.unwrap(), theirs.unwrap());
    assert_eq!(we_sent, they_got, "we to the kernel");
    assert_eq!(they_sent, we_got, "the kernel to us");
}

/// We send so much, then end; nothing comes back.
pub(crate) async fn we_send(ours: &mut TackStream, theirs: &mut TcpStream, bytes: u64) {
    let both = async { tokio::join!(stream::send_all(ours, 3, bytes), stream::receive(theirs)) };
    let (sent, got) = within(LIMIT, &format!("{bytes} bytes of ours"), both).await;
    assert_eq!(sent.unwrap(), got.unwrap(), "we to the kernel");
}

/// The kernel sends so much, then ends.
pub(crate) async fn they_send(theirs: &mut TcpStream, ours: &mut TackStream, bytes: u64) {
    let both = async { tokio::join!(stream::send_all(theirs, 4, bytes), stream::receive(ours)) };
    let (sent, got) = within(LIMIT, &format!("{bytes} bytes of the kernel's"), both).await;
    assert_eq!(sent.unwrap(), got.unwrap(), "the kernel to us");
}
