package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestOneRequestIDIsLookedUpWithAllItsAttempts(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	c, id := g.client(t, uuid.New()), uuid.NewString()
	for _, r := range []request{acquire("key", uuid.New(), 60), acquire("key", uuid.New(), 60), read("key")} {
		c.do(r.with(requestIDHeader, id))
		c.do(r)
	}
	status, body := g.ask("/audit?request_id=" + strings.ToUpper(id))
	var lines []record
	if err := json.Unmarshal([]byte(body), &lines); err != nil || status != http.StatusOK || len(lines) != 3 {
		t.Fatalf("%d %s, want the three attempts: %v", status, body, err)
	}
	logged := audited(t, g.stdout.String, id, 3)
	for i, line := range lines {
		if line.text("time") != logged[i].text("time") || line["status"] != []any{201.0, 409.0, 200.0}[i] {
			t.Errorf("attempt %d is %v, want %v", i, line, logged[i])
		}
	}
}

func TestTheAuditQueryTakesOneRequestID(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	for query, want := range map[string]int{
		"?request_id=" + uuid.NewString(): http.StatusOK,
		"?request_id=nobody":              http.StatusBadRequest,
		"":                                http.StatusBadRequest,
	} {
		if status, body := g.ask("/audit" + query); status != want {
			t.Errorf("/audit%s: %d %s, want %d", query, status, body, want)
		}
	}
}
