package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// develop runs `gateway dev` on a folder, with nothing in the environment but
// free ports.
func develop(t *testing.T, data string) *gateway {
	t.Helper()
	g := command(t, settings{"GATEWAY_JWT_SECRET": "", "GATEWAY_STORE": ""}, "dev", "--data", data)
	g.run()
	return g
}

var (
	curlLine   = regexp.MustCompile(`(?m)^\s*(curl .*)\n`)
	serviceKey = regexp.MustCompile(`(?m)^\s*(sk-\S+)\n`)
	statusLine = regexp.MustCompile(`^HTTP/1\.1 (\d{3}) `)
)

// printed waits for what `gateway dev` tells a newcomer: a key, and lines for a shell.
func printed(t *testing.T, g *gateway) (key string, lines []string) {
	t.Helper()
	eventually(t, "the printed lines", func() bool {
		out := g.stdout.String()
		lines = nil
		for _, match := range curlLine.FindAllStringSubmatch(out, -1) {
			lines = append(lines, match[1])
		}
		if match := serviceKey.FindStringSubmatch(out); match != nil {
			key = match[1]
		}
		return len(lines) == 4 && key != ""
	})
	return key, lines
}

// eventually waits until something has happened.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

func TestTheLinesThatDevPrintsWorkAsPrinted(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{"empty folder": t.TempDir(), "missing folder": filepath.Join(t.TempDir(), "new", "data")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := develop(t, data)
			_, lines := printed(t, g)
			for round := range 2 { // a newcomer tries them more than once
				for i, want := range []string{"201", "200", "200", "204"} {
					if got := runInShell(t, lines[i]); got != want {
						t.Errorf("round %d: %s: %s, want %s", round+1, lines[i], got, want)
					}
				}
			}
		})
	}
}

// runInShell runs a line as it stands, and returns the status that curl shows.
func runInShell(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output() //nolint:gosec // as a newcomer would
	match := statusLine.FindSubmatch(out)
	if err != nil || match == nil {
		t.Fatalf("%s: %v, %q", line, err, out)
	}
	return string(match[1])
}

func TestDevGoesOnWhereItWasKilled(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	g := develop(t, data)
	key, _ := printed(t, g)
	c, owner := g.clientWith(t, key), uuid.New()
	l := c.acquire("key", owner, 3600).granted(http.StatusCreated)
	g.kill()
	g.run()
	if got := c.read("key").held(); got.Fence != l.Fence || !got.ExpiresAt.Equal(l.ExpiresAt) {
		t.Errorf("the restart changed the lease %+v to %+v", l, got)
	}
	again, lines := printed(t, g)
	g.clientWith(t, again).renew("key", owner, 3600).granted(http.StatusOK)
	if got := runInShell(t, lines[0]); got != "201" {
		t.Errorf("after the restart %s: %s, want 201", lines[0], got)
	}
	c.release("key", owner).want(http.StatusNoContent, "")
}

func TestDevKeepsItsSecretToItself(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	g := develop(t, data)
	printed(t, g)
	secret := strings.TrimSpace(contents(t, filepath.Join(data, "secret")))
	if len(secret) < 32 || strings.Contains(g.stdout.String()+g.stderr.String(), secret) {
		t.Error("the secret is short, or was shown")
	}
	info, err := os.Stat(filepath.Join(data, "secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the secret: %v, %v", info.Mode(), err)
	}
}

func TestKeysForADevFolder(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	g := develop(t, data)
	of := []string{"--data", data, "--project", uuid.NewString()}
	for _, c := range []credentialCase{
		{"service key", createKey(t, nil, of...), http.StatusOK, nil},
		{"anon key", createKey(t, nil, append(of, "--role", "anon")...), http.StatusForbidden, []string{"anon key"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, g)
			if got := inspectKey(t, nil, c.credential, "--data", data); got["valid"] != true {
				t.Errorf("inspect says %v", got)
			}
		})
	}
	t.Run("another folder", func(t *testing.T) {
		r := call(t, nil, "", "key", "create", "--data", t.TempDir(), "--project", uuid.NewString())
		if r.code == 0 || r.stdout != "" || !strings.Contains(strings.ToLower(r.stderr), "secret") {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
		}
	})
}

func TestDevSaysWhatItTakesFromTheEnvironment(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for name, c := range map[string]struct {
		environ settings
		says    string
	}{
		"nothing":    {settings{"GATEWAY_JWT_SECRET": "", "GATEWAY_STORE": ""}, "Its data and secret are in " + data},
		"the secret": {settings{"GATEWAY_JWT_SECRET": newSecret(), "GATEWAY_STORE": ""}, "your environment, for: GATEWAY_JWT_SECRET."},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share the data
			g := command(t, c.environ, "dev", "--data", data)
			g.run()
			printed(t, g)
			if out := g.stdout.String(); !strings.Contains(out, c.says) {
				t.Errorf("it says %s, want %q", out, c.says)
			}
		})
	}
}
