// Package redistest runs private Redis servers for tests, on free ports of the
// loopback address: single ones, a primary with a replica under three
// sentinels, and clusters; and proxies in front of them that cut connections.
// It uses the redis-server on the PATH, which the project's Makefile installs.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long anything here may take on a busy machine.
const patience = 30 * time.Second

// Server is one redis-server process, killed when its test ends.
type Server struct {
	Addr string // host:port, the same across restarts
	dir  string
	args []string
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// Start runs a server that keeps every write on disk. args are further
// redis-server options, which win.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := prepare(t, FreeAddr(t), append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...)...)
	s.Restart(t)
	return s
}

// prepare is a server that is not started yet.
func prepare(t testing.TB, addr string, args ...string) *Server {
	t.Helper()
	s := &Server{Addr: addr, dir: t.TempDir()}
	host, port := s.hostPort()
	s.args = append([]string{"--bind", host, "--port", port, "--dir", s.dir, "--save", ""}, args...)
	t.Cleanup(s.Kill)
	return s
}

// A cluster node also listens busOffset above its port. The range below keeps
// both under the ports that the system gives to outgoing connections, one of
// which may sit on a server's port while the server is down.
const (
	firstPort = 10_000
	busOffset = 10_000
	lastPort  = 32_767 - busOffset
)

var given sync.Map // ports that this process has given away

// FreeAddr is a loopback address that nothing listens on now, nor on the bus
// port that belongs to it.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // any port does
		if !free(port) || !free(port+busOffset) {
			continue
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	t.Fatal("no free port")
	return ""
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}

// URL for the gateway.
func (s *Server) URL() string { return "redis://" + s.Addr }

func (s *Server) hostPort() (host, port string) {
	host, port, _ = net.SplitHostPort(s.Addr) // made by FreeAddr
	return host, port
}

// Client returns a client of the server for looking and meddling.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := s.client()
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *Server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DisableIdentity: true})
}

// Kill ends the server like a power cut.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.gone
	s.cmd = nil
}

// Signal sends a signal such as SIGSTOP to the server.
func (s *Server) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Restart starts the server again, killed before or not, with the data it had.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Launch(t)
	s.until(t, "is ready", func(ctx context.Context, client *redis.Client) error {
		if err := client.Ping(ctx).Err(); !redis.HasErrorPrefix(err, "NOAUTH") {
			return err
		}
		return nil
	})
}

// RestartEmpty starts the server again without its data.
func (s *Server) RestartEmpty(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := errors.Join(os.RemoveAll(s.dir), os.MkdirAll(s.dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
}

// Launch starts the server again and waits only until it answers, be it that
// it is still loading its data. args are options for this start alone.
func (s *Server) Launch(t testing.TB, args ...string) {
	t.Helper()
	s.Kill()
	args = slices.Concat(s.args, args)
	s.cmd = exec.CommandContext(context.Background(), "redis-server", args...) //nolint:gosec // our own arguments
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("tests need redis-server: run `make setup`: %v", err)
	}
	s.gone = make(chan struct{})
	go func(cmd *exec.Cmd, gone chan<- struct{}) {
		_ = cmd.Wait()
		close(gone)
	}(s.cmd, s.gone)
	// Another process may have taken the port: what answers must be ours.
	ours := fmt.Sprintf("process_id:%d\r", s.cmd.Process.Pid)
	s.until(t, "answers", func(ctx context.Context, client *redis.Client) error {
		info, err := client.Info(ctx, "server").Result()
		if redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		if err == nil && !strings.Contains(info, ours) {
			err = errors.New("another server answers")
		}
		return err
	})
}

// until waits for the server to get somewhere, as long as its process lives.
func (s *Server) until(t testing.TB, what string, reached func(context.Context, *redis.Client) error) {
	t.Helper()
	client := s.client()
	defer client.Close() //nolint:errcheck // only looked
	Until(t, "redis-server on "+s.Addr+" "+what, func(ctx context.Context) error {
		select {
		case <-s.gone:
			t.Fatalf("redis-server on %s has ended: %v", s.Addr, s.cmd.ProcessState)
		default:
		}
		return reached(ctx, client)
	})
}

// Until polls until something is so, and fails the test with the last error
// when it takes too long.
func Until(t testing.TB, what string, reached func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := reached(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("it is not so in %v that %s: %v", patience, what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
