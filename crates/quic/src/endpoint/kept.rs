//! Tokens that a client keeps for its next connections [RFC 9000 §8.1.3].

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::wire::Version;

/// Where a server is, what it is called, and in which version it was spoken to: a token is good for no other
/// [RFC 9369 §5].
pub(super) type Server = (SocketAddr, String, Version);

/// Tokens of servers that are kept, in all and of one of them.
const MAX_TOKENS: usize = 256;
const MAX_TOKENS_OF_ONE: usize = 4;

/// What servers gave us, the newest last.
#[derive(Debug, Default)]
pub(super) struct Tokens(VecDeque<(Server, Vec<u8>)>);

impl Tokens {
    /// A token for a connection to `server`, empty if there is none; it is used once.
    pub(super) fn take(&mut self, server: &Server) -> Vec<u8> {
        let newest = self.0.iter().rposition(|(of, _)| of == server);
        newest.and_then(|at| self.0.remove(at)).map_or(Vec::new(), |(_, token)| token)
    }

    /// `server` gave us a token.
    pub(super) fn keep(&mut self, server: Server, token: Vec<u8>) {
        let mut of_it = self.0.iter().enumerate().filter(|(_, (of, _))| *of == server);
        let oldest = of_it.next().map(|(at, _)| at);
        if let Some(at) = oldest.filter(|_| of_it.count() + 1 >= MAX_TOKENS_OF_ONE) {
            self.0.remove(at);
        }
        if self.0.len() >= MAX_TOKENS {
            self.0.pop_front();
        }
        self.0.push_back((server, token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(n: u16) -> Server {
        (SocketAddr::from(([192, 0, 2, 1], n)), "example".to_owned(), Version::V1)
    }

    #[test]
    fn the_newest_four_of_a_server_are_kept_and_each_is_used_once() {
        let mut tokens = Tokens::default();
        for n in 0..6 {
            tokens.keep(server(1), vec![n]);
            tokens.keep(server(2), vec![100 + n]);
        }
        let all: Vec<_> = (0..5).map(|_| tokens.take(&server(1))).collect();
        assert_eq!(all, [vec![5], vec![4], vec![3], vec![2], vec![]]);
        let of_v2 = (server(2).0, server(2).1, Version::V2);
        assert!(tokens.take(&of_v2).is_empty());
        assert_eq!(tokens.take(&server(2)), [105]);
    }

    #[test]
    fn no_number_of_servers_makes_it_keep_more() {
        let mut tokens = Tokens::default();
        for n in 0..1_000 {
            tokens.keep(server(n), vec![1]);
        }
        assert_eq!(tokens.0.len(), MAX_TOKENS);
        assert!(tokens.take(&server(0)).is_empty() && !tokens.take(&server(999)).is_empty());
    }
}
