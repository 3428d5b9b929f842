//! What both stacks have in common. noq began as quinn and kept its names, on types of its own: so the
//! code is one, and a macro, made once for each. What differs is a function in each stack's file:
//! `endpoint`, `handle`, `poll_transmit`, `deadline`, `info`, `congestion`.

/// Defines the guest of the stack in crate `$proto`, called `$name`.
macro_rules! guest {
    ($proto:ident, $name:literal) => {
        use core::time::Duration;
        use std::collections::VecDeque;
        use std::sync::Arc;

        use tack_link::PacketKind;
        use tack_sim::{Guest, GuestInfo, Stream};
        use tack_tcp::ConnectionError as Ended;
        use tack_units::Instant;
        use $proto::{
            AckFrequencyConfig, ClientConfig, Connection, ConnectionError, ConnectionHandle,
            DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event, ReadError,
            ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
        };

        use crate::tls::{NAME, identity};
        use crate::{PEER, Settings, SetupError, WINDOW_BYTES};

        pub(crate) fn pair(settings: &Settings) -> Result<[Box<dyn Guest>; 2], SetupError> {
            let transport = Arc::new(transport(settings)?);
            let identity = identity()?;
            let trusted = identity.roots.clone();
            let failed = |e: &dyn std::fmt::Display| SetupError::Tls(e.to_string());
            let mut client = ClientConfig::with_root_certificates(Arc::new(identity.roots))
                .map_err(|e| failed(&e))?;
            client.transport_config(Arc::clone(&transport));
            let chain = vec![identity.certificate];
            let mut server =
                ServerConfig::with_single_cert(chain, identity.key).map_err(|e| failed(&e))?;
            server.transport_config(transport);
            let connecting: Box<dyn Guest> = match settings.ours_connects {
                true => crate::ours::client(settings, trusted)?,
                false => Box::new(Stack::new(settings, Some(client), None)),
            };
            let listening = Stack::new(settings, None, Some(Arc::new(server)));
            Ok([connecting, Box::new(listening)])
        }

        fn transport(settings: &Settings) -> Result<TransportConfig, SetupError> {
            // What it sends is acknowledgments, where ours sends the data.
            let controller =
                if settings.ours_connects { Algorithm::NewReno } else { settings.congestion };
            let mut config = TransportConfig::default();
            let window: VarInt = settings.recv_window.unwrap_or(WINDOW_BYTES).into();
            config
                .congestion_controller_factory(congestion(controller)?)
                .stream_receive_window(window)
                .receive_window(window)
                .send_window(WINDOW_BYTES.into())
                .enable_segmentation_offload(false);
            if let Some(acks) = settings.acks {
                let varint = |n| VarInt::from_u64(n).map_err(|_| SetupError::Threshold(n));
                let mut frequency = AckFrequencyConfig::default();
                frequency
                    .ack_eliciting_threshold(varint(acks.ack_eliciting_threshold)?)
                    .max_ack_delay(Some(acks.max_ack_delay))
                    .reordering_threshold(varint(acks.reordering_threshold)?);
                config.ack_frequency_config(Some(frequency));
            }
            Ok(config)
        }

        /// One end.
        struct Stack {
            endpoint: Endpoint,
            conn: Option<(ConnectionHandle, Connection)>,
            /// The connecting end's, until it connects.
            client: Option<ClientConfig>,
            stream: Option<StreamId>,
            /// What the endpoint sends apart from the connection.
            replies: VecDeque<Vec<u8>>,
            /// Time zero in the stack's own clock, which has none: only differences count.
            epoch: std::time::Instant,
            deadline: Option<Instant>,
            ecn: bool,
            written: u64,
            /// Bytes of datagrams.
            sent: u64,
            at_end: bool,
            closed: Option<Result<(), Ended>>,
            failure: Option<String>,
            info: Option<GuestInfo>,
        }

        impl core::fmt::Debug for Stack {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let Stack { stream, written, at_end, closed, .. } = self;
                let name = $name;
                write!(f, "{name}: {stream:?}, {written} written, end {at_end}, {closed:?}")
            }
        }

        impl Stack {
            fn new(
                settings: &Settings,
                client: Option<ClientConfig>,
                server: Option<Arc<ServerConfig>>,
            ) -> Self {
                let mut seed = settings.seed;
                // Both ends draw, and not the same.
                seed[0] ^= u8::from(client.is_some());
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the stack's instants have no other origin; none is compared with it"
                )]
                let epoch = std::time::Instant::now();
                Stack {
                    endpoint: endpoint(server, seed),
                    conn: None,
                    client,
                    stream: None,
                    replies: VecDeque::new(),
                    epoch,
                    deadline: None,
                    ecn: settings.ecn,
                    written: 0,
                    sent: 0,
                    at_end: false,
                    closed: None,
                    failure: None,
                    info: None,
                }
            }

            fn at(&self, now: Instant) -> std::time::Instant {
                self.epoch + Duration::from_nanos(now.as_nanos())
            }

            /// After whatever changed the connection: its talk with the endpoint, its events, its
            /// timer.
            fn settle(&mut self) {
                let Some((handle, conn)) = &mut self.conn else { return };
                while let Some(event) = conn.poll_endpoint_events() {
                    if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                        conn.handle_event(answer);
                    }
                }
                while let Some(event) = conn.poll() {
                    match event {
                        Event::Connected if conn.side().is_client() => {
                            self.stream = conn.streams().open(Dir::Bi);
                        }
                        Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                            self.stream = conn.streams().accept(Dir::Bi).or(self.stream);
                        }
                        Event::ConnectionLost { reason } => {
                            self.closed = Some(ended(&reason));
                            let failed = self.closed.is_some_and(|ended| ended.is_err());
                            self.failure = failed.then(|| reason.to_string());
                        }
                        _ => {}
                    }
                }
                self.info = Some(GuestInfo { failure: self.failure.clone(), ..info(conn) });
                self.deadline = deadline(conn).map(|at| {
                    let since = at.saturating_duration_since(self.epoch).as_nanos();
                    Instant::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
                });
            }
        }

        /// In the words of our own stack.
        fn ended(reason: &ConnectionError) -> Result<(), Ended> {
            match reason {
                ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_) => Ok(()),
                ConnectionError::TimedOut => Err(Ended::TimedOut),
                _ => Err(Ended::Reset),
            }
        }

        impl Stream for Stack {
            fn read(&mut self, take: &mut dyn FnMut(&[u8]), _now: Instant) {
                let (Some((_, conn)), Some(id)) = (&mut self.conn, self.stream) else { return };
                let mut recv = conn.recv_stream(id);
                // A stream that ended, or was reset, is closed.
                let Ok(mut chunks) = recv.read(true) else { return };
                loop {
                    match chunks.next(usize::MAX) {
                        Ok(Some(chunk)) => take(&chunk.bytes),
                        Ok(None) => {
                            self.at_end = true;
                            break;
                        }
                        Err(ReadError::Blocked | ReadError::Reset(_)) => break,
                    }
                }
                let _ = chunks.finalize();
            }

            fn at_end(&self) -> bool {
                self.at_end
            }

            /// As near as the stack tells: what was written less what left, overhead and repetitions
            /// included.
            fn unsent(&self) -> u64 {
                self.written.saturating_sub(self.sent)
            }

            fn write(&mut self, bytes: &[u8], _now: Instant) -> Option<usize> {
                let (Some((_, conn)), Some(id)) = (&mut self.conn, self.stream) else {
                    return Some(0);
                };
                match conn.send_stream(id).write(bytes) {
                    Ok(taken) => {
                        self.written += taken as u64;
                        Some(taken)
                    }
                    Err(WriteError::Blocked) => Some(0),
                    Err(_) => None,
                }
            }

            fn finish(&mut self, _now: Instant) -> bool {
                let (Some((_, conn)), Some(id)) = (&mut self.conn, self.stream) else {
                    return false;
                };
                conn.send_stream(id).finish().is_ok()
            }
        }

        impl Guest for Stack {
            fn connect(&mut self, now: Instant) {
                let Some(config) = self.client.take() else { return };
                let at = self.at(now);
                let opened = self.endpoint.connect(at, config, PEER, NAME);
                self.conn = Some(opened.expect("its configuration is ours"));
                self.settle();
            }

            fn handle(&mut self, datagram: &[u8], ecn: u8, now: Instant) {
                let at = self.at(now);
                let mut reply = Vec::new();
                let ecn = EcnCodepoint::from_bits(ecn);
                match handle(&mut self.endpoint, at, ecn, datagram, &mut reply) {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        if let Some((ours, conn)) = &mut self.conn
                            && *ours == handle
                        {
                            conn.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        if self.conn.is_some() {
                            self.endpoint.ignore(incoming);
                        } else if let Ok(opened) =
                            self.endpoint.accept(incoming, at, &mut reply, None)
                        {
                            self.conn = Some(opened);
                        } else if !reply.is_empty() {
                            self.replies.push_back(reply);
                        }
                    }
                    Some(DatagramEvent::Response(_)) => self.replies.push_back(reply),
                    None => {}
                }
                self.settle();
            }

            fn poll_transmit(
                &mut self,
                out: &mut Vec<u8>,
                now: Instant,
            ) -> Option<(PacketKind, u8)> {
                if let Some(reply) = self.replies.pop_front() {
                    *out = reply;
                    return Some((PacketKind::Ack, 0));
                }
                let at = self.at(now);
                let (_, conn) = self.conn.as_mut()?;
                let before = stream_frames(conn);
                let ecn = poll_transmit(conn, at, out);
                let is_data = stream_frames(conn) > before;
                let kind = if is_data { PacketKind::Data } else { PacketKind::Ack };
                self.sent += out.len() as u64;
                self.settle();
                let ecn = ecn?.filter(|_| self.ecn).map_or(0, |codepoint| codepoint as u8);
                Some((kind, ecn))
            }

            fn deadline(&self) -> Option<Instant> {
                self.deadline
            }

            fn handle_timeout(&mut self, now: Instant) {
                let at = self.at(now);
                if let Some((_, conn)) = &mut self.conn {
                    conn.handle_timeout(at);
                }
                self.settle();
            }

            fn closed(&self) -> Option<Result<(), Ended>> {
                self.closed
            }

            fn info(&self) -> Option<GuestInfo> {
                self.info.clone()
            }
        }
    };
}

pub(crate) use guest;
