// The small server and client of tack-rivals over UDT 4 (Debian's libudt-dev): a request of 24 bytes (what,
// and two numbers), and so many bytes back.
//
//   udt-rival server
//   udt-rival client ADDRESS BYTES
#include <arpa/inet.h>
#include <netinet/in.h>
#include <udt/udt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kPort = 4433;
constexpr int kChunk = 256 << 10;
constexpr int kRequest = 24;
// As all rivals: a window of 64 MiB, of so many packets, and the kernel's buffers.
constexpr int kWindow = 64 << 20;
constexpr int kPackets = kWindow / 1456;
constexpr int kRecvBuffer = 8 << 20;
constexpr int kSendBuffer = 4 << 20;

[[noreturn]] void fail(const char *what) {
    throw std::runtime_error(std::string(what) + ": " + UDT::getlasterror().getErrorMessage());
}

void check(int result, const char *what) {
    if (result == UDT::ERROR) fail(what);
}

void set(UDTSOCKET socket, UDT::SOCKOPT option, int value) {
    check(UDT::setsockopt(socket, 0, option, &value, sizeof value), "setsockopt");
}

UDTSOCKET open() {
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    if (socket == UDT::INVALID_SOCK) fail("socket");
    set(socket, UDT_FC, kPackets);
    set(socket, UDT_SNDBUF, kWindow);
    set(socket, UDT_RCVBUF, kWindow);
    set(socket, UDP_RCVBUF, kRecvBuffer);
    set(socket, UDP_SNDBUF, kSendBuffer);
    return socket;
}

sockaddr_in address(const char *ip) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(kPort);
    if (inet_pton(AF_INET, ip, &at.sin_addr) != 1) throw std::runtime_error("no address");
    return at;
}

void send_all(UDTSOCKET socket, const char *data, int length) {
    while (length > 0) {
        int sent = UDT::send(socket, data, length, 0);
        check(sent, "send");
        data += sent;
        length -= sent;
    }
}

void receive_all(UDTSOCKET socket, char *data, int length) {
    while (length > 0) {
        int got = UDT::recv(socket, data, length, 0);
        check(got, "recv");
        data += got;
        length -= got;
    }
}

uint64_t number(const unsigned char *bytes) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | bytes[i];
    return value;
}

void answer(UDTSOCKET socket) {
    unsigned char request[kRequest];
    receive_all(socket, reinterpret_cast<char *>(request), kRequest);
    if (number(request) != 0) throw std::runtime_error("no such request");
    std::vector<char> chunk(kChunk, 0x5a);
    for (uint64_t left = number(request + 8); left > 0;) {
        int length = static_cast<int>(std::min<uint64_t>(left, kChunk));
        send_all(socket, chunk.data(), length);
        left -= length;
    }
    // The client closes once it has everything.
    char rest;
    UDT::recv(socket, &rest, 1, 0);
}

void serve() {
    UDTSOCKET listener = open();
    sockaddr_in at = address("0.0.0.0");
    check(UDT::bind(listener, reinterpret_cast<sockaddr *>(&at), sizeof at), "bind");
    check(UDT::listen(listener, 10), "listen");
    for (;;) {
        sockaddr_in peer;
        int length = sizeof peer;
        UDTSOCKET socket = UDT::accept(listener, reinterpret_cast<sockaddr *>(&peer), &length);
        if (socket == UDT::INVALID_SOCK) fail("accept");
        try {
            answer(socket);
        } catch (const std::exception &e) {
            std::fprintf(stderr, "a connection ended: %s\n", e.what());
        }
        UDT::close(socket);
    }
}

void ask(const char *server, uint64_t bytes) {
    auto start = std::chrono::steady_clock::now();
    UDTSOCKET socket = open();
    sockaddr_in peer = address(server);
    check(UDT::connect(socket, reinterpret_cast<sockaddr *>(&peer), sizeof peer), "connect");
    unsigned char request[kRequest] = {};
    for (int i = 0; i < 8; i++) request[15 - i] = bytes >> 8 * i;
    send_all(socket, reinterpret_cast<char *>(request), kRequest);
    std::vector<char> buffer(kChunk);
    for (uint64_t got = 0; got < bytes;) {
        int n = UDT::recv(socket, buffer.data(), kChunk, 0);
        check(n, "recv");
        got += n;
    }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", static_cast<unsigned long long>(bytes), took.count());
    UDT::close(socket);
}

}  // namespace

int main(int count, char **words) {
    UDT::startup();
    int status = 0;
    try {
        std::string role = count > 1 ? words[1] : "";
        if (role == "server" && count == 2) {
            serve();
        } else if (role == "client" && count == 4) {
            ask(words[2], std::strtoull(words[3], nullptr, 10));
        } else {
            throw std::runtime_error("usage: server | client ADDRESS BYTES");
        }
    } catch (const std::exception &e) {
        std::fprintf(stderr, "udt-rival: %s\n", e.what());
        status = 1;
    }
    UDT::cleanup();
    return status;
}
