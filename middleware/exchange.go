package middleware

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Why an exchange was cut short.
var (
	errNoAnswer   = errors.New("the upstream did not begin its answer in time")
	errAllBusy    = errors.New("no connection to the upstream became free in time")
	errClientLeft = errors.New("the client closed the connection")
	errStopped    = errors.New("the gateway has stopped")
)

// exchange is one forwarded request and its response, from the first look at
// the request to the last byte of the response. It outlives the handler: the
// server sends the response after that.
type exchange struct {
	client *fasthttp.RequestCtx
	ctx    context.Context
	cancel context.CancelCauseFunc

	wait   *wait
	watch  *watch
	upload *upload // nil without a body
	small  []byte  // the whole body; nil when it is streamed

	response *http.Response // nil before there is one
	upstream net.Conn       // that it comes from
	release  func()         // gives back what the exchange holds of the connection limit; nil before it does
	once     sync.Once
}

// begin starts the clock of an exchange.
func (f *Forward) begin(client *fasthttp.RequestCtx) *exchange {
	x := &exchange{client: client}
	x.ctx, x.cancel = context.WithCancelCause(f.running)
	x.wait = newWait(f.settings.UpstreamTimeout, func() { x.cancel(errNoAnswer) })
	x.watch = newWatch(client.Conn(), func() { x.cancel(errClientLeft) })
	return x
}

// hold takes one of the connections that may be open at a time.
func (f *Forward) hold(x *exchange) error {
	select {
	case f.slots <- struct{}{}:
		x.release = func() { <-f.slots }
		return nil
	case <-x.ctx.Done():
		if errors.Is(context.Cause(x.ctx), errNoAnswer) {
			return errAllBusy
		}
		return context.Cause(x.ctx)
	}
}

// end frees everything. Nothing reads the request any more when it returns.
// Only the first call does anything.
func (x *exchange) end() {
	x.once.Do(func() {
		x.wait.end()
		x.watch.end()
		if x.upload != nil {
			x.upload.end()
		}
		if x.response != nil {
			_ = x.response.Body.Close() // what was not read is not wanted
		}
		x.cancel(context.Canceled)
		if x.release != nil {
			x.release()
		}
	})
}

// wait bounds how long the upstream may keep us waiting. It stands still while
// it is the client that we wait for.
type wait struct {
	limit time.Duration
	mu    sync.Mutex
	over  bool
	timer *time.Timer
}

func newWait(limit time.Duration, expired func()) *wait {
	return &wait{limit: limit, timer: time.AfterFunc(limit, expired)}
}

func (w *wait) pause() { w.timer.Stop() }

// resume starts over: the upstream has just taken a part of the request.
func (w *wait) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.timer.Reset(w.limit)
	}
}

// end ends the wait.
func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
