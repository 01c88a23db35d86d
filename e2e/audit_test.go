package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// audited waits for the audit lines of a request: a pipe may be read later than
// the answer, which it was written before.
func audited(t *testing.T, log func() string, requestID string, want int) (found []record) {
	t.Helper()
	eventually(t, "the audit line of "+requestID, func() bool {
		found = auditLines(t, log(), requestID)
		return len(found) >= want
	})
	if len(found) != want {
		t.Errorf("%d audit lines of %s, want %d: %v", len(found), requestID, want, found)
	}
	return found
}

func auditLines(t *testing.T, log, requestID string) (found []record) {
	t.Helper()
	for _, line := range completeLines(log) {
		if !strings.Contains(line, requestID) {
			continue
		}
		judgeAuditLine(t, line)
		r, err := parseRecord(line)
		if err != nil || r.text("request_id") != requestID {
			t.Fatalf("a line about %s: %v, %s", requestID, err, line)
		}
		found = append(found, r)
	}
	return found
}

// fingerprint is how the audit log names an owner.
func fingerprint(token uuid.UUID) string {
	sum := sha256.Sum256([]byte(token.String()))
	return hex.EncodeToString(sum[:])[:16]
}

// fits checks the members that every line has.
func (r record) fits(t *testing.T, a answer) {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, r.text("time"))
	if err != nil || at.Before(a.sent) || at.After(a.received) {
		t.Errorf("the audit line says %q, the request was sent at %v and answered at %v", r.text("time"), a.sent, a.received)
	}
	took, ok := r["duration_ms"].(float64)
	if most := a.received.Sub(a.sent).Seconds() * 1000; !ok || took < 0 || took > most {
		t.Errorf("the audit line says it took %v ms, the client waited %v ms", r["duration_ms"], most)
	}
	if r.text("client") != "127.0.0.1" || r.text("gateway") == "" || r["status"] != float64(a.status) {
		t.Errorf("%v: client %q, gateway %q, status %v", a, r["client"], r["gateway"], r["status"])
	}
	if p := a.problem(); r.text("code") != p.Code {
		t.Errorf("%v: code %q", a, r["code"])
	}
}

