package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traceCollector is where a gateway sends its spans.
type traceCollector struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex
	// what has come, by name of the span
	spans    map[string][]*trace.Span
	resource map[string]string
}

func startTraceCollector(t *testing.T) *traceCollector {
	c := &traceCollector{t: t, spans: map[string][]*trace.Span{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *traceCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var export collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &export)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s: %v", r.URL, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range export.GetResourceSpans() {
		c.resource = attributes(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans[span.GetName()] = append(c.spans[span.GetName()], span)
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// span waits for the one span of a name.
func (c *traceCollector) span(name string) *trace.Span {
	c.t.Helper()
	var found []*trace.Span
	eventually(c.t, "a span "+name, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = c.spans[name]
		return len(found) > 0
	})
	if len(found) != 1 {
		c.t.Fatalf("%d spans %s", len(found), name)
	}
	return found[0]
}

func attributes(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range list {
		text := a.GetValue().String()
		if _, is := a.GetValue().GetValue().(*common.AnyValue_StringValue); is {
			text = a.GetValue().GetStringValue()
		}
		all[a.GetKey()] = text
	}
	return all
}

// soon has spans sent at once, and not after seconds.
func (c *traceCollector) soon() settings {
	return settings{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_SERVICE_NAME": "locks-of-test"}
}

func TestARequestIsTracedWithinItsClientsTrace(t *testing.T) {
	t.Parallel()
	collector := startTraceCollector(t)
	g := start(t, collector.soon())
	project, id := uuid.New(), uuid.NewString()
	const traceID, spanID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	g.client(t, project).do(acquire("key", uuid.New(), 60).
		with(requestIDHeader, id).with("Traceparent", "00-"+traceID+"-"+spanID+"-01")).granted(http.StatusCreated)

	request, decision := collector.span("acquire"), collector.span("store decision")
	if got := hex.EncodeToString(request.GetTraceId()); got != traceID || hex.EncodeToString(request.GetParentSpanId()) != spanID {
		t.Errorf("the request's span is in trace %s under %x", got, request.GetParentSpanId())
	}
	if string(decision.GetTraceId()) != string(request.GetTraceId()) || string(decision.GetParentSpanId()) != string(request.GetSpanId()) {
		t.Error("the decision's span is not within the request's")
	}
	for name, want := range map[string]string{
		"gateway.request_id": id, "gateway.operation": "acquire", "gateway.project_id": project.String(),
		"http.request.method": "POST", "http.response.status_code": "int_value:201",
	} {
		if got := attributes(request.GetAttributes())[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := attributes(decision.GetAttributes())["gateway.verdict"]; got != "granted" {
		t.Errorf("the verdict is %q", got)
	}
	if got := collector.resource["service.name"]; got != "locks-of-test" {
		t.Errorf("the service is %q", got)
	}
}

func TestATraceShowsNoSecretAndNoLockKey(t *testing.T) {
	t.Parallel()
	collector := startTraceCollector(t)
	g := start(t, collector.soon())
	g.client(t, uuid.New()).acquire("lock-key-in-the-path", uuid.New(), 60).granted(http.StatusCreated)
	text := collector.span("acquire").String() + collector.span("store decision").String()
	if secret, found := g.traffic.secretIn(text); found || strings.Contains(text, "lock-key") {
		t.Errorf("%q or a lock key in %s", secret, text)
	}
}

func TestAnErrorIsSeenInItsTrace(t *testing.T) {
	t.Parallel()
	collector := startTraceCollector(t)
	g := start(t, collector.soon())
	c := g.client(t, uuid.New())
	c.release("key", uuid.Nil).want(http.StatusBadRequest, "invalid_request")
	span := collector.span("release")
	if got := attributes(span.GetAttributes())["gateway.code"]; got != "invalid_request" {
		t.Errorf("the code is %q", got)
	}
	if span.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR {
		t.Error("a client's mistake is told as an error of the gateway")
	}
	c.do(request{method: "GET", path: "/nowhere"}).want(http.StatusNotFound, "not_found")
	if got := attributes(collector.span("request").GetAttributes())["gateway.operation"]; got != "none" {
		t.Errorf("the operation is %q", got)
	}
}

func TestTracesAreSentBeforeTheEnd(t *testing.T) {
	t.Parallel()
	collector := startTraceCollector(t)
	s := collector.soon()
	s["OTEL_BSP_SCHEDULE_DELAY"] = "600000"
	g := start(t, s)
	g.client(t, uuid.New()).read("key").free()
	g.finish()
	collector.span("read")
}

func TestACollectorThatIsNotThereHoldsNothingUp(t *testing.T) {
	t.Parallel()
	g := start(t, settings{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY": "20",
	})
	c := g.client(t, uuid.New())
	for range 100 {
		c.read("key").free()
	}
	begin := time.Now()
	g.finish()
	if took := time.Since(begin); took > 3*time.Second+slack {
		t.Errorf("the end took %v", took)
	}
}

func TestAWrongTraceSettingIsToldAtStart(t *testing.T) {
	t.Parallel()
	s := settings{"GATEWAY_JWT_SECRET": newSecret(), "OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318", "OTEL_TRACES_SAMPLER": "sometimes"}
	for _, command := range []string{"serve", "check"} {
		wantRefusal(t, call(t, s, "", command), "OTEL_EXPORTER_OTLP_ENDPOINT", "sometimes")
	}
}
