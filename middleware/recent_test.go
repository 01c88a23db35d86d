package middleware

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
)

func TestTheMemoryIsBoundedByLinesAndByBytes(t *testing.T) {
	line := func(n int) []byte { return fmt.Appendf(make([]byte, 0, 64), "line %d", n) }
	for name, c := range map[string]struct{ lines, bytes, kept int }{
		"lines": {10, 1 << 20, 10},
		"bytes": {100, 5*64 + 63, 5},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecent(c.lines, c.bytes)
			for n := range 37 {
				r.add(line(n))
				if r.bytes > c.bytes || r.bytes != 64*r.count {
					t.Fatalf("%d lines take %d bytes", r.count, r.bytes)
				}
			}
			kept := r.snapshot()
			if len(kept) != c.kept {
				t.Fatalf("%d lines are kept, want %d", len(kept), c.kept)
			}
			for i, got := range kept {
				if want := string(line(37 - c.kept + i)); string(got) != want {
					t.Errorf("line %d is %q, want %q", i, got, want)
				}
			}
		})
	}
}

func TestALineLargerThanTheMemoryLeavesNothingElse(t *testing.T) {
	r := newRecent(10, 100)
	r.add(make([]byte, 50))
	r.add(make([]byte, 200))
	r.add(make([]byte, 50))
	if r.count != 1 || r.bytes != 50 {
		t.Errorf("%d lines of %d bytes", r.count, r.bytes)
	}
}

func TestLinesAreKeptAndFoundAtTheSameTime(t *testing.T) {
	r, id := newRecent(100, 1<<20), uuid.NewString()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				r.add([]byte(`{"request_id":"` + id + `"}`))
				if len(r.about(id)) == 0 {
					t.Error("the line just added is not found")
				}
			}
		})
	}
	all.Wait()
}

// lookup asks for the audit lines of an id.
func (f *fixture) lookup(query string) (status int, contentType, body string) {
	recorder := httptest.NewRecorder()
	f.records.ServeHTTP(recorder, httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, "/audit?"+query, nil))
	return recorder.Code, recorder.Header().Get("Content-Type"), recorder.Body.String()
}

func TestAuditLinesAreFoundByRequestID(t *testing.T) {
	f := newFixture(t, func() (store.Decision, error) {
		return store.Decision{At: time.Now(), Outcome: lockcore.Outcome{Verdict: lockcore.Released}}, nil
	})
	const id = "6BA7B810-9dad-41d1-80b4-00c04fd430c9"
	f.send(http.MethodDelete, "/locks/other", "")
	for _, key := range []string{"first", "second"} {
		f.sendAs(id, http.MethodDelete, "/locks/"+key, "")
	}
	for name, query := range map[string]string{"as sent": id, "in lower case": strings.ToLower(id), "in upper case": strings.ToUpper(id)} {
		t.Run(name, func(t *testing.T) {
			status, contentType, body := f.lookup("request_id=" + query)
			var lines []Record
			if err := json.Unmarshal([]byte(body), &lines); err != nil || status != http.StatusOK || contentType != "application/json" {
				t.Fatalf("status %d, %s, %s: %v", status, contentType, body, err)
			}
			if len(lines) != 2 || lines[0].LockKey != "first" || lines[1].LockKey != "second" || lines[0].RequestID != id {
				t.Errorf("%s", body)
			}
		})
	}
}

func TestAuditQueriesThatFindNothing(t *testing.T) {
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		query  string
		status int
		body   string
	}{
		"an id that nobody used": {"request_id=" + uuid.NewString(), 200, "[\n]\n"},
		"no id":                  {"", 400, CodeInvalidRequest},
		"an empty id":            {"request_id=", 400, CodeInvalidRequest},
		"a part of an id":        {"request_id=6ba7b810", 400, CodeInvalidRequest},
		"an id in braces":        {"request_id={6ba7b810-9dad-41d1-80b4-00c04fd430c9}", 400, CodeInvalidRequest},
		"a quote":                {`request_id=6ba7b810-9dad-41d1-80b4-00c04fd430c"`, 400, CodeInvalidRequest},
		"two ids":                {"request_id=" + uuid.NewString() + "&request_id=" + uuid.NewString(), 400, CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			status, contentType, body := f.lookup(c.query)
			if status != c.status || contentType != "application/json" || !strings.Contains(body, c.body) || !json.Valid([]byte(body)) {
				t.Errorf("status %d, %s, %s", status, contentType, body)
			}
		})
	}
}

func TestAnAuditLineThatCouldNotBeWrittenIsRemembered(t *testing.T) {
	f := newFixture(t, func() (store.Decision, error) {
		return store.Decision{At: time.Now(), Outcome: lockcore.Outcome{Verdict: lockcore.Released}}, nil
	})
	f.records.out = failingWriter{}
	response, _ := f.send(http.MethodDelete, "/locks/a", "")
	if _, _, body := f.lookup("request_id=" + response.Header.Get(HeaderRequestID)); !strings.Contains(body, `"lock_key":"a"`) {
		t.Errorf("%s", body)
	}
	if f.records.Lost() != 1 {
		t.Errorf("%d lines were lost, want 1", f.records.Lost())
	}
}

func BenchmarkRecent(b *testing.B) {
	line := make([]byte, 500)
	r := newRecent(recentLines, recentBytes)
	for range recentLines {
		r.add(line)
	}
	b.Run("add", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.add(line)
		}
	})
	b.Run("find", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.about(lockTokenText)
		}
	})
}
