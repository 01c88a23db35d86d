package e2e

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// patience bounds every wait for something that takes moments on an idle
// machine. A test that ends because of it has found something that hangs.
const patience = 30 * time.Second

// settings is a gateway's environment.
type settings map[string]string

// gateway is a process of the binary under test. Its address changes with
// every restart.
type gateway struct {
	t        testing.TB
	command  []string
	settings settings
	traffic  *traffic

	roots         *x509.CertPool // that clients trust; nil: the public listener has no TLS
	public, admin string         // base URLs of the listeners
	stdout        *output
	stderr        *output
	process       *os.Process
	exited        chan struct{} // closed once the process has ended
	code          int           // its exit code, then; -1 after a kill
}

// start runs `gateway serve` with these settings on top of usable ones, until
// the test ends.
func start(t testing.TB, given settings) *gateway {
	t.Helper()
	g := command(t, given, "serve")
	g.run()
	return g
}

// command prepares a gateway that g.run starts.
func command(t testing.TB, given settings, args ...string) *gateway {
	t.Helper()
	all := settings{
		"GATEWAY_ADDR":       "127.0.0.1:0",
		"GATEWAY_ADMIN_ADDR": "127.0.0.1:0",
		"GATEWAY_JWT_SECRET": newSecret(),
		"GATEWAY_STORE":      "bolt://" + filepath.Join(t.TempDir(), "locks.db"),

		"GATEWAY_STORE_TIMEOUT": "20s", // a busy machine may need more than the usual 2s for its disk
	}
	maps.Copy(all, given)
	g := &gateway{t: t, command: args, settings: all, traffic: &traffic{}}
	g.traffic.add(all["GATEWAY_JWT_SECRET"])
	t.Cleanup(g.finish)
	return g
}

// run starts the process, for the first time or again, and waits until it serves.
func (g *gateway) run() {
	g.t.Helper()
	g.launch(process(g.t, g.settings, g.command...))
	g.untilServing()
}

func (g *gateway) untilServing() {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if r, found := g.stderr.logged("serving"); found {
			g.public, g.admin = "http://"+r.text("public"), "http://"+r.text("admin")
			if g.roots != nil {
				g.public = "https://" + r.text("public")
			}
			return
		}
		select {
		case <-g.exited:
			g.t.Fatalf("the gateway ended with code %d instead of serving:\n%s", g.code, g.stderr)
		case <-time.After(5 * time.Millisecond):
		}
	}
	g.t.Fatalf("the gateway does not serve:\n%s", g.stderr)
}

func (g *gateway) launch(cmd *exec.Cmd) {
	g.t.Helper()
	g.stdout, g.stderr, g.exited = &output{}, &output{}, make(chan struct{})
	cmd.Stdout, cmd.Stderr = g.stdout, g.stderr
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.process = cmd.Process
	go func() {
		defer close(g.exited)
		_ = cmd.Wait() // the exit code says it all
		g.code = cmd.ProcessState.ExitCode()
	}()
}

// process is the binary with a private environment and an empty folder to work in.
func process(t testing.TB, s settings, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), binary, args...) //nolint:gosec // built by TestMain
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"} // the race detector would stay for a second
	for name, value := range s {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// kill ends the process like a power cut. What clients have got is complete
// only when they have ended too.
func (g *gateway) kill(clients ...*sync.WaitGroup) {
	g.t.Helper()
	if err := g.process.Kill(); err != nil {
		g.t.Fatal(err)
	}
	<-g.exited
	for _, c := range clients {
		c.Wait()
	}
	g.judge()
}

// terminate asks the process to stop; wait waits for it.
func (g *gateway) terminate() {
	g.t.Helper()
	if err := g.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		g.t.Error(err)
	}
}

func (g *gateway) wait() {
	g.t.Helper()
	select {
	case <-g.exited:
	case <-time.After(patience):
		_ = g.process.Kill()
		<-g.exited
		g.t.Errorf("the gateway did not stop within %v:\n%s", patience, g.stderr)
	}
}

// finish stops the gateway when its test ends, and judges it.
func (g *gateway) finish() {
	if g.process == nil || g.ended() {
		return
	}
	g.terminate()
	g.wait()
	g.wantCleanExit()
}

func (g *gateway) wantCleanExit() {
	g.t.Helper()
	if g.code != 0 {
		g.t.Errorf("the gateway stopped with exit code %d:\n%s", g.code, g.stderr)
	}
	g.judge()
}

func (g *gateway) ended() bool {
	select {
	case <-g.exited:
		return true
	default:
		return false
	}
}

// newSecret makes a signing secret.
func newSecret() string {
	random := make([]byte, 48)
	_, _ = rand.Read(random) // never fails
	return base64.StdEncoding.EncodeToString(random)
}

// result is what a command that ends by itself left.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) all() string { return r.stdout + r.stderr }

// call runs a command of the binary to its end.
func call(t testing.TB, s settings, stdin string, args ...string) result {
	t.Helper()
	var out, errs output
	cmd := process(t, s, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // the exit code says it all
	if !hangs.Stop() {
		t.Fatalf("gateway %s did not end within %v", strings.Join(args, " "), patience)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// inMemory are options of a Redis that tests do not restart: it has no disk to wait for.
var inMemory = []string{"--appendonly", "no"}

// stores are the kinds of stores. The URL of a new, empty one is good for
// GATEWAY_STORE.
var stores = map[string]func(t testing.TB) string{
	"bolt":  func(t testing.TB) string { return "bolt://" + filepath.Join(t.TempDir(), "locks.db") },
	"redis": func(t testing.TB) string { return redistest.Start(t, inMemory...).URL() },
}

// eachStore runs a test on a gateway over each kind of store, in parallel.
func eachStore(t *testing.T, test func(t *testing.T, g *gateway)) {
	for _, kind := range slices.Sorted(maps.Keys(stores)) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, settings{"GATEWAY_STORE": stores[kind](t)}))
		})
	}
}

// writeFile puts text into a new file and returns its path.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
