//! The cases: what is asked for, over what path, and what shows that it happened.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::relay::{Conditions, Seen, V1, V2};

/// Which side is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// The peer serves.
    Client,
    /// The peer asks.
    Server,
}

impl Role {
    pub(crate) const BOTH: [Role; 2] = [Role::Client, Role::Server];
}

/// What is fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Files {
    /// One of 1 kB.
    Small,
    /// Three of one to two megabytes.
    Large,
    /// Two of 100 kB.
    Two,
    /// 200 of 32 bytes.
    Many,
}

impl Files {
    /// Names and lengths.
    pub(crate) fn list(self) -> Vec<(String, usize)> {
        match self {
            Files::Small => vec![("small".into(), 1_000)],
            Files::Large => vec![
                ("large0".into(), 1_000_000),
                ("large1".into(), 1_500_001),
                ("large2".into(), 2_000_003),
            ],
            Files::Two => vec![("two0".into(), 100_000), ("two1".into(), 100_003)],
            Files::Many => (0..200).map(|n| (format!("many{n}"), 32)).collect(),
        }
    }
}

/// A case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) files: Files,
    /// `None`: the two see each other.
    pub(crate) path: Option<Conditions>,
    pub(crate) h3: bool,
    /// How often the client is run.
    pub(crate) times: u32,
    pub(crate) patience: Duration,
}

fn case(name: &'static str, what: &'static str, files: Files) -> Case {
    let (path, h3, times) = (Some(Conditions::default()), false, 1);
    Case { name, what, files, path, h3, times, patience: Duration::from_secs(20) }
}

fn over(case: Case, path: Conditions) -> Case {
    Case { path: Some(path), patience: Duration::from_secs(40), ..case }
}

const MS: Duration = Duration::from_millis(1);

pub(crate) fn all() -> Vec<Case> {
    use Files::{Large, Many, Small, Two};
    let clean = Conditions::default();
    vec![
        case("handshake", "a handshake and 1 kB", Small),
        case("transfer", "three files of 1 to 2 MB at a time", Large),
        case("echo", "1.5 MB there and back on one stream", Small),
        case("multiplexing", "200 streams of 32 bytes", Many),
        case("chacha20", "only ChaCha20-Poly1305 is offered, or taken", Small),
        Case { path: None, ..case("ipv6", "over IPv6", Large) },
        over(
            case("longrtt", "200 ms each way", Two),
            Conditions { delay: 200 * MS, ..clean.clone() },
        ),
        over(
            case("loss", "5 % of all datagrams are lost, 10 ms each way", Large),
            Conditions { loss: 0.05, delay: 10 * MS, ..clean.clone() },
        ),
        over(
            case("corruption", "5 % of all datagrams are damaged, 10 ms each way", Large),
            Conditions { damage: 0.05, delay: 10 * MS, ..clean.clone() },
        ),
        Case {
            times: 5,
            ..over(
                case("handshakeloss", "30 % of all datagrams are lost, five connections", Small),
                Conditions { loss: 0.3, delay: 10 * MS, ..clean.clone() },
            )
        },
        over(
            case("blackhole", "nothing passes for 2 s in the midst of it", Large),
            Conditions { hole: Some((20, 2_000 * MS)), delay: 10 * MS, ..clean.clone() },
        ),
        case("retry", "the server asks for a token first", Small),
        case("resumption", "a second connection goes on with the first one's session", Small),
        over(
            case("zerortt", "a second connection asks in 0-RTT packets, which are taken", Two),
            Conditions { delay: 20 * MS, ..clean.clone() },
        ),
        over(
            case(
                "zerorttrefused",
                "a second connection asks in 0-RTT packets, of a server that was started anew and takes none",
                Many,
            ),
            Conditions { delay: 20 * MS, ..clean.clone() },
        ),
        over(
            case("keyupdate", "our side updates keys", Large),
            Conditions { delay: 10 * MS, ..clean.clone() },
        ),
        over(
            case("peerkeyupdate", "the peer updates keys", Large),
            Conditions { delay: 10 * MS, ..clean.clone() },
        ),
        case("negotiation", "the client begins with a version that the server has not", Small),
        case("v2", "QUIC version 2", Small),
        case(
            "compatible",
            "the client begins in version 1 and would rather speak version 2, then the other way round, and its \
             server goes on in what it prefers",
            Small,
        ),
        over(
            case("rebindport", "a NAT gives the client another port, twice", Large),
            Conditions { rebinds: vec![(30, 1), (90, 1)], delay: 10 * MS, ..clean.clone() },
        ),
        over(
            case("rebindaddress", "a NAT gives the client another address, twice", Large),
            Conditions { rebinds: vec![(30, 2), (90, 3)], delay: 10 * MS, ..clean.clone() },
        ),
        over(
            case("migration", "the client moves to another socket", Large),
            Conditions { delay: 10 * MS, ..clean.clone() },
        ),
        Case { path: None, ..case("ecn", "our marks arrive and are told of", Large) },
        case("datagrams", "20 datagrams there and back", Small),
        over(
            case("ackfrequency", "ACK_FREQUENCY is asked for and followed", Large),
            Conditions { delay: 20 * MS, ..clean.clone() },
        ),
        case("reset", "the server is started anew and knows nothing of the connection", Two),
        Case { h3: true, ..case("http3", "three files of 1 to 2 MB by HTTP/3", Large) },
        case("closed", "the server's application closes with code 9", Small),
    ]
}

