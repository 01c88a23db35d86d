package e2e

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// line is the way to Redis, with a trap on it.
type line struct {
	to     string // address of the server
	listen net.Listener
	trap   atomic.Pointer[trap]
}

// trap catches the reply to the next request that has a text in it, once.
type trap struct {
	text  string
	reply func() bool // called before the reply goes on; false: it is lost, with its connection
}

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

// url for the gateway.
func (l *line) url() string { return "redis://" + l.listen.Addr().String() }

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
	var caught atomic.Pointer[trap]
	go func() {
		defer far.Close() //nolint:errcheck // over
		pass(far, near, func(request []byte) bool {
			if set := l.trap.Load(); set != nil && bytes.Contains(request, []byte(set.text)) && l.trap.CompareAndSwap(set, nil) {
				caught.Store(set)
			}
			return true
		})
	}()
	pass(near, far, func([]byte) bool {
		sprung := caught.Swap(nil)
		return sprung == nil || sprung.reply()
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
	owner := uuid.New()
	for name, r := range map[string]request{"acquire": acquire("late", owner, 5), "renew": renew("late", owner, 5)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := newLine(t, redistest.Start(t, inMemory...).Addr)
			g := start(t, settings{"GATEWAY_STORE": way.url(), "GATEWAY_STORE_TIMEOUT": "20s"})
			c := g.client(t, uuid.New())
			c.acquire("late", owner, 60).granted(http.StatusCreated)
			way.trap.Store(&trap{":lease:late", func() bool {
				time.Sleep(5*time.Second + 100*time.Millisecond) // the lease lasts 5
				return true
			}})
			a := c.do(r).want(http.StatusServiceUnavailable, "lock_service_unavailable")
			if a.problem().Outcome != "unknown" {
				t.Errorf("%v, want the outcome unknown", a)
			}
			eventually(t, "an answer", func() bool { return c.read("other").status == http.StatusOK })
		})
	}
}

func TestARequestWhoseReplyIsLostCountsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, inMemory...)
	way := newLine(t, server.Addr)
	g := start(t, settings{"GATEWAY_STORE": way.url(), "GATEWAY_STORE_TIMEOUT": "20s"})
	o := &outage{t, server, g, g.client(t, uuid.New())}
	freshMinute()
	owner := uuid.New()
	before := o.read("key").quota()
	way.trap.Store(&trap{":lease:key", func() bool { return false }})
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
