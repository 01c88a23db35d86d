package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

var outageLasts = flag.Duration("outage", 3*time.Second, "how long each outage under load lasts once it is known")

const (
	loadRate    = 500                           // requests per second
	loadLimit   = 1_000_000                     // of the project's quota
	mostWaiting = 4 * loadRate                  // requests without an answer at a time
	untilKnown  = storeTimeout + time.Second    // from the start of an outage until every request is refused at once
	soon        = 2*time.Second + 3*time.Second // for the service to be back after the store, and slack
)

// load is requests at a constant rate, whatever becomes of those before.
type load struct {
	client  *client
	owners  [3]uuid.UUID
	stopped chan struct{}
	all     sync.WaitGroup
	waiting atomic.Int64

	mu       sync.Mutex
	answers  []answer
	failures []error
}

// startLoad sends until it is stopped.
func startLoad(c *client) *load {
	l := &load{client: c, owners: [...]uuid.UUID{uuid.New(), uuid.New(), uuid.New()}, stopped: make(chan struct{})}
	l.all.Go(func() {
		began := time.Now()
		for i := 0; ; i++ {
			select {
			case <-l.stopped:
				return
			case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second / loadRate))):
			}
			if l.waiting.Load() >= mostWaiting {
				l.fail(fmt.Errorf("%d requests wait for an answer", mostWaiting))
				return
			}
			l.all.Go(func() { l.send(i) })
		}
	})
	return l
}

// send alternates between all that can be done to a few locks.
func (l *load) send(i int) {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	key, owner := fmt.Sprintf("key%d", i%50), l.owners[i%len(l.owners)]
	r := [...]request{acquire(key, owner, 60), renew(key, owner, 60), read(key), release(key, owner)}[i%4]
	a, err := l.client.send(r)
	if err != nil {
		l.fail(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, err)
}

// stop waits for all answers.
func (l *load) stop(t *testing.T) {
	t.Helper()
	close(l.stopped)
	l.all.Wait()
	l.client.http.CloseIdleConnections()
	for i, err := range l.failures {
		if i < 10 {
			t.Errorf("a request got no answer: %v", err)
		}
	}
	if len(l.failures) >= 10 {
		t.Errorf("%d requests got no answer", len(l.failures))
	}
}

// between are the answers to requests that were sent in this time.
func (l *load) between(from, to time.Time) (answers []answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		if !a.sent.Before(from) && a.sent.Before(to) {
			answers = append(answers, a)
		}
	}
	return answers
}

// TestAnOutageUnderLoad freezes Redis and lets it go on, and then kills it and
// starts it again, while 500 requests per second keep coming. -outage says how
// long each lasts. The gateway is the binary that users have: what it takes of
// time and memory with the race detector in it would mean little. For the same
// reason the test is not parallel to others.
func TestAnOutageUnderLoad(t *testing.T) {
	project := uuid.New()
	server := redistest.Start(t)
	g := startOptimized(t, settings{
		"GATEWAY_STORE": server.URL(), "GATEWAY_STORE_TIMEOUT": storeTimeout.String(),
		"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, loadLimit)),
	})
	c := g.client(t, project)
	c.http.Transport = &http.Transport{MaxIdleConnsPerHost: mostWaiting}
	c.read("key").free()
	c.http.CloseIdleConnections()
	before := g.vitals()
	watchHealth(t, g)
	l := startLoad(c)
	time.Sleep(time.Second)
	for _, outage := range []struct {
		name        string
		begins, end func()
	}{
		{"frozen", func() { server.Signal(t, syscall.SIGSTOP) }, func() { server.Signal(t, syscall.SIGCONT) }},
		{"killed", server.Kill, func() { server.Restart(t) }},
	} {
		outage.begins()
		began := time.Now().Add(50 * time.Millisecond) // what was sent before may have been decided
		time.Sleep(untilKnown + *outageLasts)
		t.Logf("%s: at its end %v", outage.name, g.vitals())
		ended := time.Now()
		outage.end()
		back := time.Now()
		serviceIsBack(t, c, outage.name, back)
		time.Sleep(time.Until(back.Add(soon + time.Second)))
		judgeOutage(t, outage.name, l, began, ended)
		judgeReturn(t, outage.name, l, back.Add(soon))
	}
	l.stop(t)
	judgeQuota(t, c, l)
	c.http.CloseIdleConnections()
	g.recovered(t, before)
	if *outageLasts >= time.Minute {
		restsAfterwards(t, g)
	}
}

