package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestAuditLinesTellOfTheirOwnRequest sends requests in a row on a few
// connections. The server reads each into the memory of the one before, so a
// line that keeps a piece of that would tell of another request.
func TestAuditLinesTellOfTheirOwnRequest(t *testing.T) {
	t.Parallel()
	const connections, each = 8, 60
	project := uuid.New()
	g := start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", quotaPolicy(project, 1_000_000))})
	credential := g.client(t, project).credential
	var mu sync.Mutex
	want := map[string]record{} // by request id
	var all sync.WaitGroup
	for n := range connections {
		all.Go(func() {
			var text strings.Builder
			for i := range each {
				r, told := oneOfMany(n, i)
				id, owner := uuid.NewString(), uuid.New()
				told["owner"] = fingerprint(owner)
				fmt.Fprintf(&text, "%s HTTP/1.1\r\nHost: gateway\r\n%s: Bearer %s\r\n%s: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
					r.method+" "+r.path, authorization, credential, requestIDHeader, id, lockTokenHeader, owner, len(r.body), r.body)
				mu.Lock()
				want[id] = told
				mu.Unlock()
			}
			if err := sendAndRead(t, g, text.String(), each); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	eventually(t, "all audit lines", func() bool { return len(g.stdout.lines()) >= connections*each })
	for _, line := range g.stdout.lines() {
		r, err := parseRecord(line)
		told, sent := want[r.text("request_id")]
		if err != nil || !sent {
			t.Errorf("a line about no request: %s", line)
			continue
		}
		delete(want, r.text("request_id"))
		for member, value := range told {
			if got := r[member]; got != value && (member != "owner" || got != nil) {
				t.Errorf("%s is %v, want %v: %s", member, got, value, line)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("%d requests left no line", len(want))
	}
}

// oneOfMany is a request like no other, and what its audit line says.
func oneOfMany(connection, i int) (request, record) {
	key := fmt.Sprintf("k%d-%d-%s", connection, i, strings.Repeat("x", (connection*31+i*17)%90))
	ttl := 60 + i
	switch i % 4 {
	case 0:
		return request{"POST", "/locks/" + key + "/lease", ttlBody(ttl), nil},
			record{"lock_key": key, "operation": "acquire", "ttl_seconds": float64(ttl), "status": 201.0}
	case 1:
		return request{"GET", "/locks/" + key + "%20", "", nil}, record{"lock_key": key + "%20", "operation": "read", "status": 400.0}
	case 2:
		return request{"BREW", "/locks/" + key, ttlBody(ttl), nil}, record{"lock_key": key, "operation": "none", "status": 405.0}
	default:
		return request{"DELETE", "/locks/%6B" + key[1:], "", nil}, record{"lock_key": key, "operation": "force_release", "status": 204.0}
	}
}

// sendAndRead sends everything at once and reads so many answers.
func sendAndRead(t *testing.T, g *gateway, text string, answers int) error {
	conn, err := dial(t, g)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it is over
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	go func() { _, _ = io.WriteString(conn, text) }() // what fails shows in the answers
	in := bufio.NewReader(conn)
	for i := range answers {
		r, body, err := readAnswer(in, false)
		if err != nil || r.StatusCode >= http.StatusInternalServerError {
			return fmt.Errorf("answer %d: %v %s, %w", i+1, r, body, err)
		}
	}
	return nil
}
