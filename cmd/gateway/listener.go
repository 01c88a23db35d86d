package main

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	maxConnections = 16 << 10 // each costs some 40 KB, whoever has opened it
	acceptPause    = 50 * time.Millisecond

	adminConnections = 64 // of the few that watch over a gateway
)

// boundedListener takes a number of connections at a time. More wait in the
// system's queue until one ends, so that strangers who open connections cannot
// take the memory of the process, or the file descriptors that it needs to
// reach the store. Accept fails only when it is closed.
type boundedListener struct {
	net.Listener
	open   chan struct{} // a place for each connection
	closed chan struct{}
	close  func() error
}

func bounded(l net.Listener, connections int) net.Listener {
	b := &boundedListener{Listener: l, open: make(chan struct{}, connections), closed: make(chan struct{})}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return l.Close()
	})
	return b
}

// connectionLimit of the public listener leaves as many files for everything
// else; adminLimit takes few of those.
func connectionLimit() int { return max(1, min(maxConnections, openFiles()/2)) }
func adminLimit() int      { return max(1, min(adminConnections, openFiles()/8)) }

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			return &boundedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.open })}, nil
		}
		if !passes(err) {
			<-l.open
			return nil, err
		}
		slog.Error("no connection can be accepted now", "error", err)
		select {
		case <-time.After(acceptPause):
		case <-l.closed:
			<-l.open
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *boundedListener) Close() error { return l.close() }

// passes reports whether the system lacks what it will have again.
func passes(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// NetConn is the connection itself, as tls.Conn has it: forwarding looks there
// whether the client has left.
func (c *boundedConn) NetConn() net.Conn { return c.Conn }
