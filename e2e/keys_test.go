package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// createKey runs `gateway key create` and returns the credential that it printed.
func createKey(t *testing.T, s settings, args ...string) string {
	t.Helper()
	r := call(t, s, "", append([]string{"key", "create"}, args...)...)
	credential, rest, _ := strings.Cut(r.stdout, "\n")
	if r.code != 0 || credential == "" || rest != "" || r.stderr != "" {
		t.Fatalf("key create %q: exit code %d, stdout %q, stderr %q", args, r.code, r.stdout, r.stderr)
	}
	return credential
}

// inspectKey runs `gateway key inspect` and reads the one JSON object that it printed.
func inspectKey(t *testing.T, s settings, credential string, args ...string) map[string]any {
	t.Helper()
	r := call(t, s, credential+"\n", append([]string{"key", "inspect"}, args...)...)
	var got map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != 0 {
		t.Fatalf("key inspect: exit code %d, %v, stdout %q, stderr %q", r.code, err, r.stdout, r.stderr)
	}
	return got
}

func TestCreatedKeysAreWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	project := uuid.New()
	s := settings{
		"GATEWAY_JWT_SECRET": newSecret(), "GATEWAY_JWT_ISSUER": "https://issuer.example", "GATEWAY_JWT_AUDIENCE": "locks",
		"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", fmt.Sprintf("projects:\n  %s:\n    revoked_keys: [key_old]\n", project)),
	}
	g := start(t, s)
	of := []string{"--project", project.String()}
	for _, c := range []struct {
		credentialCase
		args    []string
		inspect map[string]any // members that must be so; nil: must be missing
	}{
		{credentialCase{name: "nothing more", status: 200}, of,
			map[string]any{"valid": true, "kind": "service_role", "project_id": project.String(), "permissions": []any{"*"}, "can_manage_locks": true, "expires_at": nil}},
		{credentialCase{name: "with an id", status: 200}, append(of, "--id", "key_7"), map[string]any{"valid": true, "key_id": "key_7"}},
		{credentialCase{name: "with a revoked id", status: 401, says: []string{"revoked"}}, append(of, "--id", "key_old"),
			map[string]any{"valid": false, "key_id": "key_old", "reason": "this key was revoked", "can_manage_locks": false}},
		{credentialCase{name: "for locks", status: 200}, append(of, "--role", "service_role", "--permissions", "locks.manage"),
			map[string]any{"permissions": []any{"locks.manage"}, "can_manage_locks": true}},
		{credentialCase{name: "for locks and files", status: 200}, append(of, "--permissions", "files.read,locks.manage"),
			map[string]any{"permissions": []any{"files.read", "locks.manage"}, "can_manage_locks": true}},
		{credentialCase{name: "for files", status: 403, says: []string{"locks.manage"}}, append(of, "--permissions", "files.read"),
			map[string]any{"valid": true, "permissions": []any{"files.read"}, "can_manage_locks": false}},
		{credentialCase{name: "for nothing", status: 403, says: []string{"locks.manage"}}, append(of, "--permissions", ""),
			map[string]any{"valid": true, "can_manage_locks": false}},
		{credentialCase{name: "anon", status: 403, says: []string{"anon key"}}, append(of, "--role", "anon", "--permissions", "*"),
			map[string]any{"valid": true, "kind": "anon", "can_manage_locks": false}},
		{credentialCase{name: "user", status: 403, says: []string{"auth-user"}}, append(of, "--role", "authenticated"),
			map[string]any{"valid": true, "kind": "authenticated", "can_manage_locks": false}},
		{credentialCase{name: "platform", status: 403, says: []string{"platform token"}}, []string{"--role", "platform"},
			map[string]any{"valid": true, "kind": "platform", "project_id": nil, "can_manage_locks": false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.credential = createKey(t, s, c.args...)
			c.check(t, g)
			got := inspectKey(t, s, c.credential)
			for name, want := range c.inspect {
				if !reflect.DeepEqual(got[name], want) {
					t.Errorf("inspect says %s is %v, want %v", name, got[name], want)
				}
			}
		})
	}
}

