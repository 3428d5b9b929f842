// quic-go as a peer of script/quic-interop; the command line is that of rivals/interop/src/lib.rs.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	hq        = "hq-interop"
	window    = 4 << 20
	datagrams = 20
	parallel  = 50
)

type settings struct {
	role, testCase, protocol string
	at                       *net.UDPAddr
	root, cert, key, out, ca string
	files                    []string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		version()
		return
	}
	set, err := parse(os.Args[1:])
	if err == nil && set.role == "server" {
		err = set.serve()
	} else if err == nil {
		err = set.ask()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic-go-peer:", err)
		os.Exit(1)
	}
}

func version() {
	info, ok := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if ok && dep.Path == "github.com/quic-go/quic-go" {
			fmt.Println("quic-go", dep.Version)
		}
	}
}

func parse(args []string) (*settings, error) {
	if len(args) < 3 {
		return nil, errors.New("usage: server|client ADDRESS PORT --case NAME ...")
	}
	port, err := strconv.Atoi(args[2])
	if err != nil {
		return nil, err
	}
	set := &settings{role: args[0], at: &net.UDPAddr{IP: net.ParseIP(args[1]), Port: port}}
	options := map[string]*string{"--case": &set.testCase, "--protocol": &set.protocol, "--root": &set.root, "--cert": &set.cert,
		"--key": &set.key, "--out": &set.out, "--ca": &set.ca}
	for rest := args[3:]; len(rest) > 0; {
		if rest[0] == "--files" {
			set.files = rest[1:]
			break
		}
		option, known := options[rest[0]]
		if !known || len(rest) < 2 {
			return nil, fmt.Errorf("unknown option %s", rest[0])
		}
		*option, rest = rest[1], rest[2:]
	}
	return set, nil
}

func (set *settings) config() *quic.Config {
	config := &quic.Config{
		InitialStreamReceiveWindow:     window,
		MaxStreamReceiveWindow:         window,
		InitialConnectionReceiveWindow: 4 * window,
		MaxConnectionReceiveWindow:     4 * window,
		EnableDatagrams:                set.testCase == "datagrams",
		Versions:                       []quic.Version{quic.Version1},
		Allow0RTT:                      set.isEarly(),
	}
	if set.testCase == "v2" {
		config.Versions = []quic.Version{quic.Version2}
	}
	return config
}

// isEarly tells whether the second connection says its requests before its handshake is done.
func (set *settings) isEarly() bool {
	return set.testCase == "zerortt" || set.testCase == "zerorttrefused"
}

func (set *settings) protocols() []string {
	if set.protocol == "h3" {
		return []string{http3.NextProtoH3}
	}
	return []string{hq}
}

func (set *settings) serve() error {
	certificate, err := tls.LoadX509KeyPair(set.cert, set.key)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", set.at)
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: set.protocols()}
	if set.protocol == "h3" {
		server := http3.Server{TLSConfig: config, Handler: http.FileServer(http.Dir(set.root))}
		return server.Serve(conn)
	}
	// A restart does not change it.
	key := quic.StatelessResetKey{0x42}
	transport := &quic.Transport{Conn: conn, StatelessResetKey: &key}
	if set.testCase == "retry" {
		transport.VerifySourceAddress = func(net.Addr) bool { return true }
	}
	listener, err := transport.ListenEarly(config, set.config())
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go set.answer(connection)
	}
}

func (set *settings) answer(connection *quic.Conn) {
	if connection.ConnectionState().TLS.DidResume {
		fmt.Println("resumed")
	}
	go echo(connection)
	for {
		stream, err := connection.AcceptStream(context.Background())
		if err != nil {
			sayEnd(err)
			return
		}
		go func() {
			if err := set.file(connection, stream); err != nil {
				fmt.Fprintln(os.Stderr, "a stream ended:", err)
			}
		}()
	}
}

func echo(connection *quic.Conn) {
	for {
		datagram, err := connection.ReceiveDatagram(context.Background())
		if err != nil || connection.SendDatagram(datagram) != nil {
			return
		}
	}
}

func (set *settings) file(connection *quic.Conn, stream *quic.Stream) error {
	request, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(request, []byte("GET /")) {
		if _, err := stream.Write(request); err != nil {
			return err
		}
		return stream.Close()
	}
	words := strings.Fields(string(request))
	if len(words) != 2 {
		return errors.New("no such request")
	}
	if words[1] == "/close" {
		return connection.CloseWithError(9, "enough")
	}
	file, err := os.Open(filepath.Join(set.root, filepath.Base(words[1])))
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(stream, file); err != nil {
		return err
	}
	return stream.Close()
}

// sayEnd tells with which code the other side's application closed.
func sayEnd(err error) {
	var closed *quic.ApplicationError
	if errors.As(err, &closed) {
		fmt.Println("closed", uint64(closed.ErrorCode), closed.ErrorMessage)
	} else {
		fmt.Fprintln(os.Stderr, "a connection ended:", err)
	}
}

func (set *settings) ask() error {
	text, err := os.ReadFile(set.ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return errors.New("no certificate in " + set.ca)
	}
	config := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: set.protocols(),
		ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	if set.protocol == "h3" {
		return set.askHTTP3(config)
	}
	if set.testCase == "resumption" || set.isEarly() {
		if err := set.converse(config, false); err != nil {
			return err
		}
	}
	return set.converse(config, set.isEarly())
}

