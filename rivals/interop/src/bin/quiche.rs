//! quiche, which leaves sockets and timers to its user.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use quiche::{Config, ConnectionId, Header, PathEvent, Type};
use tack_quic_interop::{
    CLOSE, DATAGRAMS, DONE, MAX_REQUEST, NAME, Settings, WINDOW, check_echo, datagram, locked,
    request, run, say, speech,
};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

const CID_LEN: usize = 16;
const MAX_DATAGRAM: usize = 1_350;
/// Arrivals that wait.
const QUEUE: usize = 4_096;
/// Nothing waits longer to be looked at.
const TICK: Duration = Duration::from_millis(200);

fn main() -> Result<()> {
    run(&locked("quiche"), serve, ask)
}

fn config(set: &Settings) -> Result<Config> {
    // A reserved version begins with a negotiation.
    let begins = if set.is("negotiation") { 0x1a2a_3a4a } else { quiche::PROTOCOL_VERSION };
    let mut config = Config::new(begins)?;
    config.set_application_protos(&[set.protocol()])?;
    config.set_max_idle_timeout(30_000);
    config.set_max_send_udp_payload_size(MAX_DATAGRAM);
    config.set_initial_max_data(4 * u64::from(WINDOW));
    config.set_initial_max_stream_data_bidi_local(WINDOW.into());
    config.set_initial_max_stream_data_bidi_remote(WINDOW.into());
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(10);
    config.set_active_connection_id_limit(4);
    config.enable_dgram(set.is("datagrams"), 100, 100);
    if set.is_early() {
        config.enable_early_data();
    }
    Ok(config)
}

/// A datagram that arrived: its bytes, at which of our addresses, and from whom.
type Arrival = (Vec<u8>, SocketAddr, SocketAddr);

/// Our sockets, by address.
struct Sockets {
    all: BTreeMap<SocketAddr, Arc<UdpSocket>>,
    sender: mpsc::Sender<Arrival>,
    arrivals: mpsc::Receiver<Arrival>,
}

impl Sockets {
    fn new() -> Sockets {
        let (sender, arrivals) = mpsc::channel(QUEUE);
        Sockets { all: BTreeMap::new(), sender, arrivals }
    }

    async fn open(&mut self, at: SocketAddr) -> Result<SocketAddr> {
        let socket = Arc::new(UdpSocket::bind(at).await?);
        let local = socket.local_addr()?;
        let (reading, sender) = (socket.clone(), self.sender.clone());
        tokio::spawn(async move {
            let mut buffer = vec![0; 65_536];
            loop {
                if let Ok((n, from)) = reading.recv_from(&mut buffer).await
                    && sender.send((buffer[..n].to_vec(), local, from)).await.is_err()
                {
                    return;
                }
            }
        });
        self.all.insert(local, socket);
        Ok(local)
    }

    async fn send(&self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if let Some(socket) = self.all.get(&from) {
            let _ = socket.send_to(bytes, to).await;
        }
    }
}

/// A connection, and what is under way on its streams.
struct Talk {
    conn: quiche::Connection,
    heard: BTreeMap<u64, Vec<u8>>,
    saying: BTreeMap<u64, (Vec<u8>, usize)>,
    cids: BTreeSet<Vec<u8>>,
}

impl Talk {
    fn new(conn: quiche::Connection) -> Talk {
        let cids = BTreeSet::from([conn.source_id().to_vec()]);
        Talk { conn, heard: BTreeMap::new(), saying: BTreeMap::new(), cids }
    }

    fn say(&mut self, stream: u64, what: Vec<u8>) {
        self.saying.insert(stream, (what, 0));
    }

    /// Reads and writes what can be; what has been heard to its end.
    fn pump(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut done = Vec::new();
        let mut buffer = vec![0; 65_536];
        let readable: Vec<u64> = self.conn.readable().collect();
        for stream in readable {
            let heard = self.heard.entry(stream).or_default();
            while let Ok((n, end)) = self.conn.stream_recv(stream, &mut buffer) {
                heard.extend_from_slice(&buffer[..n]);
                if heard.len() > 16 * MAX_REQUEST {
                    bail!("too much is said");
                }
                if end {
                    break;
                }
            }
        }
        // Of an end that comes once more with bytes that were read before, it makes no stream readable.
        self.heard.retain(|stream, heard| {
            let has_ended = self.conn.stream_finished(*stream);
            if has_ended {
                done.push((*stream, std::mem::take(heard)));
            }
            !has_ended
        });
        for (stream, (what, at)) in &mut self.saying {
            // Done, or flow control has the rest wait.
            if let Ok(n) = self.conn.stream_send(*stream, &what[*at..], true) {
                *at += n;
            }
        }
        self.saying.retain(|_, (what, at)| *at < what.len());
        while self.conn.is_established() && self.conn.scids_left() > 0 {
            let cid = random::<CID_LEN>();
            let token = u128::from_be_bytes(random());
            if self.conn.new_scid(&ConnectionId::from_ref(&cid), token, false).is_err() {
                break;
            }
            self.cids.insert(cid.to_vec());
        }
        Ok(done)
    }

    async fn flush(&mut self, sockets: &Sockets) {
        let mut out = [0; MAX_DATAGRAM];
        while let Ok((n, info)) = self.conn.send(&mut out) {
            sockets.send(info.from, info.to, &out[..n]).await;
        }
    }
}

fn random<const N: usize>() -> [u8; N] {
    use std::io::Read;
    let mut bytes = [0; N];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.expect("there is a source of random bytes");
    bytes
}

async fn serve(set: Settings) -> Result<()> {
    let mut config = config(&set)?;
    config.load_cert_chain_from_pem_file(&set.cert.to_string_lossy())?;
    config.load_priv_key_from_pem_file(&set.key.to_string_lossy())?;
    let mut sockets = Sockets::new();
    sockets.open(set.at).await?;
    let mut talks: Vec<Talk> = Vec::new();
    loop {
        let timeout = talks.iter().filter_map(|talk| talk.conn.timeout()).min();
        tokio::select! {
            arrival = sockets.arrivals.recv() => {
                let arrival = arrival.context("sockets stay open")?;
                take(&set, &mut config, &sockets, &mut talks, arrival).await?;
            }
            () = tokio::time::sleep(timeout.unwrap_or(TICK).min(TICK)) => {
                talks.iter_mut().for_each(|talk| {
                    if talk.conn.timeout().is_some_and(|left| left.is_zero()) {
                        talk.conn.on_timeout();
                    }
                });
            }
        }
        for talk in &mut talks {
            answer(talk, &set)?;
            talk.flush(&sockets).await;
        }
        talks.retain(|talk| {
            if let Some(error) = talk.conn.peer_error().filter(|_| talk.conn.is_closed()) {
                say(format_args!("closed {}", error.error_code));
            }
            !talk.conn.is_closed()
        });
    }
}

