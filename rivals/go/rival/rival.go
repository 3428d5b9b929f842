// Package rival has what the small programs around stacks in Go share: their command line, and the same
// conversation as tack-rivals has, a request of 24 bytes (what, and two numbers) and so many bytes back.
//
//	PROGRAM server
//	PROGRAM client ADDRESS BYTES CONNECTIONS
//	PROGRAM version
package rival

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

const (
	// Port that servers listen on.
	Port = 4433
	// RecvBuffer and SendBuffer are the kernel buffers of every UDP socket, bytes; the kernel caps them.
	RecvBuffer = 8 << 20
	SendBuffer = 4 << 20

	chunkBytes   = 256 << 10
	requestBytes = 24
)

// A Stack is what a program is made around.
type Stack struct {
	// Name of the program.
	Program string
	// Module that has the stack.
	Module string
	// Serve answers until it is ended.
	Serve func() error
	// Client prepares what connects to an address, and gives what fetches so many bytes over a connection
	// of its own.
	Client func(address string) (func(bytes uint64) error, error)
}

// Main runs a program.
func Main(stack Stack) {
	if err := stack.run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", stack.Program, err)
		os.Exit(1)
	}
}

func (stack Stack) run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "version":
		return stack.version()
	case len(args) == 1 && args[0] == "server":
		return stack.Serve()
	case len(args) == 4 && args[0] == "client":
		bytes, err := strconv.ParseUint(args[2], 10, 63)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return stack.ask(args[1], bytes, count)
	}
	return errors.New("usage: server | client ADDRESS BYTES CONNECTIONS | version")
}

func (stack Stack) version() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("built without modules")
	}
	for _, dep := range info.Deps {
		if dep.Path == stack.Module {
			fmt.Println(stack.Module, dep.Version, info.GoVersion)
			return nil
		}
	}
	return fmt.Errorf("%s is not in it", stack.Module)
}

func (stack Stack) ask(address string, bytes uint64, count int) error {
	receive, err := stack.Client(address)
	if err != nil {
		return err
	}
	start := time.Now()
	done := make(chan error)
	for range count {
		go func() { done <- receive(bytes) }()
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

// Answer reads a request and writes what it asks for.
func Answer(stream io.ReadWriter) error {
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
	return nil
}

// Receive asks for so many bytes and reads them.
func Receive(stream io.ReadWriter, bytes uint64) error {
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
	return nil
}
