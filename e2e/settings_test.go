package e2e

import (
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

// wantRefusal fails the test unless a command has ended with a complaint in
// plain words, all of these among them.
func wantRefusal(t *testing.T, r result, words ...string) {
	t.Helper()
	if strings.Contains(r.stderr, "goroutine ") {
		t.Errorf("it ended in a panic:\n%s", r.stderr)
		return
	}
	if r.code != 1 {
		t.Errorf("exit code %d, want 1: %s", r.code, r.all())
	}
	for _, word := range words {
		if !strings.Contains(r.stderr, word) {
			t.Errorf("no complaint has %q: %s", word, r.stderr)
		}
	}
}

func TestEveryWrongSettingIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	const secret, password = "too-short-but-secret", "correct-horse-battery"
	policy := writeFile(t, "policy.yaml", "default:\n  locks_per_minute: many\nprojects:\n  billing: {}\n")
	wrong := settings{
		"GATEWAY_ADDR":             "nowhere",
		"GATEWAY_STORE":            "mysql://root:" + password + "@db/locks",
		"GATEWAY_REDIS_MODE":       "double",
		"GATEWAY_STORE_TIMEOUT":    "soon",
		"GATEWAY_JWT_SECRET":       secret,
		"GATEWAY_JWKS_FILE":        "missing.json",
		"GATEWAY_POLICY_FILE":      policy,
		"GATEWAY_LOG_LEVEL":        "loud",
		"GATEWAY_LOG_FORMAT":       "xml",
		"GATEWAY_SHUTDOWN_TIMEOUT": "-1s",
		"GATEWAY_PORT":             "8080",
	}
	names := []string{policy + ":2", "locks_per_minute", policy + ":4", "billing"}
	for name := range wrong {
		names = append(names, name)
	}
	for _, args := range []string{"serve", "check", "dev"} {
		t.Run(args, func(t *testing.T) {
			r := call(t, wrong, "", args)
			wantRefusal(t, r, names...)
			for _, hidden := range []string{secret, password} {
				if strings.Contains(r.all(), hidden) {
					t.Errorf("the output shows %q: %s", hidden, r.all())
				}
			}
		})
	}
}

