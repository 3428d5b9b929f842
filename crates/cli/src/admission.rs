//! Who may come in: keys that are known, whoever was told a code, or anybody.
//!
//! Both ends of an encrypted connection show keys, and the handshake proves that they own them. Then,
//! before any protocol, the client says how it means to come in:
//!
//! ```text
//! client                                   server
//!   0                                ->            by its key
//!   1, SPAKE2 message A (33 bytes)   ->            by a code, if its key is not known
//!                                    <-    0       come in
//!                                    <-    1, SPAKE2 message B (33 bytes)
//!   confirmation (32 bytes)          ->
//!                                    <-    2, confirmation (32 bytes): come in
//!                                    <-    3..6    no, and why
//! ```
//!
//! The code is never sent, nor anything it could be found out from. Both keys' fingerprints are the
//! identities of the exchange [RFC 9382 §3.3], so that whoever sits in between shares no secret with
//! either end. A wrong code costs a connection and one of few tries; the server confirms only after
//! the client has. A code lets one key in, which is known from then on as long as the server runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spake2::{Ed25519Group, Identity, Password, Spake2};
use tack_net::tls::Fingerprint;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::exit::{ExitCode, Failure};
use tack_net::budget::{Network, Peer};

/// Bytes of either message of SPAKE2 over Ed25519.
const MESSAGE: usize = 33;

/// Tries of one peer, none of which was right, after which it is not listened to any more until there is a new code.
const MAX_TRIES_OF_PEER: usize = 5;

/// The same of all together, after which the code is void: one chance in 40 million.
const MAX_TRIES: usize = 100;

/// Longest file of keys.
const MAX_KEYS_BYTES: u64 = 4 << 20;

const BY_KEY: u8 = 0;
const BY_CODE: u8 = 1;

const COME_IN: u8 = 0;
const GO_ON: u8 = 1;
const CONFIRMED: u8 = 2;
const UNKNOWN_KEY: u8 = 3;
const WRONG_CODE: u8 = 4;
const CODE_NEEDED: u8 = 5;
const NO_CODE: u8 = 6;

/// A short secret to be spoken or typed: two words of five letters, 32 bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(String);

/// Text that is no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a code is two words of five letters, such as lusab-babad")]
pub struct ParseCodeError;

const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
const VOWELS: &[u8; 4] = b"aiou";

impl Code {
    /// The code of these bits: consonants say four of them, vowels two.
    pub fn new(bits: u32) -> Code {
        let word = |bits: u32| {
            let consonant = |shift: u32| CONSONANTS[(bits >> shift & 15) as usize];
            let vowel = |shift: u32| VOWELS[(bits >> shift & 3) as usize];
            [consonant(12), vowel(10), consonant(6), vowel(4), consonant(0)].map(char::from)
        };
        let words = [word(bits >> 16), word(bits & 0xffff)].map(String::from_iter);
        Code(words.join("-"))
    }

    /// One that nobody can guess.
    fn random() -> io::Result<Code> {
        let mut bits = [0; 4];
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut bits[..], flags)? {
            4 => Ok(Code::new(u32::from_be_bytes(bits))),
            _ => Err(io::Error::other("the system gave too few random numbers")),
        }
    }

    fn password(&self) -> Password {
        Password::new(self.0.as_bytes())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(..)")
    }
}

impl FromStr for Code {
    type Err = ParseCodeError;

    /// However it is spelled: capitals, spaces or dashes.
    fn from_str(text: &str) -> Result<Self, ParseCodeError> {
        let lower = text.to_ascii_lowercase();
        let letters: Vec<u8> = lower.bytes().filter(|b| !b" -_".contains(b)).take(11).collect();
        let fits = |(i, letter): (usize, &u8)| match i % 5 {
            1 | 3 => VOWELS.contains(letter),
            _ => CONSONANTS.contains(letter),
        };
        if letters.len() != 10 || !letters.iter().enumerate().all(fits) {
            return Err(ParseCodeError);
        }
        let word = |range| String::from_utf8_lossy(&letters[range]).into_owned();
        Ok(Code(format!("{}-{}", word(0..5), word(5..10))))
    }
}

