package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// replacing are the ways in which operators and their tools change a mounted
// file. The file is at path, in a folder of its own.
var replacing = map[string]func(path, text string) error{
	"written in place": func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) },
	"renamed": func(path, text string) error {
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	},
	"through a symbolic link": func(path, text string) error {
		target := path + "." + uuid.NewString()
		if err := os.WriteFile(target, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Symlink(target, path+".link"); err != nil {
			return err
		}
		return os.Rename(path+".link", path)
	},
}

// revoking is a policy file that revokes keys of a project.
func revoking(project uuid.UUID, keys ...string) string {
	return fmt.Sprintf("projects:\n  %s:\n    locks_per_minute: 1000000\n    revoked_keys: [%s]\n", project, strings.Join(keys, ", "))
}

func TestEveryChangeOfThePolicyFileIsSeen(t *testing.T) {
	t.Parallel()
	for name, replace := range replacing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := uuid.New()
			path := filepath.Join(t.TempDir(), "policy.yaml")
			change := func(text string) {
				if err := replace(path, text); err != nil {
					t.Fatal(err)
				}
			}
			change(revoking(project))
			g := start(t, settings{"GATEWAY_POLICY_FILE": path})
			stop := readAllAlong(t, keyOf(t, g, project, "key_good"))
			var revoked []string
			for n := range 3 {
				id := fmt.Sprintf("key_%d", n)
				c := keyOf(t, g, project, id)
				c.read("key").free()
				revoked = append(revoked, id)
				change(revoking(project, revoked...))
				eventually(t, "the refusal of "+id, func() bool { return c.read("key").status == http.StatusUnauthorized })
			}
			change(revoking(project))
			eventually(t, "the key that counts again", func() bool {
				return keyOf(t, g, project, "key_0").read("key").status == http.StatusOK
			})
			stop()
		})
	}
}

// keyOf is a client with a key of this id.
func keyOf(t *testing.T, g *gateway, project uuid.UUID, id string) *client {
	t.Helper()
	return g.clientWith(t, g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: project, KeyID: id}))
}

// readAllAlong reads one lock until it is stopped, and every answer must be a success.
func readAllAlong(t *testing.T, c *client) (stop func()) {
	var stopped atomic.Bool
	var reading sync.WaitGroup
	asked := 0
	reading.Go(func() {
		for ; !stopped.Load(); asked++ {
			a, err := c.send(read("key"))
			if err == nil {
				err = a.check(http.StatusOK, "")
			}
			if err != nil {
				t.Errorf("a reload lost a request: %v", err)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() {
		stopped.Store(true)
		reading.Wait()
		if asked == 0 {
			t.Error("nothing was read")
		}
	}
}

func TestABadPolicyFileLeavesTheLastGoodOneInForce(t *testing.T) {
	t.Parallel()
	project := uuid.New()
	path := writeFile(t, "policy.yaml", revoking(project, "key_old"))
	g := start(t, settings{"GATEWAY_POLICY_FILE": path})
	good, old := keyOf(t, g, project, "key_good"), keyOf(t, g, project, "key_old")
	inForce := func() {
		t.Helper()
		good.read("key").free()
		wantUnauthorized(old.read("key"), "revoked")
	}
	inForce()
	for name, c := range map[string]struct {
		spoil func() error
		says  string
	}{
		"wrong field": {func() error { return os.WriteFile(path, []byte("default:\n  locks_per_minute: lots\n"), 0o600) }, path + ":2: default.locks_per_minute"},
		"no YAML":     {func() error { return os.WriteFile(path, []byte("default: [\n"), 0o600) }, "YAML"},
		"gone":        {func() error { return os.Remove(path) }, "no such file"},
	} {
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the complaint about a file with "+name, func() bool { return complained(g, path, c.says) })
		inForce()
	}
	if err := os.WriteFile(path, []byte(revoking(project, "key_good")), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next good file", func() bool { return old.read("key").status == http.StatusOK })
	wantUnauthorized(good.read("key"), "revoked")
}

// complained finds an error in the service log that names the file.
func complained(g *gateway, path, says string) bool {
	for _, line := range g.stderr.lines() {
		r, err := parseRecord(line)
		if err == nil && r.text("level") == "ERROR" && strings.Contains(line, path) && strings.Contains(r.text("error"), says) {
			return true
		}
	}
	return false
}

func TestARaisedQuotaCountsAtOnce(t *testing.T) {
	t.Parallel()
	project := uuid.New()
	path := writeFile(t, "policy.yaml", quotaPolicy(project, 2))
	g := start(t, settings{"GATEWAY_POLICY_FILE": path})
	c := g.client(t, project)
	end := freshMinute()
	for range 2 {
		c.read("key").free()
	}
	for range 3 { // known to be over its quota
		c.read("key").want(http.StatusTooManyRequests, "lock_rate_limited")
	}
	if err := os.WriteFile(path, []byte(quotaPolicy(project, 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	var a answer
	eventually(t, "the new quota", func() bool { a = c.read("key"); return a.status == http.StatusOK })
	if q := a.quota(); q != (quota{100, 97, end}) {
		t.Errorf("in the same minute, after two requests: %v says %+v", a, q)
	}
}
