// The small server and client of package rival over quic-go. The server leaves its certificate in cert.pem,
// where the client looks.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/quic-go/quic-go"

	"tack-rivals-go/rival"
)

const (
	name        = "localhost"
	windowBytes = 64 << 20
)

func main() {
	rival.Main(rival.Stack{
		Program: "quic-go-rival",
		Module:  "github.com/quic-go/quic-go",
		Serve:   serve,
		Client:  client,
	})
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
	if err := conn.SetReadBuffer(rival.RecvBuffer); err != nil {
		return nil, err
	}
	return conn, conn.SetWriteBuffer(rival.SendBuffer)
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
	conn, err := socket(rival.Port)
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
	if err := rival.Answer(stream); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	// The client closes once it has everything.
	_, err = io.Copy(io.Discard, stream)
	return err
}

func client(address string) (func(bytes uint64) error, error) {
	text, err := os.ReadFile("cert.pem")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("cert.pem holds no certificate")
	}
	conn, err := socket(0)
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: conn}
	config := &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"rivals"}}
	peer := &net.UDPAddr{IP: net.ParseIP(address), Port: rival.Port}
	return func(bytes uint64) error {
		ctx := context.Background()
		connection, err := transport.Dial(ctx, peer, config, settings())
		if err != nil {
			return err
		}
		stream, err := connection.OpenStreamSync(ctx)
		if err != nil {
			return err
		}
		if err := rival.Receive(stream, bytes); err != nil {
			return err
		}
		return stream.Close()
	}, nil
}
