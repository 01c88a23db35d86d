package middleware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
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
	errHungUp = errors.New("the upstream has closed the connection")
	errUnsent = errors.New("nothing was sent")
)

// dialUpstream opens a connection to the upstream.
func dialUpstream(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	u := &upstreamConn{Conn: c, closed: make(chan struct{})}
	if socket, ok := c.(syscall.Conn); ok {
		u.raw, _ = socket.SyscallConn() // without one there is less to know
	}
	return u, nil
}

// upstreamConn knows whether anything may have been sent on it, and reports
// late that writing failed. An upstream may answer and close before it has all
// of the request; the answer has arrived then, but net/http would not look for
// it any more.
type upstreamConn struct {
	net.Conn

	raw    syscall.RawConn
	writes atomic.Int64 // that were tried
	closed chan struct{}
	once   sync.Once
}

func (c *upstreamConn) Write(p []byte) (n int, err error) {
	if c.raw != nil && hungUp(c.raw) {
		err = errHungUp
	} else {
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
		switch {
		case err == nil:
			x.upstream = a.conn
			return response, nil
		case !a.unsent():
			return nil, err
		case a.conn == nil || try == maxAttempts || x.ctx.Err() != nil || !x.rewind(request):
			return nil, fmt.Errorf("%w: %w", errUnsent, err)
		}
	}
}
