package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

const (
	storeTimeout = 2 * time.Second // of the gateways in these tests
	slack        = 8 * time.Second // beside it, for a machine that is busy
	recovery     = 5 * time.Second // from a store that is back to a gateway that decides
)

// outage is a gateway whose Redis is about to have trouble.
type outage struct {
	t     *testing.T
	redis *redistest.Server
	*gateway
	*client
}

// newOutage starts both and watches that the process never counts as unhealthy.
func newOutage(t *testing.T, redisOptions ...string) *outage {
	t.Helper()
	server := redistest.Start(t, redisOptions...)
	g := start(t, settings{"GATEWAY_STORE": server.URL(), "GATEWAY_STORE_TIMEOUT": storeTimeout.String()})
	o := &outage{t, server, g, g.client(t, uuid.New())}
	watchHealth(t, g)
	return o
}

// watchHealth asks /healthz all along.
func watchHealth(t *testing.T, g *gateway) {
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	asked := 0
	watching.Go(func() {
		for ; ctx.Err() == nil; asked++ {
			if status, body := g.ask("/healthz"); status != http.StatusOK {
				t.Errorf("/healthz: %d %s", status, body)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		stop()
		watching.Wait()
		if asked == 0 {
			t.Error("nobody asked /healthz")
		}
	})
}

// ask gets a page of the admin listener; status 0 is no answer in time.
func (g *gateway) ask(path string) (status int, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout+slack)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.admin+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(a.Body)
	if err != nil || !json.Valid(text) {
		return 0, string(text)
	}
	return a.StatusCode, string(text)
}

// unavailable fails the test unless a request is refused in time, and says what
// is known of it: not_applied or unknown; "" for either.
func (o *outage) unavailable(r request, outcome string) {
	o.t.Helper()
	o.wantUnavailable(o.do(r), outcome)
}

func (o *outage) wantUnavailable(a answer, outcome string) {
	o.t.Helper()
	a.want(http.StatusServiceUnavailable, "lock_service_unavailable").uncounted()
	if got := a.problem().Outcome; got != outcome && (outcome != "" || got != "not_applied" && got != "unknown") {
		o.t.Errorf("%v, want the outcome %s", a, outcome)
	}
	if took := a.received.Sub(a.sent); took > storeTimeout+slack {
		o.t.Errorf("%v came after %v", a, took)
	}
}

func (o *outage) notReady(says string) {
	o.t.Helper()
	if status, body := o.ask("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, says) {
		o.t.Errorf("/readyz: %d %s, want 503 and %q", status, body, says)
	}
	if status, body := o.ask("/readyz/forwarding"); status != http.StatusOK {
		o.t.Errorf("/readyz/forwarding: %d %s, and an outage of the store is none of the upstream", status, body)
	}
}

// recovers fails the test unless the gateway decides and is ready soon.
func (o *outage) recovers() {
	o.t.Helper()
	deadline := time.Now().Add(recovery)
	for {
		a := o.read("recovered")
		status, body := o.ask("/readyz")
		if a.status == http.StatusOK && status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("%v after the store was back: %v; /readyz: %d %s", recovery, a, status, body)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// refusesMany sends many requests at a time, each of which is refused in time.
func (o *outage) refusesMany() {
	o.t.Helper()
	answers, errs := make([]answer, 50), make([]error, 50)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], errs[i] = o.send(read("key")) })
	}
	all.Wait()
	for i, a := range answers {
		if errs[i] != nil {
			o.t.Error(errs[i])
			continue
		}
		o.wantUnavailable(a, "")
	}
}
