package middleware

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/project-locks/gateway/internal/httperr"
)

const (
	// answerGrace is for how long an answer is looked for after a request could
	// not be sent to its end.
	answerGrace = time.Second

	// maxAttempts to send a request. All but the last are proved to have sent
	// nothing of it.
	maxAttempts = 5
)

var (
	errHungUp  = errors.New("the upstream has closed the connection")
	errUnasked = errors.New("the upstream has closed the connection, or sent what nobody asked for")
	errUnsent  = errors.New("nothing was sent")
)

// dial opens a connection to the upstream.
func (f *Forward) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newUpstreamConn(c, c), nil
}

// dialTLS opens an encrypted one.
func (f *Forward) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: 2 * dialTimeout}, Config: f.tls}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	under, _ := connUnder[*net.TCPConn](c) // it is: there is no other network
	return newUpstreamConn(c, under), nil
}

// upstreamConn knows whether anything may have been sent on it, and reports
// late that writing failed. An upstream may answer and close before it has all
// of the request; the answer has arrived then, but net/http would not look for
// it any more.
//
// No request goes out on it after an answer that was longer than it should be.
// net/http keeps such a connection, and until it has looked at what is left it
// would take that for the answer to the next request, which is another client's.
type upstreamConn struct {
	net.Conn

	raw    syscall.RawConn // nil: there is less to know
	plain  bool            // raw tells of the same bytes as Conn
	begins atomic.Bool     // the next write begins a request
	writes atomic.Int64    // that were tried

	awaits  atomic.Bool   // something is being read, and nothing before it waits in net/http's buffer
	arrived chan struct{} // there awaits became true
	closed  chan struct{}
	once    sync.Once
}

func newUpstreamConn(c, socket net.Conn) *upstreamConn {
	u := &upstreamConn{Conn: c, plain: c == socket, arrived: make(chan struct{}, 1), closed: make(chan struct{})}
	if socket, ok := socket.(syscall.Conn); ok {
		u.raw, _ = socket.SyscallConn()
	}
	return u
}

// Read knows from the room that net/http's buffer has whether it is empty.
func (c *upstreamConn) Read(p []byte) (int, error) {
	if len(p) >= upstreamBuffer {
		c.awaits.Store(true)
		defer c.awaits.Store(false)
		select {
		case c.arrived <- struct{}{}:
		default:
		}
	}
	return c.Conn.Read(p)
}

// quiet tells whether nothing is left of earlier answers. Between two requests
// net/http reads on, which begins a moment after it lends out the connection,
// or, with something left in its buffer, never.
func (c *upstreamConn) quiet() bool {
	if !c.awaits.Load() {
		patience := time.NewTimer(answerGrace)
		defer patience.Stop()
		for !c.awaits.Load() {
			select {
			case <-c.arrived:
			case <-c.closed:
				return false
			case <-patience.C:
				return false
			}
		}
	}
	switch {
	case c.raw == nil:
		return true
	case c.plain:
		return !hasSent(c.raw)
	}
	return !hungUp(c.raw)
}

func (c *upstreamConn) Write(p []byte) (n int, err error) {
	begins := c.begins.Swap(false)
	switch {
	case begins && !c.quiet():
		err = errUnasked
	case !begins && c.raw != nil && hungUp(c.raw):
		err = errHungUp
	default:
		c.writes.Add(1)
		n, err = c.Conn.Write(p)
	}
	if err != nil {
		select {
		case <-c.closed: // by who has read the answer, or the error
		case <-time.After(answerGrace):
		}
	}
	return n, err
}

func (c *upstreamConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// attempt is one attempt to send a request.
type attempt struct {
	conn   *upstreamConn // nil before there is one
	writes int64         // before
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	if c, ok := connUnder[*upstreamConn](info.Conn); ok {
		a.conn, a.writes = c, c.writes.Load()
		c.begins.Store(true)
	}
}

// unsent tells whether it is proved that nothing of the request was sent: there
// was no connection, or nobody tried to write to it. It was the request's alone,
// and net/http does not use it any more.
func (a *attempt) unsent() bool {
	return a.conn == nil || a.conn.writes.Load() == a.writes
}

// send sends the request and waits for the response. It is sent again only on
// the proof that it was not sent: an idle connection often turns out to be
// closed when it is to be used. The error is errUnsent if there is that proof.
func (f *Forward) send(x *exchange, request *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		var a attempt
		ctx := httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{GotConn: a.gotConn})
		response, err := f.transport.RoundTrip(request.WithContext(ctx))
		if err == nil && a.unsent() {
			_ = response.Body.Close()
			err = errUnasked // so this is no answer
		}
		switch {
		case err == nil:
			x.upstream = a.conn
			return response, nil
		case !a.unsent():
			return nil, err
		case a.conn == nil || try == maxAttempts || x.ctx.Err() != nil || !x.rewind(request):
			return nil, fmt.Errorf("%w: %w", errUnsent, httperr.WithoutAnswer(err, errUnasked, errHungUp))
		}
	}
}
