package e2e

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// line is the way to Redis, which can hold back replies and lose one.
type line struct {
	to     string // address of the server
	listen net.Listener
	flow   sync.RWMutex           // locked for writing: replies are held
	lose   atomic.Pointer[string] // the reply to the next request with this text in it, with its connection
}

// url for the gateway.
func (l *line) url() string { return "redis://" + l.listen.Addr().String() }

func newLine(t *testing.T, to string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	way := &line{to: to, listen: l}
	go way.accept()
	return way
}

func (l *line) accept() {
	for {
		near, err := l.listen.Accept()
		if err != nil {
			return // closed
		}
		go l.relay(near)
	}
}

func (l *line) relay(near net.Conn) {
	defer near.Close() //nolint:errcheck // over
	far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.to)
	if err != nil {
		return
	}
	defer far.Close() //nolint:errcheck // over
	var doomed atomic.Bool
	go func() {
		defer far.Close() //nolint:errcheck // over
		pass(far, near, func(request []byte) bool {
			if text := l.lose.Load(); text != nil && bytes.Contains(request, []byte(*text)) {
				doomed.Store(true)
				l.lose.Store(nil)
			}
			return true
		})
	}()
	pass(near, far, func([]byte) bool {
		l.flow.RLock()
		defer l.flow.RUnlock()
		return !doomed.Load()
	})
}

// pass copies what comes, as long as it may.
func pass(to, from net.Conn, may func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !may(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func TestALeaseThatEndedOnTheWayIsNotHandedOut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := newLine(t, server.Addr)
	g := start(t, settings{"GATEWAY_STORE": way.url(), "GATEWAY_STORE_TIMEOUT": "20s"})
	c, owner := g.client(t, uuid.New()), uuid.New()
	c.acquire("renewed", owner, 5).granted(http.StatusCreated)
	way.flow.Lock()
	var all sync.WaitGroup
	for name, r := range map[string]request{"acquire": acquire("key", owner, 5), "renew": renew("renewed", owner, 5)} {
		all.Go(func() {
			a, err := c.send(r)
			if err == nil {
				err = a.check(http.StatusServiceUnavailable, "lock_service_unavailable")
			}
			if err != nil || a.problem().Outcome != "unknown" {
				t.Errorf("%s: %v, %v; want the outcome unknown", name, a, err)
			}
		})
	}
	time.Sleep(6 * time.Second) // the leases last 5
	way.flow.Unlock()
	all.Wait()
	c.read("other").free()
}

func TestARequestWhoseReplyIsLostCountsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := newLine(t, server.Addr)
	g := start(t, settings{"GATEWAY_STORE": way.url(), "GATEWAY_STORE_TIMEOUT": storeTimeout.String()})
	o := &outage{t, server, g, g.client(t, uuid.New())}
	freshMinute()
	owner := uuid.New()
	before := o.read("key").quota()
	text := ":lease:key"
	way.lose.Store(&text)
	o.unavailable(acquire("key", owner, 300), "unknown")
	another := g.client(t, uuid.New()) // its project has a quota of its own
	eventually(t, "an answer", func() bool { return another.read("other").status == http.StatusOK })
	after := o.read("key")
	if got := after.quota(); got.remaining != before.remaining-2 {
		t.Errorf("two requests moved the quota from %+v to %+v", before, got)
	}
	l := after.held() // it was carried out
	if got := o.acquire("key", owner, 300).granted(http.StatusCreated); got.Fence != l.Fence {
		t.Errorf("repeated with the same lock token: %+v, want the lease %+v", got, l)
	}
}
