// The small server and client of package rival over kcp-go, set as kcptun sets it where nothing is said
// ("fast"): no congestion control, windows of its own, three repair packets for ten, sealed with a key that both know.
// kcptun's compression is left out, and so are its streams: a connection of KCP is one.
package main

import (
	"crypto/sha1"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/xtaci/kcp-go/v5"
	"golang.org/x/crypto/pbkdf2"

	"tack-rivals-go/rival"
)

// kcptun's own.
const (
	dataShards   = 10
	parityShards = 3
	mtu          = 1350
	serverWindow = 1024
	clientSends  = 128
	clientTakes  = 512
	// Of its mode "fast": milliseconds from a look to the next, and gaps that have a packet sent again.
	interval = 30
	resend   = 2

	// KCP has no end of a stream: whoever has everything says so.
	farewell = 1
	patience = 30 * time.Second
)

func main() {
	rival.Main(rival.Stack{
		Program: "kcp-rival",
		Module:  "github.com/xtaci/kcp-go/v5",
		Serve:   serve,
		Client:  client,
	})
}

func seal() (kcp.BlockCrypt, error) {
	return kcp.NewAESBlockCrypt(pbkdf2.Key([]byte("versus"), []byte("versus"), 4096, 32, sha1.New))
}

func tune(session *kcp.UDPSession, sends, takes int) {
	session.SetStreamMode(true)
	session.SetWriteDelay(false)
	session.SetNoDelay(0, interval, resend, 1)
	session.SetWindowSize(sends, takes)
	session.SetMtu(mtu)
	session.SetACKNoDelay(false)
}

func serve() error {
	block, err := seal()
	if err != nil {
		return err
	}
	listener, err := kcp.ListenWithOptions(":"+strconv.Itoa(rival.Port), block, dataShards, parityShards)
	if err != nil {
		return err
	}
	if err := listener.SetReadBuffer(rival.RecvBuffer); err != nil {
		return err
	}
	if err := listener.SetWriteBuffer(rival.SendBuffer); err != nil {
		return err
	}
	for {
		session, err := listener.AcceptKCP()
		if err != nil {
			return err
		}
		go func() {
			defer session.Close()
			tune(session, serverWindow, serverWindow)
			if err := answer(session); err != nil {
				fmt.Fprintln(os.Stderr, "a connection ended:", err)
			}
		}()
	}
}

func answer(session *kcp.UDPSession) error {
	if err := rival.Answer(session); err != nil {
		return err
	}
	if err := session.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := session.Read(make([]byte, farewell))
	return err
}

func client(address string) (func(bytes uint64) error, error) {
	peer := net.JoinHostPort(address, strconv.Itoa(rival.Port))
	return func(bytes uint64) error {
		block, err := seal()
		if err != nil {
			return err
		}
		session, err := kcp.DialWithOptions(peer, block, dataShards, parityShards)
		if err != nil {
			return err
		}
		defer session.Close()
		tune(session, clientSends, clientTakes)
		if err := session.SetReadBuffer(rival.RecvBuffer); err != nil {
			return err
		}
		if err := session.SetWriteBuffer(rival.SendBuffer); err != nil {
			return err
		}
		if err := rival.Receive(session, bytes); err != nil {
			return err
		}
		_, err = session.Write(make([]byte, farewell))
		return err
	}, nil
}
