package middleware

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/project-locks/gateway/configs"
)

func TestTheClientIsTheFirstAddressThatIsNotTrusted(t *testing.T) {
	trusted := configs.Networks{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		peer  string
		lines []string
		want  string // all hops, the client first
	}{
		"no header":                         {"10.0.0.1", nil, "10.0.0.1"},
		"an untrusted peer is not believed": {"192.0.2.1", []string{"198.51.100.1"}, "192.0.2.1"},
		"a trusted peer is":                 {"10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1, 10.0.0.1"},
		"what the client said is not":       {"10.0.0.1", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1, 10.0.0.1"},
		"not even if it names a proxy":      {"10.0.0.1", []string{"10.9.9.9, 198.51.100.1, 10.0.0.2"}, "198.51.100.1, 10.0.0.2, 10.0.0.1"},
		"several lines are one list":        {"10.0.0.1", []string{"203.0.113.9", "198.51.100.1,10.0.0.3", "10.0.0.2"}, "198.51.100.1, 10.0.0.3, 10.0.0.2, 10.0.0.1"},
		"all trusted":                       {"10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3, 10.0.0.2, 10.0.0.1"},
		"no address":                        {"10.0.0.1", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2, 10.0.0.1"},
		"nothing":                           {"10.0.0.1", []string{""}, "10.0.0.1"},
		"with ports":                        {"10.0.0.1", []string{"198.51.100.1:99, [fd00::1]:80"}, "198.51.100.1, fd00::1, 10.0.0.1"},
		"in brackets":                       {"10.0.0.1", []string{"[2001:db8::1]"}, "2001:db8::1, 10.0.0.1"},
		"mapped":                            {"::ffff:10.0.0.1", []string{"::ffff:198.51.100.1"}, "198.51.100.1, 10.0.0.1"},
		"with a zone":                       {"10.0.0.1", []string{"fe80::1%eth0"}, "fe80::1, 10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var request fasthttp.Request
			for _, line := range c.lines {
				request.Header.Add("X-Forwarded-For", line)
			}
			var client fasthttp.RequestCtx
			client.Init(&request, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.peer), 1)), nil)
			if got := join(hops(&client, trusted)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got, _, _ := strings.Cut(c.want, ","); clientAddress(&client, trusted).String() != got {
				t.Errorf("the client is %v, want %s", clientAddress(&client, trusted), got)
			}
		})
	}
}

func TestForwardedHeadersAreTheGateways(t *testing.T) {
	sent := []string{
		"X-Forwarded-For: 203.0.113.9, 198.51.100.1", "X-Forwarded-Proto: HTTPS", "X-Forwarded-Host: www.example", "Forwarded: for=203.0.113.9",
		"X-Forwarded-Port: 443", "X-Real-IP: 203.0.113.9", "X_Forwarded_For: 203.0.113.9", "x.forwarded.proto: wss", "Connection: X-Forwarded-For",
		"X-Original-URL: /locks/a", "X_Rewrite_URL: /locks/a",
	}
	upstream, heads := recorder(t)
	for name, c := range map[string]struct {
		trusted configs.Networks
		want    map[string]string
	}{
		"from anybody": {nil, map[string]string{
			"x-forwarded-for": "127.0.0.1", "x-forwarded-proto": "http", "x-forwarded-host": "api.example", "x-forwarded-port": "", "x-real-ip": "",
			"x-original-url": "", "x_rewrite_url": "",
		}},
		"from a trusted proxy": {loopback, map[string]string{
			"x-forwarded-for": "198.51.100.1, 127.0.0.1", "x-forwarded-proto": "https", "x-forwarded-host": "www.example", "x-forwarded-port": "443", "x-real-ip": "203.0.113.9",
			"x-original-url": "/locks/a", "x_rewrite_url": "/locks/a",
		}},
	} {
		f := newFront(t, upstream, func(s *configs.Settings) { s.TrustedProxies = c.trusted })
		f.get("/", sent...)
		fields := parseLines(next(t, heads, name))
		for header, want := range c.want {
			if got := strings.Join(fields[header], "|"); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
		for _, header := range []string{"forwarded", "x_forwarded_for", "x.forwarded.proto"} {
			if len(fields[header]) > 0 {
				t.Errorf("%s: %s arrived", name, header)
			}
		}
	}
	f := newFront(t, upstream, func(s *configs.Settings) { s.TrustedProxies = loopback })
	f.get("/", "X-Forwarded-Proto: gopher", "X-Forwarded-Host: a/b")
	if fields := parseLines(next(t, heads, "nonsense")); fields["x-forwarded-proto"][0] != "http" || fields["x-forwarded-host"][0] != "api.example" {
		t.Errorf("nonsense was believed: %v", fields)
	}
}