/// Keys that may come in, from a file: a fingerprint a line, and whatever follows it is a comment.
///
/// # Errors
/// The file cannot be read, or a line of it.
pub fn authorized_keys(path: &Path) -> Result<BTreeSet<Fingerprint>, Failure> {
    let failed =
        |why: String| Failure::new(ExitCode::Untrusted, format!("{}: {why}", path.display()));
    let meta = std::fs::metadata(path).map_err(|e| failed(e.to_string()))?;
    if meta.len() > MAX_KEYS_BYTES {
        return Err(failed(format!("it is longer than {MAX_KEYS_BYTES} bytes")));
    }
    let mode = meta.mode() & 0o777;
    if meta.is_file() && mode & 0o002 != 0 {
        let why =
            format!("anybody on this machine may write it (mode {mode:03o}), and so let others in");
        return Err(failed(format!("{why}; `chmod o-w` it")));
    }
    // A comment may be in whatever spelling its editor has; a key is ASCII.
    let bytes = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
    let lines = text.lines().map(str::trim).enumerate();
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    keys.map(|(index, line)| {
        let key = line.split_whitespace().next().unwrap_or_default();
        key.parse().map_err(|e| failed(format!("line {}: {e}; `tack key` prints one", index + 1)))
    })
    .collect()
}

/// What lets clients in. Clones are the same door.
#[derive(Clone, Debug)]
pub struct Door(Arc<Mutex<Rules>>);

#[derive(Debug)]
struct Rules {
    open: bool,
    keys: BTreeSet<Fingerprint>,
    code: Option<Code>,
    /// Whether there is a new code after one was used.
    again: bool,
    /// Tries with this code that were wrong, broke off, or are under way. The right one ends it.
    tries: usize,
    tries_by_network: BTreeMap<Network, usize>,
}

/// How a client came in, or did not.
#[derive(Debug)]
pub enum Admission {
    /// By its key, or because anybody may.
    In,
    /// By the code. The next one, if there is one.
    ByCode(Option<Code>),
    /// Not. If that made the code void, the next one.
    Refused(&'static str, Option<Code>),
}

impl Door {
    /// For anybody.
    pub fn open() -> Door {
        Door::new(true, BTreeSet::new(), None, false)
    }

    /// For whoever has one of these keys.
    pub fn for_keys(keys: BTreeSet<Fingerprint>) -> Door {
        Door::new(false, keys, None, false)
    }

    /// For whoever is told a code, and, `again`, for others who are told the next one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn for_code(own: Fingerprint, again: bool) -> io::Result<Door> {
        Ok(Door::new(false, BTreeSet::from([own]), Some(Code::random()?), again))
    }

    fn new(open: bool, keys: BTreeSet<Fingerprint>, code: Option<Code>, again: bool) -> Door {
        let (tries, tries_by_network) = (0, BTreeMap::new());
        Door(Arc::new(Mutex::new(Rules { open, keys, code, again, tries, tries_by_network })))
    }

    /// Whether anybody may come in.
    pub fn is_open(&self) -> bool {
        self.lock().open
    }

    /// What to tell whoever is to come in.
    pub fn code(&self) -> Option<Code> {
        self.lock().code.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a client in that shows `key` from the address of `peer`, or does not. `own` is our key.
    ///
    /// # Errors
    /// The connection broke, or the client speaks something else.
    pub async fn admit(
        &self,
        conn: &mut (impl AsyncRead + AsyncWrite + Unpin),
        own: Fingerprint,
        key: Option<Fingerprint>,
        peer: Peer,
    ) -> io::Result<Admission> {
        let wish = conn.read_u8().await?;
        let mut message = [0; MESSAGE];
        match wish {
            BY_KEY => {}
            BY_CODE => drop(conn.read_exact(&mut message).await?),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "not tack's opening")),
        }
        let looked = self.lock().look(wish == BY_CODE, key, peer)?;
        let code = match looked {
            Ok(code) => code,
            Err((verdict, admission)) => {
                say(conn, &[verdict]).await?;
                return Ok(admission);
            }
        };
        let (from, to) = identities(key, own);
        let (exchange, ours) = Spake2::<Ed25519Group>::start_b(&code.password(), &from, &to);
        say(conn, &[&[GO_ON], &ours[..]].concat()).await?;
        let mut theirs = [0; 32];
        conn.read_exact(&mut theirs).await?;
        let secret = exchange.finish(&message).ok();
        let right = secret.as_ref().is_some_and(|s| confirmation(s, CLIENT) == theirs);
        let Some(secret) = secret.filter(|_| right) else {
            let next = self.lock().wrong(&code)?;
            say(conn, &[WRONG_CODE]).await?;
            return Ok(Admission::Refused("a wrong code", next));
        };
        let used = self.lock().used(&code, key)?;
        let Some(next) = used else {
            // Somebody else was faster.
            say(conn, &[NO_CODE]).await?;
            return Ok(Admission::Refused("a code that was used already", None));
        };
        say(conn, &[&[CONFIRMED], &confirmation(&secret, SERVER).as_bytes()[..]].concat()).await?;
        Ok(Admission::ByCode(next))
    }
}

