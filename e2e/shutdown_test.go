package e2e

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// dial connects to the public listener.
func dial(t testing.TB, g *gateway) (net.Conn, error) {
	_, address, _ := strings.Cut(g.public, "://")
	return (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", address)
}

// drains waits until the gateway has begun to stop, and takes no new connection.
func drains(t *testing.T, g *gateway) {
	t.Helper()
	eventually(t, "a refused connection", func() bool {
		conn, err := dial(t, g)
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

func TestStoppingFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, inMemory...)
	g := start(t, settings{"GATEWAY_STORE": server.URL(), "GATEWAY_STORE_TIMEOUT": "20s", "GATEWAY_SHUTDOWN_TIMEOUT": "20s"})
	c := g.client(t, uuid.New())
	c.read("key").free()
	before := g.vitals().goroutines
	server.Signal(t, syscall.SIGSTOP) // what comes now stays in flight
	answers, errs := make([]answer, 20), make([]error, 20)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], errs[i] = c.send(acquire(uuid.NewString(), uuid.New(), 60)) })
	}
	eventually(t, "all connections", func() bool { return g.vitals().goroutines >= before+float64(len(answers)-1) }) // one was there
	time.Sleep(time.Second)                                                                                          // for their requests to arrive
	g.terminate()
	drains(t, g)
	for _, page := range []string{"/readyz", "/readyz/forwarding"} {
		if status, body := g.ask(page); status != http.StatusServiceUnavailable || !strings.Contains(body, "shutting down") {
			t.Errorf("%s while stopping: %d %s", page, status, body)
		}
	}
	server.Signal(t, syscall.SIGCONT)
	all.Wait()
	for i, a := range answers {
		if errs[i] != nil {
			t.Errorf("a request was cut: %v", errs[i])
			continue
		}
		a.granted(http.StatusCreated)
	}
	g.wait()
	g.wantCleanExit()
}

func TestStoppingEndsInTimeWhateverIsInFlight(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, inMemory...)
	g := start(t, settings{"GATEWAY_STORE": server.URL(), "GATEWAY_STORE_TIMEOUT": "25s", "GATEWAY_SHUTDOWN_TIMEOUT": "1s"})
	c := g.client(t, uuid.New())
	c.read("key").free()
	server.Signal(t, syscall.SIGSTOP)
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = c.send(acquire("key", uuid.New(), 60)) }) // whatever becomes of it
	time.Sleep(time.Second / 2)
	stopsWithin(t, g, time.Second+slack, syscall.SIGTERM)
	sending.Wait()
}

// stopsWithin sends a signal and judges the end of the process.
func stopsWithin(t *testing.T, g *gateway, most time.Duration, signal syscall.Signal) {
	t.Helper()
	began := time.Now()
	if err := g.process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	g.wait()
	took := time.Since(began)
	t.Logf("stopping took %v", took)
	if took > most {
		t.Errorf("stopping took %v, want at most %v", took, most)
	}
	g.wantCleanExit()
}

func TestIdleConnectionsDoNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, settings{"GATEWAY_SHUTDOWN_TIMEOUT": "25s"})
			c := g.client(t, uuid.New())
			c.read("key").free() // and keeps its connection
			kept := connectTo(t, g)
			if _, err := kept.Write([]byte("GET /somewhere HTTP/1.1\r\nHost: gateway\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if n, err := kept.Read(make([]byte, 4096)); n == 0 || err != nil {
				t.Fatal(err)
			}
			stopsWithin(t, g, slack, signal)
		})
	}
}

func TestSilentConnectionsDoNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	for name, sends := range map[string]string{
		"nothing":        "",
		"half a request": "POST /locks/key/lease HTTP/1.1\r\nHost: gateway\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, settings{"GATEWAY_SHUTDOWN_TIMEOUT": "25s"})
			if _, err := connectTo(t, g).Write([]byte(sends)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond) // for it to arrive
			stopsWithin(t, g, 15*time.Second, syscall.SIGTERM)
		})
	}
}

func connectTo(t *testing.T, g *gateway) net.Conn {
	t.Helper()
	conn, err := dial(t, g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestWhatWasDoneWasAnswered stops a gateway under load. Requests may be
// refused by then, but none may have been carried out without an answer: each
// line of the audit log is a request that was.
func TestWhatWasDoneWasAnswered(t *testing.T) {
	t.Parallel()
	project := uuid.New()
	g := start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, 1_000_000))})
	c := g.client(t, project)
	var mu sync.Mutex
	answered := map[string]bool{}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for {
				id := uuid.NewString()
				a, err := c.send(acquire(uuid.NewString(), uuid.New(), 60).with(requestIDHeader, id))
				if err != nil {
					return
				}
				if err := a.check(http.StatusCreated, ""); err != nil {
					t.Error(err)
				}
				mu.Lock()
				answered[id] = true
				mu.Unlock()
			}
		})
	}
	eventually(t, "many answers", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(answered) >= 100
	})
	g.terminate()
	all.Wait()
	g.wait()
	g.wantCleanExit()
	done := g.stdout.lines()
	for _, line := range done {
		r, err := parseRecord(line)
		if err != nil || !answered[r.text("request_id")] {
			t.Errorf("done, and never answered: %s", line)
		}
	}
}
