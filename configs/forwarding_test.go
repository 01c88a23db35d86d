package configs

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestUpstreamURLAccepts(t *testing.T) {
	for text, want := range map[string]UpstreamURL{
		"http://localhost":                {"http", "localhost", ""},
		"http://127.0.0.1:3000":           {"http", "127.0.0.1:3000", ""},
		"https://api.example/":            {"https", "api.example", ""},
		"https://[::1]:443/base/v1/":      {"https", "[::1]:443", "/base/v1"},
		"http://my_service.ns:80/lockset": {"http", "my_service.ns:80", "/lockset"},
		"http://a/b/locks":                {"http", "a", "/b/locks"},
	} {
		t.Run(text, func(t *testing.T) {
			var u UpstreamURL
			if err := u.UnmarshalText([]byte(text)); err != nil || u != want || !u.IsSet() {
				t.Errorf("got %+v, %v; want %+v", u, err, want)
			}
			if shown := u.String(); shown != strings.TrimRight(text, "/") {
				t.Errorf("shown as %q", shown)
			}
		})
	}
	if u := (UpstreamURL{}); u.IsSet() || u.String() != "" {
		t.Errorf("nothing is shown as %q", u)
	}
}

func TestUpstreamURLRefuses(t *testing.T) {
	const (
		notAnUpstream = "is not an upstream; write http://HOST:PORT or https://HOST, and a base path if there is one"
		port          = "has a port that does not exist; write one from 1 to 65535"
		user          = "has a user name in it, which would be sent to nobody; remove it"
		query         = "has a query or a fragment, which cannot stand before the path of a request; remove it"
		path          = "has a base path with empty or dot segments, percent-encoding or a first segment locks; write a plain one"
	)
	for text, want := range map[string]string{
		"":                     notAnUpstream,
		"localhost:3000":       notAnUpstream,
		"ftp://localhost":      notAnUpstream,
		"http://":              notAnUpstream,
		"http://:3000":         notAnUpstream,
		"http:///a":            notAnUpstream,
		"http://a b":           notAnUpstream,
		"http://a,b":           notAnUpstream,
		"http://a:port":        notAnUpstream,
		"unix:///run/api.sock": notAnUpstream,
		"http://a:0":           port,
		"http://a:65536":       port,
		"http://user:secret@a": user,
		"http://user@a/b":      user,
		"http://a?secret":      query,
		"http://a/?":           query,
		"http://a#secret":      query,
		"http://a//b":          path,
		"http://a/b/../c":      path,
		"http://a/./b":         path,
		"http://a/b%2Fc":       path,
		"http://a/b;c":         path,
		"http://a/Locks":       path,
		"http://a/locks/b/":    path,
	} {
		t.Run(text, func(t *testing.T) {
			var u UpstreamURL
			if err := u.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
				t.Errorf("got %+v, %v; want %q", u, err, want)
			}
		})
	}
}