// startOptimized is start, without the race detector.
func startOptimized(t *testing.T, given settings) *gateway {
	t.Helper()
	g := command(t, given, "serve")
	cmd := process(t, g.settings, g.command...)
	cmd.Path = filepath.Join(t.TempDir(), "gateway")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", cmd.Path, "../cmd/gateway") //nolint:gosec // our own arguments
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the gateway: %v\n%s", err, out)
	}
	g.launch(cmd)
	g.untilServing()
	return g
}

// restsAfterwards logs how the process is when the runtime has had the time to
// give memory back.
func restsAfterwards(t *testing.T, g *gateway) {
	for minute := range 5 {
		time.Sleep(time.Minute)
		http.DefaultClient.CloseIdleConnections()
		t.Logf("after %d minutes of rest: %v", minute+1, g.vitals())
	}
}

// serviceIsBack waits for the first success.
func serviceIsBack(t *testing.T, c *client, outage string, back time.Time) {
	t.Helper()
	for c.read("key").status != http.StatusOK {
		if time.Since(back) > soon {
			t.Fatalf("%s: no success %v after the store is back", outage, soon)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%s: the first success came %v after the store was back", outage, time.Since(back))
}

// judgeOutage fails the test unless every answer was the right refusal in time,
// and came at once when the outage was known.
func judgeOutage(t *testing.T, outage string, l *load, began, ended time.Time) {
	t.Helper()
	known := began.Add(untilKnown)
	first, then := map[string]int{}, map[string]int{} // answers by outcome
	var took []time.Duration
	for _, a := range l.between(began, ended) {
		if late := a.received.Sub(a.sent); late > storeTimeout+slack {
			t.Errorf("%s: %v came after %v", outage, a, late)
		}
		if a.received.After(ended) {
			continue // the store was back
		}
		if err := a.check(http.StatusServiceUnavailable, "lock_service_unavailable"); err != nil {
			t.Errorf("%s: %v, sent %v after it began", outage, err, a.sent.Sub(began))
			continue
		}
		if a.sent.Before(known) {
			first[a.problem().Outcome]++
			continue
		}
		then[a.problem().Outcome]++
		took = append(took, a.received.Sub(a.sent))
	}
	p := percentiles(took)
	t.Logf("%s: until it was known: %v; then: %v, %v", outage, first, then, p)
	if first["not_applied"]+first["unknown"] == 0 || p.n == 0 || then["not_applied"] != p.n {
		t.Errorf("%s: the outcomes were %v, and once it was known %v, want not_applied", outage, first, then)
	}
	if *outageLasts >= time.Minute && p.p99 > 50*time.Millisecond { // a run for the figures, on a quiet machine
		t.Errorf("%s: once it was known, refusals took %v", outage, p)
	}
}

// judgeReturn fails the test if something was refused when the store had been
// back for long enough.
func judgeReturn(t *testing.T, outage string, l *load, back time.Time) {
	t.Helper()
	for _, a := range l.between(back, time.Now()) {
		if a.status >= http.StatusInternalServerError {
			t.Errorf("%s: %v, sent %v after the service had to be back", outage, a, a.sent.Sub(back))
		}
	}
}

// judgeQuota compares the record of the last minute with the answers. Each one
// that was decided counted once: no two of a minute saw the same number. One
// of which nobody knows counted once, or not.
func judgeQuota(t *testing.T, c *client, l *load) {
	t.Helper()
	last := c.read("key").want(http.StatusOK, "").quota()
	counted, unknown := map[quota]int{}, 0
	decided := 1 // the one just now
	for _, a := range l.between(time.Time{}, time.Now()) {
		if a.problem().Outcome == "unknown" {
			unknown++
		}
		if a.status >= http.StatusInternalServerError {
			continue
		}
		q := a.quota()
		if counted[q]++; counted[q] > 1 {
			t.Errorf("%v: another request had the same place in the quota, %+v", a, q)
		}
		if q.reset == last.reset {
			decided++
		}
	}
	used := loadLimit - last.remaining
	t.Logf("in the last minute %d requests were decided, of %d nobody knows, and %d were counted", decided, unknown, used)
	const others = 100 // reads of this test beside the load
	if used < decided || used > decided+unknown+others {
		t.Errorf("%d requests were counted in the last minute, of %d that were decided and %d of which nobody knows", used, decided, unknown)
	}
}
