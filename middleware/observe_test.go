package middleware

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/telemetry"
)

// observed serves an app behind an Observer and sends it texts, each on a
// connection of its own.
func observed(t *testing.T, app *fiber.App, o Observer, texts ...string) {
	t.Helper()
	app.Server().Handler = o.Handler(app.Server().Handler)
	app.Server().ErrorHandler = o.Unread(app.Server().ErrorHandler)
	l := fasthttputil.NewInmemoryListener()
	served := make(chan error)
	go func() { served <- app.Listener(l) }()
	for _, text := range texts {
		send(t, l.Dial, text)
	}
	if err := errors.Join(app.Shutdown(), <-served); err != nil {
		t.Fatal(err)
	}
}

func send(t *testing.T, dial func() (net.Conn, error), text string) {
	t.Helper()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has answered
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestEveryAnswerIsCountedOnceAsWhatItWas(t *testing.T) {
	f := newFixture(t, func() (store.Decision, error) {
		return store.Decision{At: time.Now(), Outcome: lockcore.Outcome{Verdict: lockcore.Released}}, nil
	})
	requests := telemetry.NewRequests()
	f.app.Get("/elsewhere", As(telemetry.Forward, func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusNotFound) }))
	f.app.Use(NotFound)
	authorized := " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + f.key + "\r\n\r\n"
	observed(t, f.app, Observer{Requests: requests},
		"DELETE /locks/a"+authorized,
		"DELETE /locks/a HTTP/1.1\r\nHost: h\r\n\r\n",
		"DELETE /locks/%00"+authorized,
		"PUT /locks/a"+authorized,
		"GET /elsewhere"+authorized,
		"GET /nowhere"+authorized,
		"no HTTP at all\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\nX: "+strings.Repeat("x", 5000)+"\r\n\r\n",
	)
	want := "# HELP gateway_requests_total Requests answered on the public listener, by operation, status and error code.\n" +
		"# TYPE gateway_requests_total counter\n"
	for _, a := range []telemetry.Answer{
		{Operation: "force_release", Status: 204, Code: "none"},
		{Operation: "force_release", Status: 401, Code: "unauthorized"},
		{Operation: "force_release", Status: 400, Code: "invalid_request"},
		{Operation: "none", Status: 405, Code: "method_not_allowed"},
		{Operation: "forward", Status: 404, Code: "none"}, // the upstream's answer
		{Operation: "none", Status: 404, Code: "not_found"},
		{Operation: "none", Status: 400, Code: "invalid_request"},
		{Operation: "none", Status: 431, Code: "headers_too_large"},
	} {
		want += fmt.Sprintf("gateway_requests_total{code=%q,operation=%q,status=\"%d\"} 1\n", a.Code, a.Operation, a.Status)
	}
	if err := testutil.CollectAndCompare(requests, strings.NewReader(want), "gateway_requests_total"); err != nil {
		t.Error(err)
	}
}

func TestARefusalByQuotaIsCountedForItsProject(t *testing.T) {
	f := newFixture(t, func() (store.Decision, error) {
		now := time.Now()
		d := store.Decision{At: now}
		d.Quota.Limit, d.Quota.Used, d.Quota.Reset = 1, 1, now.Add(time.Second)
		return d, nil
	})
	for range 3 {
		if response, _ := f.acquire(); response.StatusCode != fiber.StatusTooManyRequests {
			t.Fatalf("status %d", response.StatusCode)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.refusals)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range families[0].GetMetric() {
		label, count := series.GetLabel()[0].GetValue(), series.GetCounter().GetValue()
		if label != "other" && count != 3 || label == "other" && count != 0 {
			t.Errorf("%s was refused %v times", label, count)
		}
	}
	if len(families[0].GetMetric()) != 2 {
		t.Errorf("%d series, want the project's and the rest's", len(families[0].GetMetric()))
	}
}

func TestObservingWithoutTracesAllocatesNothing(t *testing.T) {
	o := Observer{Requests: telemetry.NewRequests()}
	var name any = "acquire"
	p := &Problem{Code: CodeLockHeld}
	handle := o.Handler(func(c *fasthttp.RequestCtx) {
		c.SetUserValue(operationKey{}, name)
		c.SetUserValue(problemKey{}, p)
		if spanContext(c) != context.Background() {
			t.Error("there is a span")
		}
		describe(c, &Record{})
	})
	c := &fasthttp.RequestCtx{}
	if n := testing.AllocsPerRun(1000, func() {
		c.ResetUserValues()
		handle(c)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheMemoryOfALargeRequestIsGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		target, headers string
		kept            bool
	}{
		"usual":        {"/", strings.Repeat("a:\r\n", usualLines-2), true},
		"many headers": {"/", strings.Repeat("a:\r\n", usualLines+1), false},
		"long headers": {"/", "a: " + strings.Repeat("a", usualHeader) + "\r\n", false},
		"long target":  {"/" + strings.Repeat("a", usualHeader), "", false},
	} {
		var r fasthttp.RequestCtx
		if err := r.Request.Header.Read(bufio.NewReaderSize(strings.NewReader("GET "+c.target+" HTTP/1.1\r\nHost: a\r\n"+c.headers+"\r\n"), MaxHeader)); err != nil {
			t.Fatal(err)
		}
		Lean(func(r *fasthttp.RequestCtx) { _ = r.Path() })(&r)
		if kept := len(r.Request.Header.RawHeaders()) > 0; kept != c.kept {
			t.Errorf("%s: kept %v, want %v", name, kept, c.kept)
		}
	}
}