impl Rules {
    /// The code to be shown, which is a try, or else the verdict and what comes of it. A try counts
    /// from here on, whatever becomes of it: of many at once no more are listened to.
    fn look(
        &mut self,
        by_code: bool,
        key: Option<Fingerprint>,
        peer: Peer,
    ) -> io::Result<Result<Code, (u8, Admission)>> {
        let refused = |verdict, why, next| Ok(Err((verdict, Admission::Refused(why, next))));
        if self.open || key.is_some_and(|key| self.keys.contains(&key)) {
            return Ok(Err((COME_IN, Admission::In)));
        }
        let Some(code) = &self.code else {
            return match by_code {
                true => refused(NO_CODE, "a client with a code", None),
                false => refused(UNKNOWN_KEY, "a client whose key is not authorized", None),
            };
        };
        if !by_code {
            return refused(CODE_NEEDED, "a client without a code", None);
        }
        let too_many = "another try after too many wrong codes";
        if self.tries >= MAX_TRIES {
            let next = self.renew(true)?;
            return refused(WRONG_CODE, too_many, next);
        }
        let (networks, shares) = (peer.networks(), peer.shares(MAX_TRIES_OF_PEER, MAX_TRIES));
        let tries_of = |network| self.tries_by_network.get(network).copied().unwrap_or(0);
        if networks.iter().zip(shares).any(|(network, share)| tries_of(network) >= share) {
            return refused(WRONG_CODE, too_many, None);
        }
        for network in networks {
            *self.tries_by_network.entry(network).or_default() += 1;
        }
        self.tries += 1;
        Ok(Ok(code.clone()))
    }

    /// A try was wrong. The next code if that made this one void.
    fn wrong(&mut self, code: &Code) -> io::Result<Option<Code>> {
        if self.code.as_ref() != Some(code) || self.tries < MAX_TRIES {
            return Ok(None);
        }
        self.renew(true)
    }

    /// The code was right: that key is known now. `None` if it is not the code any more.
    fn used(&mut self, code: &Code, key: Option<Fingerprint>) -> io::Result<Option<Option<Code>>> {
        if self.code.as_ref() != Some(code) {
            return Ok(None);
        }
        self.keys.extend(key);
        self.renew(self.again).map(Some)
    }

    fn renew(&mut self, again: bool) -> io::Result<Option<Code>> {
        self.code = if again { Some(Code::random()?) } else { None };
        (self.tries, self.tries_by_network) = (0, BTreeMap::new());
        Ok(self.code.clone())
    }
}

/// How a client was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Welcome {
    /// The server knows the code: it is who we think.
    ByCode,
    /// Without one.
    ByKey,
}

