//! What a connection tells about itself while it works: acknowledgments by kind, RTT, rate.
//!
//! `cargo run --release -p tack-net --example statistics`

use std::error::Error;
use std::time::Duration;

use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tack_net::{Endpoint, TackInfo};
use tokio::io::{AsyncWriteExt, copy, sink};
use tokio::time::interval;

const BYTES: usize = 16 << 20;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let identity = ServerIdentity::generate(&["localhost"])?;
    let server = Endpoint::bind("127.0.0.1:0".parse()?)?;
    let listener = server.listen(Acceptor::new(&identity)?)?;
    let reading = tokio::spawn(async move {
        let (mut stream, _peer) = listener.accept().await?;
        copy(&mut stream, &mut sink()).await?;
        stream.shutdown().await
    });

    let client = Endpoint::bind("127.0.0.1:0".parse()?)?;
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint()))?;
    let mut stream = client.connect(&server.local_addr().to_string(), &connector).await?;
    // Looks on from beside, and does not keep the stream open.
    let watch = stream.get_ref().watch();
    let looking = tokio::spawn(async move {
        let mut ticks = interval(Duration::from_millis(20));
        while let Some(info) = watch.info() {
            say(&info);
            ticks.tick().await;
        }
    });
    stream.write_all(&vec![7; BYTES]).await?;
    stream.shutdown().await?;
    stream.get_ref().finished().await?;
    let end = stream.get_ref().info();
    say(&end);
    drop(stream);
    looking.await?;
    reading.await??;
    // `mode` is plain where the peer or the path knows no TACK.
    println!("{:?}; {:?}", end.mode, client.io_counters());
    Ok(())
}

fn say(info: &TackInfo) {
    let (counters, acks) = (&info.counters, &info.counters.acks_received);
    println!(
        "{:>9} bytes acknowledged, {:>6} data packets, {:>4} TACKs, {:>3} IACKs, srtt {:?}, rate {:?}",
        counters.bytes_acked,
        counters.data_segments_sent,
        acks.tack,
        acks.total() - acks.tack,
        info.srtt.unwrap_or_default(),
        info.delivery_rate,
    );
}