func TestNetworksAreTakenFromAList(t *testing.T) {
	var n Networks
	if err := n.UnmarshalText([]byte("10.0.0.0/8, 192.168.1.7,fd00::/8,::1")); err != nil {
		t.Fatal(err)
	}
	if shown := n.String(); shown != "10.0.0.0/8,192.168.1.7/32,fd00::/8,::1/128" {
		t.Errorf("shown as %q", shown)
	}
	for text, want := range map[string]bool{
		"10.255.0.1": true, "::ffff:10.0.0.1": true, "192.168.1.7": true, "fd12::1": true, "fd12::1%eth0": true, "::1": true,
		"11.0.0.1": false, "192.168.1.8": false, "fe80::1": false, "127.0.0.1": false,
	} {
		if n.Contain(netip.MustParseAddr(text)) != want {
			t.Errorf("%s: %v, want %v", text, !want, want)
		}
	}
	if n.Contain(netip.Addr{}) || Networks(nil).Contain(netip.MustParseAddr("10.0.0.1")) {
		t.Error("no address is in a network, or any in none")
	}
	for text, want := range map[string]string{
		"10.0.0.1/8":          `"10.0.0.1/8" is an address within a network; write 10.0.0.0/8 for the network`,
		"proxy.example":       `"proxy.example" is not a network; write for example 10.0.0.0/8,192.168.1.7`,
		"10.0.0.0/33":         `"10.0.0.0/33" is not a network; write for example 10.0.0.0/8,192.168.1.7`,
		"10.0.0.0/8,":         `"" is not a network; write for example 10.0.0.0/8,192.168.1.7`,
		"fe80::1%eth0":        `"fe80::1%eth0" is not a network; write for example 10.0.0.0/8,192.168.1.7`,
		"::ffff:10.0.0.0/104": `"::ffff:10.0.0.0/104" is not a network; write for example 10.0.0.0/8,192.168.1.7`,
		"10.0.0.0/8 fd00::/8": `"10.0.0.0/8 fd00::/8" is not a network; write for example 10.0.0.0/8,192.168.1.7`,
	} {
		if err := n.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestLoadTakesTheSettingsOfForwarding(t *testing.T) {
	s, err := Load(environ())
	if err != nil {
		t.Fatal(err)
	}
	if s.Upstream.IsSet() || s.UpstreamTimeout != 30*time.Second || s.UpstreamMaxConns != 512 || s.UpstreamIdleTimeout != 4*time.Second ||
		s.ProxyAuth != ProxyAuthOptional || s.ProxyHost != ProxyHostPass || len(s.TrustedProxies) > 0 {
		t.Errorf("by default: %+v", s)
	}
	s, err = Load(environ("GATEWAY_UPSTREAM", "http://api:1/v1", "GATEWAY_UPSTREAM_TIMEOUT", "10ms", "GATEWAY_UPSTREAM_MAX_CONNS", "1",
		"GATEWAY_UPSTREAM_IDLE_TIMEOUT", "1h", "GATEWAY_PROXY_AUTH", "off", "GATEWAY_PROXY_HOST", "rewrite", "GATEWAY_TRUSTED_PROXIES", "10.0.0.0/8,::1"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Upstream.String() != "http://api:1/v1" || s.UpstreamTimeout != 10*time.Millisecond || s.UpstreamMaxConns != 1 || s.UpstreamIdleTimeout != time.Hour ||
		s.ProxyAuth != ProxyAuthOff || s.ProxyHost != ProxyHostRewrite || s.TrustedProxies.String() != "10.0.0.0/8,::1/128" {
		t.Errorf("as told: %+v", s)
	}
}

func TestLoadRefusesInForwarding(t *testing.T) {
	for name, test := range map[string]struct{ name, value, want string }{
		"no URL":           {"GATEWAY_UPSTREAM", "secret", "is not an upstream; write http://HOST:PORT or https://HOST, and a base path if there is one"},
		"no networks":      {"GATEWAY_TRUSTED_PROXIES", "a", `"a" is not a network; write for example 10.0.0.0/8,192.168.1.7`},
		"no number":        {"GATEWAY_UPSTREAM_MAX_CONNS", "many", `"many" is not a whole number; write for example 512`},
		"no connection":    {"GATEWAY_UPSTREAM_MAX_CONNS", "0", "0 is out of range; write 1 to 100000"},
		"too many":         {"GATEWAY_UPSTREAM_MAX_CONNS", "100001", "100001 is out of range; write 1 to 100000"},
		"no time":          {"GATEWAY_UPSTREAM_TIMEOUT", "0s", "0s is out of range; write 10ms to 1h"},
		"too much time":    {"GATEWAY_UPSTREAM_TIMEOUT", "61m", "1h1m0s is out of range; write 10ms to 1h"},
		"no idle time":     {"GATEWAY_UPSTREAM_IDLE_TIMEOUT", "-1s", "-1s is out of range; write 10ms to 1h"},
		"an unknown check": {"GATEWAY_PROXY_AUTH", "on", `"on" is not a choice; write optional, required, off`},
		"an unknown host":  {"GATEWAY_PROXY_HOST", "keep", `"keep" is not a choice; write pass, rewrite`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(environ(test.name, test.value))
			if want := test.name + ": " + test.want; err == nil || err.Error() != want {
				t.Errorf("got:  %v\nwant: %v", err, want)
			}
		})
	}
}