func TestAnExpiringKeyWorksUntilItExpires(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	project := uuid.New()
	before := time.Now()
	key := createKey(t, g.settings, "--project", project.String(), "--expires", "10s")
	got := inspectKey(t, g.settings, key)
	expires, err := time.Parse(time.RFC3339, fmt.Sprint(got["expires_at"]))
	if err != nil || expires.Before(before.Add(9*time.Second)) || expires.After(time.Now().Add(10*time.Second)) {
		t.Fatalf("created at %v for 10s, inspect says %v", before, got)
	}
	c := g.clientWith(t, key)
	c.read("key").free()
	time.Sleep(time.Until(expires))
	wantUnauthorized(c.read("key"), "expired")
	if got := inspectKey(t, g.settings, key); got["valid"] != false || !strings.Contains(fmt.Sprint(got["reason"]), "expired") {
		t.Errorf("after the expiry inspect says %v", got)
	}
	day := inspectKey(t, g.settings, createKey(t, g.settings, "--project", project.String(), "--expires", "24h"))
	if day["valid"] != true {
		t.Errorf("of a key for a day inspect says %v", day)
	}
}

func TestInspectSaysWhyACredentialIsNotValid(t *testing.T) {
	t.Parallel()
	s := settings{"GATEWAY_JWT_SECRET": newSecret()}
	good := createKey(t, s, "--project", uuid.NewString())
	for name, c := range map[string]struct{ credential, reason string }{
		"signed by a stranger": {createKey(t, settings{"GATEWAY_JWT_SECRET": newSecret()}, "--project", uuid.NewString()), "signature"},
		"wrong prefix":         {"ak-" + bare(good), "prefix"},
		"text":                 {"let-me-in", "neither"},
		"nothing":              {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := inspectKey(t, s, c.credential)
			reason, _ := got["reason"].(string)
			if got["valid"] != false || reason == "" || !strings.Contains(reason, c.reason) || got["can_manage_locks"] != false {
				t.Errorf("inspect says %v, want a reason with %q", got, c.reason)
			}
		})
	}
}

func TestKeyCreateRefusesNonsense(t *testing.T) {
	t.Parallel()
	s := settings{"GATEWAY_JWT_SECRET": newSecret()}
	of := []string{"--project", uuid.NewString()}
	for name, c := range map[string]struct {
		settings settings
		args     []string
		says     string
	}{
		"no project":         {s, nil, "--project"},
		"no UUID":            {s, []string{"--project", "billing"}, "--project"},
		"unknown role":       {s, append(of, "--role", "root"), "role"},
		"negative lifetime":  {s, append(of, "--expires", "-1h"), "--expires"},
		"lifetime in words":  {s, append(of, "--expires", "tomorrow"), "expires"},
		"unknown flag":       {s, append(of, "--admin"), "admin"},
		"something too many": {s, append(of, "anon"), "anon"},
		"no secret":          {settings{}, of, "GATEWAY_JWT_SECRET"},
		"short secret":       {settings{"GATEWAY_JWT_SECRET": "short-but-secret"}, of, "GATEWAY_JWT_SECRET"},
	} {
		t.Run(name, func(t *testing.T) {
			r := call(t, c.settings, "", append([]string{"key", "create"}, c.args...)...)
			if r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, c.says) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want a refusal that says %q", r.code, r.stdout, r.stderr, c.says)
			}
			if secret := c.settings["GATEWAY_JWT_SECRET"]; secret != "" && strings.Contains(r.all(), secret) {
				t.Error("the secret was shown")
			}
		})
	}
}

func TestACreatedKeyManagesLocks(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	c := g.clientWith(t, createKey(t, g.settings, "--project", uuid.NewString()))
	owner := uuid.New()
	c.acquire("key", owner, 60).granted(http.StatusCreated)
	c.release("key", owner).want(http.StatusNoContent, "")
}