/// Asks to be let in, with a code if there is one.
///
/// # Errors
/// No, and why; or the connection broke.
pub async fn ask(
    conn: &mut (impl AsyncRead + AsyncWrite + Unpin),
    own: Option<Fingerprint>,
    server: Fingerprint,
    code: Option<&Code>,
) -> Result<Welcome, Failure> {
    let (from, to) = identities(own, server);
    let started = code.map(|c| Spake2::<Ed25519Group>::start_a(&c.password(), &from, &to));
    let wish = started.as_ref().map_or(vec![BY_KEY], |(_, m)| [&[BY_CODE], &m[..]].concat());
    say(conn, &wish).await.map_err(broke)?;
    let verdict = conn.read_u8().await.map_err(broke)?;
    let exchange = match (verdict, started) {
        (COME_IN, _) => return Ok(Welcome::ByKey),
        (GO_ON, Some((exchange, _))) => exchange,
        (verdict, _) => return Err(refusal(verdict)),
    };
    let mut theirs = [0; MESSAGE];
    conn.read_exact(&mut theirs).await.map_err(broke)?;
    let secret = exchange.finish(&theirs).map_err(|_| refusal(WRONG_CODE))?;
    say(conn, confirmation(&secret, CLIENT).as_bytes()).await.map_err(broke)?;
    match conn.read_u8().await.map_err(broke)? {
        CONFIRMED => {}
        verdict => return Err(refusal(verdict)),
    }
    let mut confirmed = [0; 32];
    conn.read_exact(&mut confirmed).await.map_err(broke)?;
    if confirmation(&secret, SERVER) != confirmed {
        return Err(refusal(WRONG_CODE));
    }
    Ok(Welcome::ByCode)
}

/// Asks to be let in by our key, and does not wait for the answer, which comes before anything else: for a server that
/// is known to be the right one, and may hear meanwhile what we want.
///
/// # Errors
/// The connection broke.
pub async fn ask_ahead(
    conn: &mut (impl AsyncWrite + Unpin),
    host: &str,
) -> Result<Awaited, Failure> {
    say(conn, &[BY_KEY]).await.map_err(broke)?;
    Ok(Awaited { host: host.to_owned() })
}

/// The server's word on whether we may come in, which was asked for.
#[derive(Debug)]
pub struct Awaited {
    host: String,
}

impl Awaited {
    /// What was read of it: a byte, or none at the end of the stream.
    ///
    /// # Errors
    /// We may not, which is a [`Failure`] inside of the error, or it never came.
    pub fn heard(self, read: io::Result<Option<u8>>) -> io::Result<()> {
        let failure = match read {
            Ok(Some(COME_IN)) => return Ok(()),
            Ok(Some(verdict)) => refusal(verdict),
            Ok(None) => broke(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => broke(error),
        };
        let message = format!("{}: {}", self.host, failure.message);
        Err(io::Error::other(Failure { message, ..failure }))
    }
}

fn broke(error: io::Error) -> Failure {
    Failure::new(ExitCode::Failed, format!("the connection broke at the door: {error}"))
}

fn refusal(verdict: u8) -> Failure {
    let why = match verdict {
        UNKNOWN_KEY => {
            "the other side does not know your key; `tack key` prints it, and a line with it in \
             its file of authorized keys lets you in"
        }
        WRONG_CODE => {
            "the code is wrong, or somebody is in between; each code may be tried a few times only"
        }
        CODE_NEEDED => "the other side wants the code that it shows: give it with --code",
        NO_CODE => "that code was used already, or the other side takes none",
        // Nobody's word: whatever was lost on the way is asked for again.
        _ => {
            let why = "the other side is no `tack` that knows who may come in";
            return Failure::new(ExitCode::Failed, why);
        }
    };
    Failure::new(ExitCode::Untrusted, why)
}

async fn say(conn: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    conn.write_all(bytes).await?;
    conn.flush().await
}

/// Who exchanges: both keys, as each end sees them.
fn identities(client: Option<Fingerprint>, server: Fingerprint) -> (Identity, Identity) {
    let client = client.map(|key| key.to_string()).unwrap_or_default();
    (Identity::new(client.as_bytes()), Identity::new(server.to_string().as_bytes()))
}

const CLIENT: &str = "tack admission: the client knows the code";
const SERVER: &str = "tack admission: the server knows the code";

/// Proves knowledge of the secret. Comparing two of them takes the same time whatever they are.
fn confirmation(secret: &[u8], whose: &str) -> blake3::Hash {
    blake3::Hash::from_bytes(blake3::derive_key(whose, secret))
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
