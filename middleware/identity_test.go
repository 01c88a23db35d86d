package middleware

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
)

var identityHeaders = []string{HeaderProjectID, HeaderRole, HeaderKeyID, HeaderUserID}

// spoofs are header lines that claim an identity, in spellings that some
// upstream takes for the same name.
func spoofs() []string {
	var lines []string
	for _, name := range identityHeaders {
		for _, spelling := range []string{
			name, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", "."),
			strings.ToUpper(strings.ReplaceAll(name, "-", "_")), strings.Replace(name, "-", "_", 1), strings.Replace(name, "-", ".", 2),
			"x-VOLCANO_" + strings.ToLower(name[len("x-volcano-"):]), strings.ReplaceAll(name, "-", ""), strings.ReplaceAll(name, "-", "--"),
			strings.ReplaceAll(name, "-", "~"), name + "_", "_" + name,
		} {
			lines = append(lines, spelling+": spoofed")
		}
	}
	return lines
}

func TestIdentityComesFromTheCredentialOnly(t *testing.T) {
	project := uuid.New()
	user := auth.Grant{Kind: auth.AuthUser, Project: project, KeyID: "key_1", UserID: "user ü"}
	service := auth.Grant{Kind: auth.ServiceRole, Project: project}
	upstream, heads := recorder(t)
	platform := strings.Repeat("0123abcd", 8)
	ofUser := []string{project.String(), "authenticated", "key_1", "user ü"}
	ofService := []string{project.String(), "service_role", "", ""}
	nobody := []string{"", "", "", ""}
	for name, c := range map[string]struct {
		mode       string
		credential string
		identity   []string // nil: 401
	}{
		"optional, a user":               {configs.ProxyAuthOptional, mint(t, user), ofUser},
		"optional, a service key":        {configs.ProxyAuthOptional, mint(t, service), ofService},
		"optional, an anon key":          {configs.ProxyAuthOptional, mint(t, auth.Grant{Kind: auth.Anon, Project: project}), []string{project.String(), "anon", "", ""}},
		"optional, nobody":               {configs.ProxyAuthOptional, "", nobody},
		"optional, a platform token":     {configs.ProxyAuthOptional, platform, nobody},
		"optional, a platform JWT":       {configs.ProxyAuthOptional, mint(t, auth.Grant{Kind: auth.Platform, KeyID: "k"}), nobody},
		"optional, one with a project":   {configs.ProxyAuthOptional, mint(t, auth.Grant{Kind: auth.Platform, Project: uuid.New(), KeyID: "k"}), nobody},
		"required, one with a project":   {configs.ProxyAuthRequired, mint(t, auth.Grant{Kind: auth.Platform, Project: uuid.New(), KeyID: "k"}), nil},
		"optional, an invalid one":       {configs.ProxyAuthOptional, mint(t, user) + "x", nil},
		"optional, no header can carry":  {configs.ProxyAuthOptional, mint(t, auth.Grant{Kind: auth.AuthUser, UserID: "a\r\nX: y"}), nil},
		"optional, a space at the end":   {configs.ProxyAuthOptional, mint(t, auth.Grant{Kind: auth.AuthUser, UserID: "admin "}), nil},
		"optional, a key id of two line": {configs.ProxyAuthOptional, mint(t, auth.Grant{Kind: auth.Anon, KeyID: "a\nb"}), nil},
		"required, a user":               {configs.ProxyAuthRequired, mint(t, user), ofUser},
		"required, nobody":               {configs.ProxyAuthRequired, "", nil},
		"required, a platform token":     {configs.ProxyAuthRequired, platform, nil},
		"required, an invalid one":       {configs.ProxyAuthRequired, "abc", nil},
		"off, a user":                    {configs.ProxyAuthOff, mint(t, user), nobody},
		"off, an invalid one":            {configs.ProxyAuthOff, "abc", nobody},
		"off, nobody":                    {configs.ProxyAuthOff, "", nobody},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, upstream, func(s *configs.Settings) { s.ProxyAuth = c.mode })
			lines := append(spoofs(), "Connection: close, "+strings.Join(append(identityHeaders, "Authorization"), ", "))
			if c.credential != "" {
				lines = append(lines, "Authorization: Bearer "+c.credential)
			}
			response := f.get("/a", lines...)
			if c.identity == nil {
				if response.StatusCode != http.StatusUnauthorized || response.problem().Code != CodeUnauthorized || response.Header.Get("WWW-Authenticate") != "Bearer" || len(heads) > 0 {
					t.Errorf("status %d, %s, %d requests arrived", response.StatusCode, response.body, len(heads))
				}
				return
			}
			head := next(t, heads, "the request")
			fields := parseLines(head)
			for i, name := range identityHeaders {
				got := fields[strings.ToLower(name)]
				if strings.Join(got, "|") != c.identity[i] || c.identity[i] != "" && len(got) != 1 {
					t.Errorf("%s: %q, want %q", name, got, c.identity[i])
				}
			}
			if strings.Contains(head, "spoofed") {
				t.Errorf("a spoofed header arrived:\n%s", head)
			}
			if got := fields["authorization"]; c.credential != "" && (len(got) != 1 || got[0] != "Bearer "+c.credential) {
				t.Errorf("the credential arrived as %q", got)
			}
		})
	}
}

