// The same small server and client as tack-rivals, over quic-go: a request of 24 bytes (what, and two
// numbers), and so many bytes back.
//
//	quic-go-rival server                       reads cert.pem and key.pem here
//	quic-go-rival client ADDRESS BYTES CONNECTIONS
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	port         = 4433
	name         = "localhost"
	chunkBytes   = 256 << 10
	windowBytes  = 64 << 20
	requestBytes = 24
	recvBuffer   = 8 << 20
	sendBuffer   = 4 << 20
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "quic-go-rival:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "version":
		return version()
	case len(args) == 1 && args[0] == "server":
		return serve()
	case len(args) == 4 && args[0] == "client":
		bytes, err := strconv.ParseUint(args[2], 10, 63)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return ask(args[1], bytes, count)
	}
	return errors.New("usage: server | client ADDRESS BYTES CONNECTIONS | version")
}

func version() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("built without modules")
	}
	for _, dep := range info.Deps {
		if dep.Path == "github.com/quic-go/quic-go" {
			fmt.Println("quic-go", dep.Version, info.GoVersion)
			return nil
		}
	}
	return errors.New("quic-go is not in it")
}

func settings() *quic.Config {
	return &quic.Config{
		InitialStreamReceiveWindow:     windowBytes,
		MaxStreamReceiveWindow:         windowBytes,
		InitialConnectionReceiveWindow: windowBytes,
		MaxConnectionReceiveWindow:     windowBytes,
	}
}

func socket(at int) (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{Port: at})
	if err != nil {
		return nil, err
	}
	if err := conn.SetReadBuffer(recvBuffer); err != nil {
		return nil, err
	}
	return conn, conn.SetWriteBuffer(sendBuffer)
}

// keys makes a certificate for the server and leaves it where the client looks.
func keys() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile("cert.pem", text, 0o600)
}

func serve() error {
	certificate, err := keys()
	if err != nil {
		return err
	}
	conn, err := socket(port)
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"rivals"}}
	listener, err := quic.Listen(conn, config, settings())
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			if err := answer(connection); err != nil {
				fmt.Fprintln(os.Stderr, "a connection ended:", err)
			}
		}()
	}
}

func answer(connection *quic.Conn) error {
	stream, err := connection.AcceptStream(context.Background())
	if err != nil {
		return err
	}
	var request [requestBytes]byte
	if _, err := io.ReadFull(stream, request[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint64(request[:]) != 0 {
		return errors.New("no such request")
	}
	left := binary.BigEndian.Uint64(request[8:])
	chunk := make([]byte, chunkBytes)
	for left > 0 {
		n, err := stream.Write(chunk[:min(left, chunkBytes)])
		if err != nil {
			return err
		}
		left -= uint64(n)
	}
	if err := stream.Close(); err != nil {
		return err
	}
	// The client closes once it has everything.
	_, err = io.Copy(io.Discard, stream)
	return err
}

func ask(address string, bytes uint64, count int) error {
	text, err := os.ReadFile("cert.pem")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return errors.New("cert.pem holds no certificate")
	}
	conn, err := socket(0)
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: conn}
	config := &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"rivals"}}
	peer := &net.UDPAddr{IP: net.ParseIP(address), Port: port}
	start := time.Now()
	done := make(chan error)
	for range count {
		go func() { done <- receive(transport, peer, config, bytes) }()
	}
	for range count {
		if err := <-done; err != nil {
			return err
		}
	}
	said := map[string]any{
		"bytes":   bytes * uint64(count),
		"seconds": time.Since(start).Seconds(),
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

func receive(transport *quic.Transport, peer net.Addr, config *tls.Config, bytes uint64) error {
	ctx := context.Background()
	connection, err := transport.Dial(ctx, peer, config, settings())
	if err != nil {
		return err
	}
	stream, err := connection.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	var request [requestBytes]byte
	binary.BigEndian.PutUint64(request[8:], bytes)
	if _, err := stream.Write(request[:]); err != nil {
		return err
	}
	buffer := make([]byte, chunkBytes)
	for got := uint64(0); got < bytes; {
		n, err := stream.Read(buffer)
		got += uint64(n)
		if err != nil && got < bytes {
			return fmt.Errorf("%d of %d bytes came: %w", got, bytes, err)
		}
	}
	return stream.Close()
}
