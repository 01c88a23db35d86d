package middleware

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/configs"
)

func TestTargetsArriveByteForByte(t *testing.T) {
	upstream, heads := recorder(t)
	for base, targets := range map[string][]string{
		"": {
			"/", "/?", "/a", "/a/", "/a?b=c&d", "/a?b?c", "/?//x", "/a%2Fb", "/%zz", "/%", "/A%c3%a9", "/\xc3\xa9\xff", "/a+b%20c",
			"/a//b", "//a", "//a//b?x=%", "///", "//a|b", "/a;b=1", "/a/./b", "/a/../b", "/|^`{}<>\"", "/x:y@z", "/a/http://b/c",
			"/lockset", "/lockset/a", "/lock", "/locksmith?x=/locks/a", "/a/locks/b", "/v1/locks", "/@evil.example/",
			"/" + strings.Repeat("x", 8000),
		},
		"/api/v1": {"/", "/?x", "//a", "/a%2F", "/lockset"},
	} {
		f := newFront(t, upstream, func(s *configs.Settings) { s.Upstream.Path = base })
		for _, target := range targets {
			response := f.get(target)
			if response.StatusCode != http.StatusOK {
				t.Errorf("%q: status %d, %s", target, response.StatusCode, response.body)
				continue
			}
			want := "GET " + base + target + " HTTP/1.1"
			if target == "//a|b" { // which net/http would change: the one case of a form of another kind
				want = "GET http://api.example//a|b HTTP/1.1"
			}
			if line, _, _ := strings.Cut(next(t, heads, target), "\r\n"); line != want {
				t.Errorf("%q arrived as %q", target, line)
			}
		}
	}
}

func TestAnotherHostIsNeverChosen(t *testing.T) {
	upstream, heads := recorder(t)
	f := newFront(t, upstream, nil)
	for _, c := range []struct{ request, line, host string }{
		{"GET //evil.example/a HTTP/1.1\r\nHost: x\r\n\r\n", "GET //evil.example/a HTTP/1.1", "x"},
		{"GET /a HTTP/1.0\r\n\r\n", "GET /a HTTP/1.1", strings.TrimPrefix(upstream, "http://")},
		{"GET /@evil.example/a HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET /@evil.example/a HTTP/1.1", "evil.example"},
	} {
		if response := f.raw(c.request); response.StatusCode != http.StatusOK {
			t.Errorf("%q: status %d, %s", c.request, response.StatusCode, response.body)
			continue
		}
		head := next(t, heads, c.request)
		line, _, _ := strings.Cut(head, "\r\n")
		if host := parseLines(head)["host"]; line != c.line || len(host) != 1 || host[0] != c.host {
			t.Errorf("%q arrived as %q with Host %q", c.request, line, host)
		}
	}
	for _, request := range []string{
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
		"GET //evil.example/a HTTP/1.0\r\n\r\n",
		"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT /a HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n",
	} {
		if response := f.raw(request); response.StatusCode != http.StatusBadRequest || response.problem().Code != CodeInvalidRequest {
			t.Errorf("%q: status %d, %s", request, response.StatusCode, response.body)
		}
	}
	if len(heads) > 0 {
		t.Errorf("the upstream got %q", <-heads)
	}
}

func TestTheHostIsPassedOrRewritten(t *testing.T) {
	upstream, heads := recorder(t)
	for mode, want := range map[string]string{
		configs.ProxyHostPass:    "api.example",
		configs.ProxyHostRewrite: strings.TrimPrefix(upstream, "http://"),
	} {
		newFront(t, upstream, func(s *configs.Settings) { s.ProxyHost = mode }).get("/")
		fields := parseLines(next(t, heads, mode))
		if got := fields["host"]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: Host %q, want %q", mode, got, want)
		}
		if got := fields["x-forwarded-host"]; len(got) != 1 || got[0] != "api.example" {
			t.Errorf("%s: X-Forwarded-Host %q", mode, got)
		}
	}
}

func TestEveryMethodArrives(t *testing.T) {
	upstream, heads := recorder(t)
	f := newFront(t, upstream, nil)
	for _, method := range []string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "MKCOL", "REPORT", "QUERY", "get", "X-Y!z",
	} {
		response := f.raw(method + " /a HTTP/1.1\r\nHost: api.example\r\nIdempotency-Key: k\r\n\r\n")
		head := next(t, heads, method)
		fields := parseLines(head)
		if line, _, _ := strings.Cut(head, "\r\n"); response.StatusCode != http.StatusOK || line != method+" /a HTTP/1.1" {
			t.Errorf("%s: status %d, arrived as %q", method, response.StatusCode, line)
		}
		if len(fields["transfer-encoding"]) > 0 || len(fields["content-length"]) > 1 || len(fields["idempotency-key"]) != 1 {
			t.Errorf("%s without a body arrived with %q", method, head)
		}
	}
}

func TestRequestIDsAreOnBothSidesOnce(t *testing.T) {
	seen := make(chan http.Header, 1)
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.Header().Set(HeaderRequestID, "of the upstream")
	})
	f := newFront(t, upstream, nil)
	sent := uuid.NewString()
	for name, lines := range map[string][]string{
		"sent":                 {HeaderRequestID + ": " + sent},
		"made":                 nil,
		"with another spelled": {HeaderRequestID + ": " + sent, "X_Volcano_Request_Id: other"},
		"named by Connection":  {HeaderRequestID + ": " + sent, "Connection: " + HeaderRequestID},
	} {
		response := f.get("/", lines...)
		got, echoed := next(t, seen, name), response.Header.Values(HeaderRequestID)
		if len(echoed) != 1 || uuid.Validate(echoed[0]) != nil || lines != nil && echoed[0] != sent {
			t.Errorf("%s: the client got %q", name, echoed)
		}
		if upstreams := got.Values(HeaderRequestID); len(upstreams) != 1 || upstreams[0] != echoed[0] || len(got["X_volcano_request_id"]) > 0 {
			t.Errorf("%s: the upstream got %v", name, got)
		}
	}
	if response := f.get("/", HeaderRequestID+": abc"); response.StatusCode != http.StatusBadRequest || len(seen) > 0 {
		t.Errorf("malformed: status %d, %d requests arrived", response.StatusCode, len(seen))
	}
}