/// A datagram arrived at the server.
async fn take(
    set: &Settings,
    config: &mut Config,
    sockets: &Sockets,
    talks: &mut Vec<Talk>,
    (mut bytes, local, from): Arrival,
) -> Result<()> {
    let Ok(header) = Header::from_slice(&mut bytes, CID_LEN) else { return Ok(()) };
    let known = talks.iter().position(|talk| talk.cids.contains(&header.dcid.to_vec()));
    let at = match known {
        Some(at) => at,
        None if header.ty == Type::Short => return Ok(()),
        None => {
            let mut out = [0; MAX_DATAGRAM];
            // Of another version the kind says nothing.
            if !quiche::version_is_supported(header.version) {
                let n = quiche::negotiate_version(&header.scid, &header.dcid, &mut out)?;
                sockets.send(local, from, &out[..n]).await;
                return Ok(());
            }
            if header.ty != Type::Initial {
                return Ok(());
            }
            let token = header.token.clone().unwrap_or_default();
            if set.is("retry") && token.is_empty() {
                let scid = random::<CID_LEN>();
                let scid = ConnectionId::from_ref(&scid);
                // Good enough between two programs: the token is the ID it replaces.
                let token = header.dcid.to_vec();
                let (dcid, version) = (&header.dcid, header.version);
                let n = quiche::retry(&header.scid, dcid, &scid, &token, version, &mut out)?;
                sockets.send(local, from, &out[..n]).await;
                return Ok(());
            }
            let original = ConnectionId::from_ref(&token);
            let original = set.is("retry").then_some(&original);
            let fresh = random::<CID_LEN>();
            let fresh = ConnectionId::from_ref(&fresh);
            let scid = if original.is_some() { &header.dcid } else { &fresh };
            let conn = quiche::accept(scid, original, local, from, config)?;
            let mut talk = Talk::new(conn);
            // Until the client knows the other.
            talk.cids.insert(header.dcid.to_vec());
            talks.push(talk);
            talks.len() - 1
        }
    };
    // What cannot be read is dropped.
    let _ = talks[at].conn.recv(&mut bytes, quiche::RecvInfo { from, to: local });
    Ok(())
}

fn answer(talk: &mut Talk, set: &Settings) -> Result<()> {
    for (stream, said) in talk.pump()? {
        match set.answer(&said)? {
            Some(body) => talk.say(stream, body),
            None => drop(talk.conn.close(true, CLOSE.into(), b"enough")),
        }
    }
    let mut buffer = [0; 2_000];
    while let Ok(n) = talk.conn.dgram_recv(&mut buffer) {
        let _ = talk.conn.dgram_send(&buffer[..n]);
    }
    while let Some(event) = talk.conn.path_event_next() {
        if let PathEvent::New(local, peer) = event {
            let _ = talk.conn.probe_path(local, peer);
        }
    }
    // Answers leave at once.
    talk.pump().map(|_| ())
}

async fn ask(set: Settings) -> Result<()> {
    let mut session = None;
    for _ in 0..set.connections() {
        session = converse(&set, session).await?;
    }
    Ok(())
}

/// A client's connection: one turn is all that can be done without waiting.
struct Client<'a> {
    set: &'a Settings,
    talk: Talk,
    sockets: Sockets,
    waiting: BTreeMap<u64, String>,
    next: u64,
    datagrams: usize,
}

impl Client<'_> {
    /// Sends, waits for something, and takes it.
    async fn turn(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut done = self.talk.pump()?;
        self.talk.flush(&self.sockets).await;
        let timeout = self.talk.conn.timeout().unwrap_or(TICK).min(TICK);
        tokio::select! {
            arrival = self.sockets.arrivals.recv() => {
                let (mut bytes, to, from) = arrival.context("sockets stay open")?;
                let _ = self.talk.conn.recv(&mut bytes, quiche::RecvInfo { from, to });
            }
            () = tokio::time::sleep(timeout) => {
                if self.talk.conn.timeout().is_some_and(|left| left.is_zero()) {
                    self.talk.conn.on_timeout();
                }
            }
        }
        while let Some(event) = self.talk.conn.path_event_next() {
            if let PathEvent::Validated(local, peer) = event {
                let _ = self.talk.conn.migrate(local, peer);
            }
        }
        let mut buffer = [0; 2_000];
        while self.talk.conn.dgram_recv(&mut buffer).is_ok() {
            self.datagrams += 1;
        }
        done.extend(self.talk.pump()?);
        self.talk.flush(&self.sockets).await;
        Ok(done)
    }

    fn check_open(&self) -> Result<()> {
        let conn = &self.talk.conn;
        if !conn.is_closed() && !conn.is_draining() {
            return Ok(());
        }
        bail!("it ended: {:?} {:?}", conn.peer_error(), conn.local_error())
    }

    fn say(&mut self, name: &str, what: Vec<u8>) {
        self.talk.say(self.next, what);
        self.waiting.insert(self.next, name.to_owned());
        self.next += 4;
    }

    /// Until everything that was asked for has come.
    async fn hear(&mut self) -> Result<Vec<u8>> {
        let mut last = Vec::new();
        while !self.waiting.is_empty() {
            for (stream, body) in self.turn().await? {
                let Some(name) = self.waiting.remove(&stream) else { continue };
                if name != "echo" {
                    self.set.store(&name, &body)?;
                }
                last = body;
            }
            if !self.waiting.is_empty() {
                self.check_open()?;
            }
        }
        Ok(last)
    }

    async fn fetch(&mut self, names: &[String]) -> Result<()> {
        for names in names.chunks(tack_quic_interop::PARALLEL) {
            for name in names {
                self.say(name, request(name));
            }
            self.hear().await?;
        }
        Ok(())
    }
}

