"""aioquic as a peer of `script/quic-interop`; the command line is that of `src/lib.rs`."""

import argparse
import asyncio
import logging
import os
import sys
from importlib.metadata import version

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.asyncio.client import connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion

HQ = "hq-interop"
# What a server must answer with its own versions [RFC 9000 §15].
RESERVED_VERSION = 0x1A2A3A4A
WINDOW = 4 << 20
DATAGRAMS = 20
# Cases in which a second connection is begun before it is answered, and in which there is one.
EARLY = ["zerortt", "zerorttrefused"]
TWICE = ["resumption", "compatible", *EARLY]
SPEECH = bytes((at * 31 + at // 255) % 256 for at in range(1_500_000))


def say(text):
    print(text, flush=True)


class Peer(QuicConnectionProtocol):
    """What both sides do: they say how the connection ended."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.h3 = None

    def quic_event_received(self, event):
        if isinstance(event, events.ProtocolNegotiated) and event.alpn_protocol in H3_ALPN:
            self.h3 = H3Connection(self._quic)
        elif isinstance(event, events.HandshakeCompleted):
            if event.session_resumed:
                say("resumed")
            if event.early_data_accepted:
                say("early taken")
        elif isinstance(event, events.ConnectionTerminated):
            say(f"closed {event.error_code} {event.reason_phrase}")
            self.ended()
        elif isinstance(event, events.DatagramFrameReceived):
            self.datagram(event.data)
        elif self.h3 is not None:
            for what in self.h3.handle_event(event):
                self.h3_event(what)
        elif isinstance(event, events.StreamDataReceived):
            self.stream(event.stream_id, event.data, event.end_stream)

    def ended(self):
        pass


class Server(Peer):
    root = "."

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requests = {}

    def content(self, name):
        with open(os.path.join(self.root, os.path.basename(name)), "rb") as file:
            return file.read()

    def stream(self, stream, data, end):
        request = self.requests.pop(stream, b"") + data
        if not end:
            self.requests[stream] = request
            return
        if not request.startswith(b"GET /"):
            self._quic.send_stream_data(stream, request, True)
            return
        name = request.decode().split()[1]
        if name == "/close":
            self.close(9, "enough")
            return
        self._quic.send_stream_data(stream, self.content(name), True)

    def h3_event(self, event):
        if isinstance(event, HeadersReceived):
            headers = dict(event.headers)
            is_get = headers[b":method"] == b"GET"
            body = self.content(headers[b":path"].decode()) if is_get else b""
            self.requests[event.stream_id] = body
        elif isinstance(event, DataReceived):
            self.requests[event.stream_id] += event.data
        if isinstance(event, (HeadersReceived, DataReceived)) and event.stream_ended:
            self.h3.send_headers(event.stream_id, [(b":status", b"200")])
            self.h3.send_data(event.stream_id, self.requests.pop(event.stream_id), True)

    def datagram(self, data):
        self._quic.send_datagram_frame(data)
        self.transmit()


class Client(Peer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bodies = {}
        self.waiting = {}
        self.datagrams = 0
        self.datagrams_came = asyncio.Event()

    def take(self, stream, data, end):
        self.bodies[stream] = self.bodies.get(stream, b"") + data
        if end and stream in self.waiting:
            self.waiting.pop(stream).set_result(self.bodies.pop(stream))

    def stream(self, stream, data, end):
        self.take(stream, data, end)

    def h3_event(self, event):
        if isinstance(event, (HeadersReceived, DataReceived)):
            self.take(event.stream_id, getattr(event, "data", b""), event.stream_ended)

    def datagram(self, data):
        self.datagrams += 1
        if self.datagrams == DATAGRAMS:
            self.datagrams_came.set()

    def ended(self):
        for waiting in self.waiting.values():
            waiting.set_exception(ConnectionError("the connection ended"))
        self.waiting.clear()

    async def echo(self):
        stream = self._quic.get_next_available_stream_id()
        waiting = self.waiting[stream] = asyncio.get_running_loop().create_future()
        self._quic.send_stream_data(stream, SPEECH, True)
        self.transmit()
        if await waiting != SPEECH:
            raise ValueError("what came back is not what was sent")
        say(f"echoed {len(SPEECH)}")

    async def fetch(self, name):
        stream = self._quic.get_next_available_stream_id()
        waiting = self.waiting[stream] = asyncio.get_running_loop().create_future()
        if self.h3 is None:
            self._quic.send_stream_data(stream, f"GET /{name}\r\n".encode(), True)
        else:
            headers = {":method": "GET", ":scheme": "https", ":authority": "localhost", ":path": f"/{name}"}
            headers = [(key.encode(), value.encode()) for key, value in headers.items()]
            self.h3.send_headers(stream, headers, True)
        self.transmit()
        return await waiting


def configuration(args, is_client):
    versions = [QuicProtocolVersion.VERSION_1]
    if args.case == "v2":
        versions = [QuicProtocolVersion.VERSION_2]
    elif args.case == "compatible":
        versions = [QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2]
    elif args.case == "negotiation" and is_client:
        versions.append(RESERVED_VERSION)
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=H3_ALPN if args.protocol == "h3" else [HQ],
        supported_versions=versions,
        original_version=RESERVED_VERSION if is_client and args.case == "negotiation" else None,
        max_datagram_frame_size=65536 if args.case == "datagrams" else None,
        max_data=4 * WINDOW,
        max_stream_data=WINDOW,
        server_name="localhost" if is_client else None,
    )


async def server(args):
    Server.root = args.root
    config = configuration(args, False)
    config.load_cert_chain(args.cert, args.key)
    tickets = {}
    await serve(
        args.address,
        args.port,
        configuration=config,
        create_protocol=Server,
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
        retry=args.case == "retry",
    )
    await asyncio.Event().wait()


async def converse(args, config, ticket_handler):
    is_early = args.case in EARLY and config.session_ticket is not None
    if is_early:
        say("early")
    async with connect(
        args.address,
        args.port,
        configuration=config,
        create_protocol=Client,
        session_ticket_handler=ticket_handler,
        # The first thing that is asked begins it.
        wait_connected=not is_early,
    ) as peer:
        if args.case == "closed":
            try:
                await peer.fetch("close")
            except ConnectionError:
                pass
            return
        if args.case == "echo":
            await peer.echo()
            peer.close(7, "done")
            return
        size = 1 if args.case == "peerkeyupdate" else 50
        for batch in range(0, len(args.files), size):
            names = args.files[batch : batch + size]
            bodies = await asyncio.gather(*(peer.fetch(name) for name in names))
            for name, body in zip(names, bodies):
                with open(os.path.join(args.out, name), "wb") as file:
                    file.write(body)
            if args.case == "peerkeyupdate":
                peer.request_key_update()
        if args.case == "peerkeyupdate":
            # With the new keys.
            await peer.fetch(args.files[0])
        if args.case == "datagrams":
            for number in range(DATAGRAMS):
                peer._quic.send_datagram_frame(bytes([number]) * 500)
            peer.transmit()
            await asyncio.wait_for(peer.datagrams_came.wait(), 10)
            say(f"datagrams {peer.datagrams}")
        peer.close(7, "done")


async def client(args):
    config = configuration(args, True)
    config.load_verify_locations(args.ca)
    tickets = []
    for _ in range(2 if args.case in TWICE else 1):
        config.session_ticket = tickets.pop() if tickets else None
        if args.case == "compatible":
            # It begins with what it likes less.
            config.session_ticket = None
            config.supported_versions.reverse()
            config.original_version = config.supported_versions[1]
        await converse(args, config, tickets.append)


def main():
    if sys.argv[1:] == ["version"]:
        say(f"aioquic {version('aioquic')}")
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["server", "client"])
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    for option in ["--case", "--protocol", "--root", "--cert", "--key", "--out", "--ca"]:
        parser.add_argument(option)
    parser.add_argument("--files", nargs="*", default=[])
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    asyncio.run({"server": server, "client": client}[args.role](args))


if __name__ == "__main__":
    main()
