package middleware

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/internal/httperr"
	"github.com/project-locks/gateway/telemetry"
)

const (
	dialTimeout = 5 * time.Second  // to connect to the upstream, and again for TLS
	bodyStall   = 30 * time.Second // for how long a client may send or take nothing of a body that is under way

	maxResponseHeader = 1 << 20  // bytes
	smallBody         = 16 << 10 // bytes of a body that is not worth a stream
	upstreamBuffer    = 16 << 10 // bytes that are read from the upstream at a time
)

// Forward passes requests on to the upstream, with a verified identity.
//
// It never sends a request twice: see Forward.outgoing for how net/http is kept
// from doing so.
type Forward struct {
	settings  configs.Settings
	locks     *Locks             // who knows credentials and policy
	tracing   *telemetry.Tracing // nil: no traces
	transport *http.Transport
	tls       *tls.Config   // for the upstream
	slots     chan struct{} // one for each exchange that is with the upstream
	stall     time.Duration

	uncounted atomic.Int64

	running context.Context // ends with Close
	stop    context.CancelFunc
	taken   takenOver
}

// NewForward forwards to settings.Upstream. Credentials and policy are those of
// locks; tracing may be nil.
func NewForward(settings configs.Settings, locks *Locks, tracing *telemetry.Tracing) *Forward {
	f := &Forward{
		settings: settings,
		locks:    locks,
		tracing:  tracing,
		slots:    make(chan struct{}, settings.UpstreamMaxConns),
		stall:    bodyStall,
		tls:      &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12},
	}
	f.running, f.stop = context.WithCancel(context.Background())
	f.transport = &http.Transport{
		DialContext:            f.dial,
		DialTLSContext:         f.dialTLS,
		DisableCompression:     true, // bodies pass as they are
		MaxIdleConns:           settings.UpstreamMaxConns,
		MaxIdleConnsPerHost:    settings.UpstreamMaxConns,
		MaxConnsPerHost:        settings.UpstreamMaxConns,
		IdleConnTimeout:        settings.UpstreamIdleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		ReadBufferSize:         upstreamBuffer,
		Protocols:              new(http.Protocols),
	}
	f.transport.Protocols.SetHTTP1(true) // WebSockets need it, and HTTP/2 would repeat requests by rules of its own
	return f
}

// Handle forwards one request.
func (f *Forward) Handle(c *fiber.Ctx) error {
	return Rescue(f.handle)(c)
}

func (f *Forward) handle(c *fiber.Ctx) error {
	setUnread(c.Context().Conn(), c.Request().Header.ContentLength() != 0 && c.Context().RequestBodyStream() != nil)
	if err := unambiguous(c); err != nil {
		return err
	}
	id, err := RequestID(c)
	if err != nil {
		return err
	}
	target, err := f.target(c)
	if err != nil {
		return err
	}
	policy := f.locks.Policy()
	principal, err := f.identify(c, policy)
	if err != nil {
		return err
	}
	if err := f.count(c, principal, policy.Project(principal.Project)); err != nil {
		return err
	}
	x := f.begin(c.Context())
	request, err := f.outgoing(c, x, target)
	if err != nil {
		x.end()
		return err
	}
	request.Header.Set(HeaderRequestID, id)
	setIdentity(request.Header, principal)
	return f.exchange(c, x, request)
}

// exchange sends the request and hands the response to the server. From then
// on it is the server that ends x.
func (f *Forward) exchange(c *fiber.Ctx, x *exchange, request *http.Request) error {
	handedOver := false
	defer func() {
		if !handedOver {
			x.end()
		}
	}()
	err := f.hold(x)
	if err == nil {
		answered := f.tracing.Upstream(spanContext(c.Context()), request) //nolint:bodyclose // it gets the response later, and only looks
		x.response, err = f.send(x, request)                              //nolint:bodyclose // x.end closes it
		answered(x.response, err)
	}
	if err != nil {
		return x.problem(err)
	}
	x.wait.end()
	handedOver, err = f.respond(c, x)
	return err
}

// problem ends an exchange without a response, and is what the client is told.
func (x *exchange) problem(err error) error {
	x.end()
	if x.upload != nil {
		if failure := x.upload.failure(); failure != nil {
			x.client.SetConnectionClose()
			return uploadProblem(failure)
		}
	}
	if cause := context.Cause(x.ctx); !errors.Is(cause, context.Canceled) && !errors.Is(err, errAllBusy) {
		err = cause // of what the error is a consequence
	}
	switch {
	case errors.Is(err, errClientLeft):
		x.client.SetConnectionClose()
		return invalid("The connection was closed before the answer.")
	case errors.Is(err, errAllBusy):
		return upstreamTimeout("All connections to the upstream were busy for too long; the request was not sent. Try again.", err)
	case errors.Is(err, errNoAnswer):
		return upstreamTimeout("The upstream did not answer in time; the request may have been carried out.", err)
	case errors.Is(err, errUnsent):
		return upstreamUnavailable("The upstream cannot be reached; the request was not sent. Try again.", err)
	}
	return upstreamUnavailable("The upstream broke off without a complete answer; the request may have been carried out.",
		httperr.WithoutAnswer(err, errHungUp, errStopped))
}

// uploadProblem is for a request whose body did not arrive.
func uploadProblem(err error) error {
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return fiber.ErrRequestTimeout
	}
	return invalid("The body could not be read to its end.")
}

// Drain prepares for the end: it closes WebSockets, which would never end by
// themselves, and lets the other connections that no server looks after any
// more finish until ctx ends.
func (f *Forward) Drain(ctx context.Context) {
	if f != nil {
		f.taken.drain(ctx)
	}
}

// Close ends everything that is still under way.
func (f *Forward) Close() error {
	if f == nil {
		return nil
	}
	f.stop()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	f.taken.drain(ended)
	f.transport.CloseIdleConnections()
	return nil
}

var _ io.Closer = (*Forward)(nil)
