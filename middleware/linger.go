package middleware

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// How long, and for how much, a connection is drained after a request that was
// answered before its body was there.
const (
	lingerTime  = time.Second
	lingerBytes = 32 << 20
)

// Linger makes a TCP listener whose connections close so that the client gets
// the answer: a connection that is closed while the client still sends is
// reset, and many clients then lose what they have not read yet.
func Linger(l net.Listener) net.Listener { return lingeringListener{l} }

type lingeringListener struct{ net.Listener }

func (l lingeringListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &lingering{TCPConn: tcp}, err
	}
	return c, err
}

type lingering struct {
	*net.TCPConn

	unread atomic.Bool // the body of the request was not read to its end
}

// Close closes the connection, after the client had time to notice the answer.
func (c *lingering) Close() error {
	if c.unread.Swap(false) && c.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c.TCPConn, lingerBytes) // ends when the client has left, which is fine
	}
	return c.TCPConn.Close()
}

// setUnread says whether a part of the request is unread.
func setUnread(c net.Conn, unread bool) {
	if l, ok := connUnder[*lingering](c); ok {
		l.unread.Store(unread)
	}
}

// connUnder finds what a connection is or what it wraps, as a TLS connection
// wraps the one that carries it.
func connUnder[T any](c net.Conn) (found T, ok bool) {
	for {
		if found, ok = c.(T); ok {
			return found, true
		}
		wrapper, wraps := c.(interface{ NetConn() net.Conn })
		if !wraps {
			return found, false
		}
		c = wrapper.NetConn()
	}
}