func TestRevokedKeysAreRefusedAndSuspendedProjectsAreNot(t *testing.T) {
	project, suspended := uuid.New(), uuid.New()
	policy, err := configs.ParsePolicy("test", []byte("projects:\n  "+project.String()+": {revoked_keys: [gone]}\n  "+suspended.String()+": {suspended: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	upstream, heads := recorder(t)
	f := newFront(t, upstream, func(s *configs.Settings) { s.Policy = policy })
	for name, c := range map[string]struct {
		grant auth.Grant
		want  int
	}{
		"revoked":   {auth.Grant{Kind: auth.Anon, Project: project, KeyID: "gone"}, http.StatusUnauthorized},
		"good":      {auth.Grant{Kind: auth.Anon, Project: project, KeyID: "kept"}, http.StatusOK},
		"suspended": {auth.Grant{Kind: auth.Anon, Project: suspended}, http.StatusOK},
	} {
		if response := f.get("/", "Authorization: Bearer "+mint(t, c.grant)); response.StatusCode != c.want {
			t.Errorf("%s: status %d, %s", name, response.StatusCode, response.body)
		}
	}
	if len(heads) != 2 {
		t.Errorf("%d requests arrived, want 2", len(heads))
	}
}

func TestTrailersOfTheClientGoNowhere(t *testing.T) {
	heads := make(chan string, 1)
	f := newFront(t, rawUpstream(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		head := readHead(r)
		for !strings.HasSuffix(head, "\r\n0\r\n\r\n") {
			head += readHead(r)
		}
		heads <- head
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}), nil)
	for _, trailer := range []string{"X-Volcano-Role: spoofed", "x_volcano_role: spoofed", "X-Other: spoofed"} {
		name, _, _ := strings.Cut(trailer, ":")
		response := f.raw("POST / HTTP/1.1\r\nHost: x\r\nTrailer: " + name + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + trailer + "\r\n\r\n")
		if response.StatusCode != http.StatusOK {
			t.Errorf("%q: status %d, %s", trailer, response.StatusCode, response.body)
			continue
		}
		if got := next(t, heads, trailer); strings.Contains(got, "spoofed") || strings.Contains(got, "Trailer") || !strings.HasSuffix(got, "1\r\na\r\n0\r\n\r\n") {
			t.Errorf("%q arrived:\n%s", trailer, got)
		}
	}
}

func TestHopByHopHeadersStayOnTheirHop(t *testing.T) {
	seen := make(chan http.Header, 1)
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		for name, value := range map[string]string{
			"Connection": "keep-alive, X-Named", "X-Named": "a", "Keep-Alive": "timeout=1", "Proxy-Authenticate": "Basic", "Upgrade": "h2c", "X-Kept": "b",
		} {
			w.Header().Set(name, value)
		}
	})
	f := newFront(t, upstream, nil)
	response := f.get("/", "Connection: x-named , Keep-Alive", "Connection: X-Other", "X-Named: a", "X-Other: b", "X-Kept: c", "Keep-Alive: timeout=1",
		"Proxy-Connection: keep-alive", "Proxy-Authorization: Basic abc", "TE: trailers", "Trailer: X-T", "Upgrade: h2c", "HTTP2-Settings: AAA", "Expect: 100-continue")
	got := next(t, seen, "the request")
	for _, name := range []string{"Connection", "X-Named", "X-Other", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Te", "Trailer", "Upgrade", "Http2-Settings", "Expect", "User-Agent", "Accept-Encoding"} {
		if len(got[name]) > 0 {
			t.Errorf("the upstream got %s: %q", name, got[name])
		}
	}
	if got.Get("X-Kept") != "c" || response.Header.Get("X-Kept") != "b" {
		t.Errorf("lost: request %v, response %v", got, response.Header)
	}
	for _, name := range []string{"X-Named", "Keep-Alive", "Proxy-Authenticate", "Upgrade"} {
		if len(response.Header[name]) > 0 {
			t.Errorf("the client got %s: %q", name, response.Header[name])
		}
	}
}

func TestOtherHeadersArriveAsTheyAre(t *testing.T) {
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			w.Header()["X-Was-"+name] = values
		}
		maps.Copy(w.Header(), map[string][]string{
			"Set-Cookie": {"a=1; Path=/", "a=2; Path=/b"}, "Content-Type": {"x/y; z"}, "Server": {"up"}, "Vary": {"a", "b"}, "Content-Encoding": {"x, y"},
			"Cache-Control": {"no-cache"}, "Www-Authenticate": {"Basic", "Digest"},
		})
	})
	f := newFront(t, upstream, nil)
	response := f.get("/", `Cookie: a="b c"; d; e=f;;`, "Cookie: g=h", "User-Agent: ü", "Accept: a", "Accept: b", "Accept-Encoding: gzip", "X-Empty:", "Content-Type: q", "Referer: http://x")
	for name, want := range map[string]string{
		"X-Was-Cookie": `a="b c"; d; e=f;;|g=h`, "X-Was-User-Agent": "ü", "X-Was-Accept": "a|b", "X-Was-Accept-Encoding": "gzip", "X-Was-X-Empty": "",
		"X-Was-Content-Type": "q", "X-Was-Referer": "http://x",
		"Set-Cookie": "a=1; Path=/|a=2; Path=/b", "Content-Type": "x/y; z", "Server": "up", "Vary": "a|b", "Content-Encoding": "x, y",
		"Cache-Control": "no-cache", "Www-Authenticate": "Basic|Digest",
	} {
		if values, found := response.Header[name]; !found || strings.Join(values, "|") != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	if response := f.get("/", "X Y: a"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a name with a space: status %d", response.StatusCode)
	}
}