func TestWrongStarts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, c := range map[string]struct {
		wrong settings
		words []string
	}{
		"no key at all":        {settings{"GATEWAY_JWT_SECRET": ""}, []string{"GATEWAY_JWT_SECRET"}},
		"address taken":        {settings{"GATEWAY_ADDR": taken.Addr().String()}, []string{"GATEWAY_ADDR", taken.Addr().String()}},
		"admin address taken":  {settings{"GATEWAY_ADMIN_ADDR": taken.Addr().String()}, []string{"GATEWAY_ADMIN_ADDR", taken.Addr().String()}},
		"store not a file":     {settings{"GATEWAY_STORE": "bolt://" + writeFile(t, "file", "this is no database") + "/locks.db"}, []string{"locks.db"}},
		"store not a database": {settings{"GATEWAY_STORE": "bolt://" + writeFile(t, "locks.db", strings.Repeat("this is no database", 1000))}, []string{"locks.db"}},
		"unknown Redis option": {settings{"GATEWAY_STORE": "redis://127.0.0.1:1/0?colour=red"}, []string{"GATEWAY_STORE"}},
		"audit log not a file": {settings{"GATEWAY_AUDIT_LOG": filepath.Join(t.TempDir(), "missing", "audit.log")}, []string{"GATEWAY_AUDIT_LOG"}},
		"key set without keys": {settings{"GATEWAY_JWKS_FILE": writeFile(t, "jwks.json", `{"keys":[]}`)}, []string{"GATEWAY_JWKS_FILE"}},
		"key set with nonsense": {settings{"GATEWAY_JWKS_FILE": writeFile(t, "jwks.json", `{"keys":[{"kty":"EC","crv":"P-256"}]}`)},
			[]string{"GATEWAY_JWKS_FILE", "jwks.json", "keys[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings{
				"GATEWAY_ADDR": "127.0.0.1:0", "GATEWAY_ADMIN_ADDR": "127.0.0.1:0", "GATEWAY_JWT_SECRET": newSecret(),
				"GATEWAY_STORE": "bolt://" + filepath.Join(t.TempDir(), "locks.db"),
			}
			maps.Copy(s, c.wrong)
			wantRefusal(t, call(t, s, "", "serve"), c.words...)
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := settings{"GATEWAY_JWT_SECRET": newSecret(), "GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(uuid.New(), 20))}
	for name, newStore := range stores {
		t.Run("usable with "+name, func(t *testing.T) {
			t.Parallel()
			s := maps.Clone(good)
			s["GATEWAY_STORE"] = newStore(t)
			if r := call(t, s, "", "check"); r.code != 0 || !strings.Contains(r.stdout, s["GATEWAY_STORE"]) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 0 and the store", r.code, r.stdout, r.stderr)
			}
		})
	}
	for name, c := range map[string]struct{ appendOnly, warns string }{"keeps leases": {"yes", ""}, "forgets leases": {"no", "set appendonly to yes"}} {
		t.Run("Redis "+name+" when it restarts", func(t *testing.T) {
			t.Parallel()
			s := maps.Clone(good)
			s["GATEWAY_STORE"] = redistest.Start(t, "--appendonly", c.appendOnly).URL()
			r := call(t, s, "", "check")
			if r.code != 0 || !strings.Contains(r.stderr, c.warns) || strings.Count(r.stderr, "\n") != min(1, len(c.warns)) {
				t.Errorf("exit code %d, stderr %q; want %q", r.code, r.stderr, c.warns)
			}
		})
	}
	t.Run("Redis is not there", func(t *testing.T) {
		s := maps.Clone(good)
		s["GATEWAY_STORE"] = "redis://:correct-horse-battery@127.0.0.1:1"
		r := call(t, s, "", "check")
		wantRefusal(t, r, "GATEWAY_STORE", "127.0.0.1:1")
		if strings.Contains(r.all(), "correct-horse-battery") {
			t.Errorf("the output shows the password: %s", r.all())
		}
	})
	t.Run("audit log cannot be opened, nor can the store", func(t *testing.T) {
		s := maps.Clone(good)
		s["GATEWAY_AUDIT_LOG"] = filepath.Join(t.TempDir(), "missing", "audit.log")
		s["GATEWAY_STORE"] = "redis://127.0.0.1:1"
		wantRefusal(t, call(t, s, "", "check"), "GATEWAY_AUDIT_LOG", s["GATEWAY_AUDIT_LOG"], "GATEWAY_STORE")
	})
	t.Run("policy file is wrong", func(t *testing.T) {
		s := maps.Clone(good)
		s["GATEWAY_POLICY_FILE"] = writeFile(t, "policy.yaml", "default:\n  locks_per_minute: 0\n")
		wantRefusal(t, call(t, s, "", "check"), s["GATEWAY_POLICY_FILE"]+":2", "locks_per_minute")
	})
}

func TestVersion(t *testing.T) {
	t.Parallel()
	r := call(t, nil, "", "version")
	if r.code != 0 || r.stderr != "" || !regexp.MustCompile(`^gateway \S+, commit .+, go1\.\d+\S*\n$`).MatchString(r.stdout) {
		t.Errorf("exit code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"nothing":          {nil, 2},
		"unknown command":  {[]string{"sevre"}, 2},
		"half a command":   {[]string{"key"}, 2},
		"unknown flag":     {[]string{"serve", "--port", "80"}, 2},
		"an argument":      {[]string{"serve", "now"}, 2},
		"help":             {[]string{"help"}, 0},
		"help for command": {[]string{"serve", "-h"}, 0},
		"help for a group": {[]string{"key", "-h"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := call(t, nil, "", c.args...)
			if r.code != c.code || !strings.Contains(r.all(), "gateway") {
				t.Errorf("exit code %d, want %d, and help: %s", r.code, c.code, r.all())
			}
		})
	}
}