/// What the programs said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) lines: Vec<String>,
}

impl Said {
    /// Somebody said so, with whatever reason behind it.
    pub(crate) fn has(&self, line: &str) -> bool {
        let begins = |said: &String| said.strip_prefix(line).map(|rest| rest.trim_end().to_owned());
        let is_whole = |rest: String| rest.is_empty() || rest.starts_with(' ');
        self.lines.iter().filter_map(begins).any(is_whole)
    }

    /// What our side reported: the greatest of each value over its connections.
    fn report(&self) -> BTreeMap<String, u64> {
        let mut report = BTreeMap::new();
        for line in self.lines.iter().filter_map(|line| line.strip_prefix("report ")) {
            for (key, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
                if let Ok(value) = value.parse::<u64>() {
                    let greatest = report.entry(key.to_owned()).or_insert(0);
                    *greatest = value.max(*greatest);
                }
            }
        }
        report
    }
}

/// Whether what the case is about has happened, beside that every byte arrived.
pub(crate) fn prove(
    case: &Case,
    role: Role,
    seen: &Seen,
    ours: &Said,
    theirs: &Said,
) -> Result<(), String> {
    let report = ours.report();
    let of = |key: &str| report.get(key).copied().unwrap_or(0);
    let must = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    match case.name {
        "retry" => must(seen.retries > 0, "no Retry was seen"),
        "resumption" => must(of("resumed") > 0, "it was not resumed"),
        "zerortt" => {
            must(seen.early > 0, "the client sent no 0-RTT")?;
            let is_refused = of("early_taken") == 0 || theirs.has("early refused");
            must(!is_refused, "what was said early was not taken")?;
            let was_heard = role == Role::Client || ours.has("heard early");
            must(was_heard, "our server heard nothing before the handshake was done")
        }
        "zerorttrefused" => {
            must(seen.early > 0, "the client sent no 0-RTT")?;
            let is_taken = of("early_taken") > 0 || theirs.has("early taken");
            must(!is_taken, "what was said early was taken")?;
            let is_told = role == Role::Server || of("early_refused") > 0;
            must(is_told, "our client does not know that it was refused")
        }
        "keyupdate" => must(of("updates") > 0, "our side updated no keys"),
        "peerkeyupdate" => must(of("updates") > 0, "the peer updated no keys"),
        "negotiation" => must(seen.negotiations > 0, "no Version Negotiation was seen"),
        "v2" => must(seen.versions.contains(&V2), "no packet of version 2 was seen"),
        "compatible" => {
            must(seen.changes.contains(&(V1, V2)), "no server went on from version 1 to 2")?;
            must(seen.changes.contains(&(V2, V1)), "no server went on from version 2 to 1")
        }
        "rebindport" | "rebindaddress" => {
            must(seen.rebinds > 0, "it was over before the NAT rebound")?;
            must(role == Role::Client || of("moves") > 0, "our server did not follow")
        }
        "migration" => {
            must(seen.flows > 1, "the client did not move")?;
            must(of("moves") > 0, "our side did not take note")
        }
        "ecn" => must(of("ecn") > 0, "marks were not told of"),
        "ackfrequency" => {
            must(of("frequencies") > 0, "we did not ask")?;
            let seldom = of("acks_received") * 4 < of("data_sent");
            must(seldom, "the peer acknowledges as often as ever")
        }
        _ => Ok(()),
    }
}

/// What a program has to say for a case to have passed: `true` if our side says it.
pub(crate) fn words(case: &Case, role: Role) -> Vec<(bool, &'static str)> {
    let client_is_ours = role == Role::Client;
    match case.name {
        "echo" => vec![(client_is_ours, "echoed 1500000")],
        "datagrams" => vec![(client_is_ours, "datagrams 20")],
        "reset" => vec![(client_is_ours, "reset")],
        "closed" => vec![(client_is_ours, "closed 9")],
        "negotiation" if client_is_ours => vec![(true, "negotiated")],
        _ => Vec::new(),
    }
}

/// Whether files have to arrive.
pub(crate) fn fetches(case: &Case, role: Role) -> bool {
    match case.name {
        "echo" | "closed" | "reset" => false,
        "negotiation" => role == Role::Server,
        _ => true,
    }
}