func TestEveryRequestLeavesOneAuditLine(t *testing.T) {
	t.Parallel()
	project, owner, other := uuid.New(), uuid.New(), uuid.New()
	g := start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, 13)+"    revoked_keys: [key_9]\n")})
	c := g.clientWith(t, g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: project, KeyID: "key_7"}))
	anon := g.clientWith(t, g.mint(t, auth.Grant{Kind: auth.Anon, Project: project, KeyID: "key_8"}))
	revoked := g.clientWith(t, g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: project, KeyID: "key_9"}))
	platform := g.clientWith(t, strings.Repeat("ab", 32))
	freshMinute()
	// Of all rows: who it was, and that the quota counted.
	who := record{"project_id": project.String(), "key_id": "key_7", "credential_kind": "service_role"}
	used, requests := 0, 0
	for _, row := range []struct {
		name   string
		client *client
		send   request
		status int
		counts bool
		leased bool   // the line tells of a lease
		want   record // further members
	}{
		{"acquire", c, acquire("key", owner, 60), 201, true, true,
			record{"operation": "acquire", "lock_key": "key", "owner": fingerprint(owner), "ttl_seconds": 60.0}},
		{"acquire by another", c, acquire("key", other, 61), 409, true, true,
			record{"operation": "acquire", "lock_key": "key", "owner": fingerprint(other), "ttl_seconds": 61.0}},
		{"renew in upper case", c, renew("%6Bey", owner, 62).with(lockTokenHeader, strings.ToUpper(owner.String())), 200, true, true,
			record{"operation": "renew", "lock_key": "key", "owner": fingerprint(owner), "ttl_seconds": 62.0}},
		{"renew by another", c, renew("key", other, 63), 409, true, false,
			record{"operation": "renew", "lock_key": "key", "owner": fingerprint(other), "ttl_seconds": 63.0}},
		{"read", c, read("key"), 200, true, true, record{"operation": "read", "lock_key": "key"}},
		{"release", c, release("key", owner), 204, true, false,
			record{"operation": "release", "lock_key": "key", "owner": fingerprint(owner)}},
		{"force release", c, forceRelease("key"), 204, true, false, record{"operation": "force_release", "lock_key": "key"}},
		{"bad key", c, acquire("a%0D%0A%22b", owner, 60), 400, true, false, record{"operation": "acquire", "lock_key": "a%0D%0A%22b"}},
		{"long key", c, read(strings.Repeat("k", 500)), 400, true, false,
			record{"operation": "read", "lock_key": strings.Repeat("k", 128)}},
		{"bad lock token", c, acquire("key", uuid.Nil, 60), 400, true, false, record{"operation": "acquire", "lock_key": "key"}},
		{"bad body", c, acquire("key", owner, 4), 400, true, false,
			record{"operation": "acquire", "lock_key": "key", "owner": fingerprint(owner)}},
		{"bad method", c, request{method: "PUT", path: "/locks/key"}, 405, true, false, record{"operation": "none", "lock_key": "key"}},
		{"anon key", anon, acquire("key", owner, 60), 403, false, false,
			record{"operation": "acquire", "lock_key": "key", "credential_kind": "anon", "key_id": "key_8"}},
		{"platform token", platform, read("key"), 403, false, false,
			record{"operation": "read", "lock_key": "key", "credential_kind": "platform", "key_id": nil, "project_id": nil}},
		{"revoked key", revoked, read("key"), 401, false, false,
			record{"operation": "read", "lock_key": "key", "key_id": "key_9"}},
		{"no credential", c, read("key").with(authorization), 401, false, false,
			record{"operation": "read", "lock_key": "key", "credential_kind": nil, "key_id": nil, "project_id": nil}},
		{"last of the quota", c, read("key"), 200, true, false, record{"operation": "read", "lock_key": "key"}},
		{"past the quota", c, acquire("key", owner, 60), 429, false, false,
			record{"operation": "acquire", "lock_key": "key", "owner": fingerprint(owner), "ttl_seconds": 60.0,
				"quota_used": 13.0, "quota_limit": 13.0}},
	} {
		id := uuid.NewString()
		a := row.client.do(row.send.with(requestIDHeader, id))
		if err := a.check(row.status, a.problem().Code); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		line := audited(t, g.stdout.String, id, 1)[0]
		line.fits(t, a)
		if row.counts {
			used++
			row.want["quota_used"], row.want["quota_limit"] = float64(used), 13.0
		}
		if _, told := line["fencing_token"].(float64); told != row.leased || (line.text("expires_at") != "") != row.leased {
			t.Errorf("%s: the line tells of a lease: %v, want %v", row.name, told, row.leased)
		}
		wantMembers(t, row.name, line, who, row.want)
		requests++
	}
	g.finish()
	if lines := g.stdout.lines(); len(lines) != requests {
		t.Errorf("%d audit lines of %d requests", len(lines), requests)
	}
}

// wantMembers compares a line with what is expected; the later map wins. A nil
// value, or none, means that the member must be missing.
func wantMembers(t *testing.T, name string, line record, expected ...record) {
	t.Helper()
	merged := record{}
	for _, e := range expected {
		maps.Copy(merged, e)
	}
	elsewhere := []string{"request_id", "time", "duration_ms", "client", "gateway", "status", "code", "fencing_token", "expires_at"}
	for member, value := range merged {
		if !reflect.DeepEqual(line[member], value) {
			t.Errorf("%s: %s is %v, want %v", name, member, line[member], value)
		}
	}
	for member := range line {
		if _, known := merged[member]; !known && !slices.Contains(elsewhere, member) {
			t.Errorf("%s: unexpected member %s: %v", name, member, line[member])
		}
	}
}

func TestTheAuditLineTellsOfTheLeaseAsTheAnswerDoes(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, g *gateway) {
		c, owner := g.client(t, uuid.New()), uuid.New()
		for _, r := range []request{acquire("key", owner, 60), renew("key", owner, 70), read("key")} {
			id := uuid.NewString()
			a := c.do(r.with(requestIDHeader, id))
			line := audited(t, g.stdout.String, id, 1)[0]
			body, err := parseRecord(a.body)
			if err != nil || line["fencing_token"] != body["fencing_token"] || line["expires_at"] != body["expires_at"] {
				t.Errorf("%v, but the audit line is %v", a, line)
			}
		}
	})
}