/// What the next connection can go on with.
async fn converse(set: &Settings, session: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    let mut config = config(set)?;
    config.load_verify_locations_from_file(&set.ca.to_string_lossy())?;
    config.verify_peer(true);
    let mut sockets = Sockets::new();
    let local = sockets.open(set.any()).await?;
    let cid = random::<CID_LEN>();
    let cid = ConnectionId::from_ref(&cid);
    let mut conn = quiche::connect(Some(NAME), &cid, local, set.at, &mut config)?;
    if let Some(session) = session {
        conn.set_session(&session)?;
    }
    let talk = Talk::new(conn);
    let (waiting, next, datagrams) = (BTreeMap::new(), 0, 0);
    let mut client = Client { set, talk, sockets, waiting, next, datagrams };
    // With its first words it knows whether it may go on at once.
    client.talk.flush(&client.sockets).await;
    if client.talk.conn.is_in_early_data() {
        say("early");
    }
    while !client.talk.conn.is_established() && !client.talk.conn.is_in_early_data() {
        client.turn().await?;
        client.check_open()?;
    }
    match set.case.as_str() {
        "echo" => {
            client.say("echo", speech());
            let back = client.hear().await?;
            check_echo(&back)?;
        }
        "closed" => {
            client.say("close", request("close"));
            let _ = client.hear().await;
            let error = client.talk.conn.peer_error().context("nobody closed it")?;
            say(format_args!("closed {}", error.error_code));
            return Ok(None);
        }
        "reset" => {
            let (first, rest) = set.files.split_first().context("no file")?;
            client.fetch(std::slice::from_ref(first)).await?;
            say("ready");
            tack_quic_interop::told().await;
            let fetched = client.fetch(rest).await;
            let conn = &client.talk.conn;
            if fetched.is_ok() || conn.is_timed_out() || conn.peer_error().is_some() {
                bail!("it was not reset");
            }
            say("reset");
            return Ok(None);
        }
        "migration" => {
            let (first, rest) = set.files.split_first().context("no file")?;
            client.fetch(std::slice::from_ref(first)).await?;
            while client.talk.conn.available_dcids() == 0 {
                client.turn().await?;
            }
            let local = client.sockets.open(set.any()).await?;
            client.talk.conn.probe_path(local, set.at)?;
            say("moved");
            client.fetch(rest).await?;
        }
        _ => client.fetch(&set.files).await?,
    }
    if set.is("datagrams") {
        for number in 0..DATAGRAMS {
            client.talk.conn.dgram_send(&datagram(number))?;
        }
        while client.datagrams < DATAGRAMS {
            client.turn().await?;
            client.check_open()?;
        }
        say(format_args!("datagrams {DATAGRAMS}"));
    }
    while (set.is("resumption") || set.is_early()) && client.talk.conn.session().is_none() {
        client.turn().await?;
    }
    let session = client.talk.conn.session().map(<[u8]>::to_vec);
    client.talk.conn.close(true, DONE.into(), b"done")?;
    client.talk.flush(&client.sockets).await;
    Ok(session)
}
