package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/api/apitest"
	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
	"github.com/project-locks/gateway/telemetry"
)

// stub is a store that answers what a test tells it to, and remembers what it was asked.
type stub struct {
	answer func() (store.Decision, error)
	asked  []lockcore.Command
}

func (s *stub) Decide(_ context.Context, charge ratelimit.Charge, command lockcore.Command) (store.Decision, error) {
	s.asked = append(s.asked, command)
	d, err := s.answer()
	if err == nil && d.Quota == (ratelimit.Result{}) {
		d.Quota = ratelimit.NewResult(true, charge.Limit, 1, d.At)
	}
	return d, err
}
func (s *stub) Ping(context.Context) error { return nil }
func (s *stub) Close() error               { return nil }

// fixture is the lock endpoints over a stub, and what they wrote.
type fixture struct {
	t     *testing.T
	app   *fiber.App
	store *stub
	key   string
	audit *bytes.Buffer
	log   *bytes.Buffer

	records  *Audit
	refusals *telemetry.Refusals
}

func newFixture(t *testing.T, answer func() (store.Decision, error)) *fixture {
	t.Helper()
	secret := bytes.Repeat([]byte("s"), 32)
	verifier, err := auth.NewVerifier(auth.Config{Secrets: [][]byte{secret}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := auth.NewCache(verifier, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := auth.Mint(secret, auth.Grant{Kind: auth.ServiceRole, Project: uuid.New(), IssuedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, store: &stub{answer: answer}, key: key, audit: &bytes.Buffer{}, log: &bytes.Buffer{}}
	previous := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(f.log, nil)))
	t.Cleanup(func() { slog.SetDefault(previous) })
	f.records, f.refusals = NewAudit(f.audit, "test"), telemetry.NewRefusals(time.Now)
	locks := &Locks{
		Store: f.store, Timeout: time.Second, Credentials: cache,
		Policy: func() *configs.Policy { return nil }, Audit: f.records,
		Refusals: f.refusals,
	}
	f.app = fiber.New(fiber.Config{ErrorHandler: WriteError, StreamRequestBody: true})
	f.app.Post("/locks/:key/lease", locks.Handle(lockcore.Acquire))
	f.app.Delete("/locks/:key", locks.Handle(lockcore.ForceRelease))
	f.app.All("/locks/:key", locks.Refuse("DELETE"))
	return f
}

// send makes a request with the service key and decodes the JSON answer.
func (f *fixture) send(method, path, body string) (*http.Response, map[string]any) {
	f.t.Helper()
	return f.sendAs(uuid.NewString(), method, path, body)
}

func (f *fixture) sendAs(requestID, method, path, body string) (*http.Response, map[string]any) {
	f.t.Helper()
	request := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+f.key)
	request.Header.Set(HeaderLockToken, lockTokenText)
	request.Header.Set(HeaderRequestID, requestID)
	response, err := f.app.Test(request, -1)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	members := map[string]any{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &members); err != nil {
			f.t.Fatalf("%s is not JSON: %v", text, err)
		}
	}
	return response, members
}

func (f *fixture) acquire() (*http.Response, map[string]any) {
	return f.send(http.MethodPost, "/locks/a/lease", `{"ttl_seconds": 5}`)
}

// wantDocumented holds an answer to acquire against the description of the API.
func (f *fixture) wantDocumented(response *http.Response, body map[string]any) {
	f.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	err = apitest.Open(f.t).Check(apitest.Answer{
		Operation: "acquire", Status: response.StatusCode, Header: response.Header, Body: string(text),
	})
	if err != nil {
		f.t.Error(err)
	}
}

const lockTokenText = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"

func TestFailuresOfTheStoreAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func() (store.Decision, error)
		status  int
		code    string
		outcome any
	}{
		"not applied": {
			answer: func() (store.Decision, error) { return store.Decision{}, fmt.Errorf("%w: dial", store.ErrNotApplied) },
			status: 503, code: CodeUnavailable, outcome: "not_applied",
		},
		"unknown": {
			answer: func() (store.Decision, error) { return store.Decision{}, fmt.Errorf("%w: read", store.ErrUnknown) },
			status: 503, code: CodeUnavailable, outcome: "unknown",
		},
		"an error that says nothing is unknown too": {
			answer: func() (store.Decision, error) { return store.Decision{}, errors.New("surprise") },
			status: 503, code: CodeUnavailable, outcome: "unknown",
		},
		"a lease that ended before its answer": {
			answer: func() (store.Decision, error) {
				now := time.Now()
				time.Sleep(2 * time.Millisecond)
				return store.Decision{At: now, Outcome: lockcore.Outcome{
					Verdict: lockcore.Granted, Fence: 7, ExpiresAt: now.Add(time.Millisecond),
				}}, nil
			},
			status: 503, code: CodeUnavailable, outcome: "unknown",
		},
		"a verdict that answers nothing": {
			answer: func() (store.Decision, error) { return store.Decision{At: time.Now()}, nil },
			status: 500, code: CodeInternal, outcome: nil,
		},
		"a panic": {
			answer: func() (store.Decision, error) { panic("hidden detail") },
			status: 500, code: CodeInternal, outcome: nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.answer)
			response, body := f.acquire()
			if response.StatusCode != c.status || body["code"] != c.code || body["outcome"] != c.outcome {
				t.Errorf("status %d, body %v", response.StatusCode, body)
			}
			f.wantDocumented(response, body)
			if text, _ := body["error"].(string); text == "" || strings.Contains(text, "hidden") {
				t.Errorf("error text %q", text)
			}
			var line map[string]any
			if err := json.Unmarshal(f.audit.Bytes(), &line); err != nil || line["code"] != c.code {
				t.Errorf("audit %s", f.audit)
			}
			id := response.Header.Get(HeaderRequestID)
			if line["request_id"] != id || !strings.Contains(f.log.String(), id) {
				t.Errorf("request id %q, audit %v, log %s", id, line["request_id"], f.log)
			}
		})
	}
}

func TestAnInvalidRequestAsksTheStoreForNothing(t *testing.T) {
	f := newFixture(t, func() (store.Decision, error) { return store.Decision{At: time.Now()}, nil })
	for _, r := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/locks/a/lease", `{"ttl_seconds": 4}`, 400},
		{http.MethodPost, "/locks/%00/lease", `{"ttl_seconds": 5}`, 400},
		{http.MethodPost, "/locks/a/lease", strings.Repeat(" ", MaxBody+1), 413},
		{http.MethodPut, "/locks/a", "", 405},
	} {
		if response, body := f.send(r.method, r.path, r.body); response.StatusCode != r.status {
			t.Errorf("%s %s: status %d, %v", r.method, r.path, response.StatusCode, body)
		}
	}
	if len(f.store.asked) != 4 {
		t.Fatalf("%d of 4 requests were counted", len(f.store.asked))
	}
	for _, command := range f.store.asked {
		if command != (lockcore.Command{}) {
			t.Errorf("the store was asked for %+v", command)
		}
	}
}

func TestALostAuditLineIsLogged(t *testing.T) {
	f := newFixture(t, func() (store.Decision, error) {
		return store.Decision{At: time.Now(), Outcome: lockcore.Outcome{Verdict: lockcore.Released}}, nil
	})
	audit := NewAudit(failingWriter{}, "test")
	locks := &Locks{Store: f.store, Timeout: time.Second, Audit: audit}
	app := fiber.New()
	app.Get("/", locks.audited(func(*fiber.Ctx, *Record) error { return nil }))
	response, err := app.Test(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // empty
	if !strings.Contains(f.log.String(), "an audit line was lost") || !strings.Contains(f.log.String(), response.Header.Get(HeaderRequestID)) {
		t.Errorf("log %s", f.log)
	}
}

func TestATornAuditLineSpoilsNoOther(t *testing.T) {
	out := &fillingDisk{room: 12}
	audit := NewAudit(out, "test")
	for _, line := range []string{"{\"line\":1}\n", "{\"line\":2}\n", "{\"line\":3}\n"} {
		if err := audit.put([]byte(line)); (err != nil) != (out.room == 0) {
			t.Errorf("%q: %v", line, err)
		}
		if out.room == 0 {
			out.room = 100 // somebody makes room
		}
	}
	if got, want := out.String(), "{\"line\":1}\n{\n{\"line\":3}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// fillingDisk takes a part of what has no room.
type fillingDisk struct {
	bytes.Buffer
	room int
}

func (d *fillingDisk) Write(p []byte) (int, error) {
	n, _ := d.Buffer.Write(p[:min(len(p), d.room)])
	d.room -= n
	if n < len(p) {
		return n, errors.New("disk full")
	}
	return n, nil
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }
