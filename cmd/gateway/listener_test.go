package main

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// scarce is a listener that the system lacks something for, a few times.
type scarce struct {
	net.Listener
	lacks []error
}

func (s *scarce) Accept() (net.Conn, error) {
	if len(s.lacks) > 0 {
		err := s.lacks[0]
		s.lacks = s.lacks[1:]
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return s.Listener.Accept()
}

func listenForTest(t *testing.T, connections int, lacks ...error) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := bounded(&scarce{l, lacks}, connections)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func connect(t *testing.T, l net.Listener) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
}

type accepted struct {
	conn net.Conn
	err  error
}

func accept(l net.Listener) <-chan accepted {
	result := make(chan accepted, 1)
	go func() {
		conn, err := l.Accept()
		result <- accepted{conn, err}
	}()
	return result
}

func TestAConnectionTooManyWaitsUntilAnotherEnds(t *testing.T) {
	t.Parallel()
	l := listenForTest(t, 2)
	for range 3 {
		connect(t, l)
	}
	first, second := <-accept(l), <-accept(l)
	if first.err != nil || second.err != nil {
		t.Fatal(first.err, second.err)
	}
	third := accept(l)
	select {
	case got := <-third:
		t.Fatalf("a third of two: %+v", got)
	case <-time.After(50 * time.Millisecond):
	}
	for range 2 { // closing twice makes room once
		_ = first.conn.Close()
	}
	if got := <-third; got.err != nil {
		t.Fatal(got.err)
	}
	fourth := accept(l)
	connect(t, l)
	select {
	case got := <-fourth:
		t.Fatalf("a third of two, after one was closed twice: %+v", got)
	case <-time.After(50 * time.Millisecond):
	}
	_ = l.Close()
	if got := <-fourth; !errors.Is(got.err, net.ErrClosed) {
		t.Errorf("a listener that was closed: %+v", got)
	}
}

func TestAListenerOutlivesWhatTheSystemLacks(t *testing.T) {
	t.Parallel()
	l := listenForTest(t, 1, syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED)
	connect(t, l)
	if got := <-accept(l); got.err != nil {
		t.Fatal(got.err)
	}
}

func TestAListenerThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	l := listenForTest(t, 1, syscall.EINVAL, syscall.EINVAL)
	for range 2 { // the place of the first is free again
		if got := <-accept(l); !errors.Is(got.err, syscall.EINVAL) {
			t.Errorf("%+v, want the failure", got)
		}
	}
}

func TestAClosedListenerWaitsForNothing(t *testing.T) {
	t.Parallel()
	l := listenForTest(t, 1)
	waiting := accept(l)
	time.Sleep(20 * time.Millisecond)
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := <-waiting; !errors.Is(got.err, net.ErrClosed) {
		t.Errorf("%+v, want its end", got)
	}
}
