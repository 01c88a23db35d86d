package middleware

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
)

// takenOver are the exchanges on connections that the server has handed over
// and neither waits for nor closes when it shuts down: WebSockets, and streams
// to HTTP/1.0 clients, which end where the connection does.
type takenOver struct {
	mu       sync.Mutex
	draining bool
	open     map[*exchange]kept
}

type kept struct {
	endless bool
	ended   chan struct{}
}

// takeOver lets serve have the client's connection once the handler has
// returned. An endless exchange is ended by a shutdown, others may finish.
func (f *Forward) takeOver(x *exchange, endless bool, serve func(client net.Conn)) {
	connection := x.client.Conn()
	k := f.taken.add(x, endless)
	x.client.HijackSetNoResponse(true) // with a response the server may decide not to hand over
	x.client.Hijack(func(client net.Conn) {
		serve(client)
		x.end()
	})
	// Also when the server fails before it hands over: then the watch ends the exchange.
	context.AfterFunc(x.ctx, func() {
		_ = connection.Close() // the server may have been first
		x.end()
		f.taken.remove(x)
		close(k.ended)
	})
}

func (t *takenOver) add(x *exchange, endless bool) kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[*exchange]kept{}
	}
	k := kept{endless: endless, ended: make(chan struct{})}
	t.open[x] = k
	if endless && t.draining {
		x.cancel(errStopped)
	}
	return k
}

func (t *takenOver) remove(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, x)
}

// drain ends the endless ones at once and the others with ctx.
func (t *takenOver) drain(ctx context.Context) {
	t.mu.Lock()
	t.draining = true
	open := maps.Clone(t.open)
	t.mu.Unlock()
	for x, k := range open {
		if k.endless {
			x.cancel(errStopped)
		}
	}
	for _, x := range slices.Collect(maps.Keys(open)) {
		select {
		case <-open[x].ended:
		case <-ctx.Done():
			x.cancel(errStopped)
			<-open[x].ended
		}
	}
}