func TestARetryIsAnotherLineWithTheSameID(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	c, id := g.client(t, uuid.New()), uuid.NewString()
	r := acquire("key", uuid.New(), 60).with(requestIDHeader, id)
	for n := 1; n <= 3; n++ {
		c.do(r).granted(http.StatusCreated)
		audited(t, g.stdout.String, id, n)
	}
}

func TestAnUnusableRequestIDIsAuditedUnderTheNewOne(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	c := g.client(t, uuid.New())
	a := c.do(read("key").with(requestIDHeader, "x\"} {\"request_id\":\"forged")).want(400, "invalid_request")
	line := audited(t, g.stdout.String, a.header.Get(requestIDHeader), 1)[0]
	if line["status"] != 400.0 || strings.Contains(g.stdout.String(), "forged") {
		t.Errorf("the audit log is %s", g.stdout)
	}
}

func TestOutsideOfLockEndpointsNothingIsAudited(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	g.client(t, uuid.New()).do(request{method: "GET", path: "/somewhere"}).want(404, "not_found")
	g.finish()
	if out := g.stdout.String(); out != "" {
		t.Errorf("the audit log is %s", out)
	}
}

func TestTheAuditLogGoesWhereItIsSent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	for name, c := range map[string]struct {
		target string
		log    func(g *gateway) string
	}{
		"stdout": {"stdout", func(g *gateway) string { return g.stdout.String() }},
		"stderr": {"stderr", func(g *gateway) string { return g.stderr.String() }},
		"a file": {path, func(*gateway) string { return contents(t, path) }},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, settings{"GATEWAY_AUDIT_LOG": c.target})
			id := g.client(t, uuid.New()).read("key").want(http.StatusOK, "").header.Get(requestIDHeader)
			audited(t, func() string { return c.log(g) }, id, 1)
			g.finish()
			if name != "stdout" && g.stdout.String() != "" {
				t.Errorf("stdout has %s", g.stdout)
			}
		})
	}
}

func TestARestartGoesOnWithTheAuditFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	g := start(t, settings{"GATEWAY_AUDIT_LOG": path})
	c := g.client(t, uuid.New())
	before := c.read("key").header.Get(requestIDHeader)
	g.finish()
	g.run()
	after := c.read("key").header.Get(requestIDHeader)
	for _, id := range []string{before, after} {
		if lines := auditLines(t, contents(t, path), id); len(lines) != 1 { // it was written before the answer
			t.Errorf("%d audit lines of %s, want 1", len(lines), id)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the audit log: %v, %v", info.Mode(), err)
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAnAmbiguousRequestToALockIsAudited(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	known := "Host: gateway\r\nAuthorization: Bearer " + g.client(t, uuid.New()).credential + "\r\n"
	for name, c := range map[string]struct {
		text      string
		status    int
		operation string
	}{
		"two lengths":      {"POST /locks/key/lease HTTP/1.1\r\n" + known + lengthOf("{}") + chunkedHeader + "\r\n{}", 400, "acquire"},
		"a fragment":       {"DELETE /locks/key#x HTTP/1.1\r\n" + known + "\r\n", 400, "force_release"},
		"a folded header":  {"GET /locks/key HTTP/1.1\r\n" + known + " more\r\n\r\n", 400, "read"},
		"too many headers": {"PATCH /locks/key/lease HTTP/1.1\r\n" + known + strings.Repeat("a:\r\n", 256) + "\r\n", 431, "renew"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := connectTo(t, g)
			if _, err := io.WriteString(conn, c.text); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close() //nolint:errcheck // not read
			line := audited(t, g.stdout.String, answer.Header.Get(requestIDHeader), 1)[0]
			if answer.StatusCode != c.status || !answer.Close || line["status"] != float64(c.status) || line["operation"] != c.operation {
				t.Errorf("status %d, audited as %v", answer.StatusCode, line)
			}
		})
	}
}
