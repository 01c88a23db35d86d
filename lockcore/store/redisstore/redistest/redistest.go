// Package redistest runs private Redis servers for tests, on free ports of the
// loopback address. It uses the redis-server on the PATH, which the project's
// Makefile installs.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is one redis-server process, killed when its test ends.
type Server struct {
	Addr string // host:port, the same across restarts
	dir  string
	args []string
	cmd  *exec.Cmd
}

// Start runs a server that keeps every write on disk. args are further
// redis-server options, which win.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{Addr: FreeAddr(t), dir: t.TempDir()}
	s.args = append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...)
	t.Cleanup(s.Kill)
	s.Restart(t)
	return s
}

// FreeAddr is a loopback address that nothing listens on now.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a listener that was not used
	return l.Addr().String()
}

// URL for the gateway.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Client returns a client of the server for looking and meddling.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Kill ends the server like a power cut.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
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
	s.Kill()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--bind", host, "--port", port, "--dir", s.dir, "--save", ""}, s.args...)
	s.cmd = exec.CommandContext(context.Background(), "redis-server", args...) //nolint:gosec // our own arguments
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("tests need redis-server: run `make setup`: %v", err)
	}
	if err := s.ready(); err != nil {
		t.Fatal(err)
	}
}

// RestartEmpty starts the server again without its data.
func (s *Server) RestartEmpty(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
}

func (s *Server) ready() error {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DisableIdentity: true})
	defer client.Close() //nolint:errcheck // only looked
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		err := client.Ping(ctx).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("redis-server on %s did not become ready", s.Addr)
}