func (set *settings) dial(ctx context.Context, config *tls.Config, early bool) (*quic.Conn, error) {
	if set.testCase == "migration" {
		// Without connection IDs of its own it could not tell whom packets on another socket are for.
		socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: set.at.IP})
		if err != nil {
			return nil, err
		}
		return (&quic.Transport{Conn: socket}).Dial(ctx, set.at, config, set.config())
	}
	if early {
		return quic.DialAddrEarly(ctx, set.at.String(), config, set.config())
	}
	return quic.DialAddr(ctx, set.at.String(), config, set.config())
}

func (set *settings) converse(config *tls.Config, early bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connection, err := set.dial(ctx, config, early)
	if err != nil {
		return err
	}
	if early {
		return set.early(ctx, connection)
	}
	switch set.testCase {
	case "echo":
		if err := echoed(ctx, connection); err != nil {
			return err
		}
		return connection.CloseWithError(7, "done")
	case "reset":
		return set.reset(ctx, connection)
	case "migration":
		return set.migrate(ctx, connection)
	}
	if set.testCase == "closed" {
		_, err := fetch(ctx, connection, "close")
		if err == nil {
			_, err = connection.AcceptStream(ctx)
		}
		sayEnd(err)
		return nil
	}
	err = set.all(ctx, connection, set.files)
	if err != nil {
		return err
	}
	if set.testCase == "datagrams" {
		if err := talk(ctx, connection); err != nil {
			return err
		}
	}
	return connection.CloseWithError(7, "done")
}

func (set *settings) all(ctx context.Context, connection *quic.Conn, names []string) error {
	return set.each(names, func(name string) (io.Reader, error) { return fetch(ctx, connection, name) })
}

// early asks before the handshake is done, and once more where the server would not hear it.
func (set *settings) early(ctx context.Context, connection *quic.Conn) error {
	fmt.Println("early")
	err := set.all(ctx, connection, set.files)
	if errors.Is(err, quic.Err0RTTRejected) {
		fmt.Println("early refused")
		if connection, err = connection.NextConnection(ctx); err == nil {
			err = set.all(ctx, connection, set.files)
		}
	} else if connection.ConnectionState().Used0RTT {
		fmt.Println("early taken")
	}
	if err != nil {
		return err
	}
	return connection.CloseWithError(7, "done")
}

// echoed has a speech said back.
func echoed(ctx context.Context, connection *quic.Conn) error {
	speech := make([]byte, 1_500_000)
	for at := range speech {
		speech[at] = byte(at*31 + at/255)
	}
	stream, err := connection.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := stream.Write(speech)
		if err == nil {
			err = stream.Close()
		}
		written <- err
	}()
	back, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	if err := <-written; err != nil {
		return err
	}
	if !bytes.Equal(back, speech) {
		return errors.New("what came back is not what was sent")
	}
	fmt.Println("echoed", len(back))
	return nil
}

// reset finds out that the server knows nothing of the connection any more.
func (set *settings) reset(ctx context.Context, connection *quic.Conn) error {
	if err := set.all(ctx, connection, set.files[:1]); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	err := set.all(ctx, connection, set.files[1:])
	var reset *quic.StatelessResetError
	if !errors.As(err, &reset) {
		return fmt.Errorf("it was not reset: %w", err)
	}
	fmt.Println("reset")
	return nil
}

// migrate goes on from another socket.
func (set *settings) migrate(ctx context.Context, connection *quic.Conn) error {
	if err := set.all(ctx, connection, set.files[:1]); err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: set.at.IP})
	if err != nil {
		return err
	}
	path, err := connection.AddPath(&quic.Transport{Conn: socket})
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return err
	}
	if err := path.Switch(); err != nil {
		return err
	}
	fmt.Println("moved")
	if err := set.all(ctx, connection, set.files[1:]); err != nil {
		return err
	}
	return connection.CloseWithError(7, "done")
}

// each stores what open gives for each file, several at a time.
func (set *settings) each(names []string, open func(string) (io.Reader, error)) error {
	failures := make(chan error, len(names))
	slots := make(chan struct{}, parallel)
	for _, name := range names {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			failures <- set.store(name, open)
		}()
	}
	var all error
	for range names {
		all = errors.Join(all, <-failures)
	}
	return all
}

func (set *settings) store(name string, open func(string) (io.Reader, error)) error {
	body, err := open(name)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(set.out, name))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, body)
	return err
}

func fetch(ctx context.Context, connection *quic.Conn, name string) (io.Reader, error) {
	stream, err := connection.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(stream, "GET /%s\r\n", name); err != nil {
		return nil, err
	}
	return stream, stream.Close()
}

func talk(ctx context.Context, connection *quic.Conn) error {
	for number := range datagrams {
		datagram := make([]byte, 500)
		datagram[0] = byte(number)
		if err := connection.SendDatagram(datagram); err != nil {
			return err
		}
	}
	for range datagrams {
		if _, err := connection.ReceiveDatagram(ctx); err != nil {
			return err
		}
	}
	fmt.Println("datagrams", datagrams)
	return nil
}

func (set *settings) askHTTP3(config *tls.Config) error {
	transport := &http3.Transport{TLSClientConfig: config}
	defer transport.Close()
	client := http.Client{Transport: transport}
	return set.each(set.files, func(name string) (io.Reader, error) {
		response, err := client.Get(fmt.Sprintf("https://%s/%s", set.at, name))
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s", name, response.Status)
		}
		return response.Body, nil
	})
}
