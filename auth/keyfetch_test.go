package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/MicahParks/jwkset"

	"github.com/project-locks/gateway/auth"
)

func redirectTo(address string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, address, http.StatusFound) }
}

func saying(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// badAnswers of a URL, and words of the complaint about each.
func badAnswers(t *testing.T) map[string]struct {
	answer http.HandlerFunc
	words  string
} {
	t.Helper()
	type bad = struct {
		answer http.HandlerFunc
		words  string
	}
	set := func(key any, adjust ...func(*jwkset.JWKMarshal)) http.HandlerFunc {
		return saying(string(jwks(t, jwk(t, publicKey("ES256"), "good"), jwk(t, key, "bad", adjust...))))
	}
	good := string(setOf(t, "ES256"))
	secure := httptest.NewTLSServer(saying(good))
	t.Cleanup(secure.Close)
	return map[string]bad{
		"not found":       {http.NotFound, "status 404"},
		"no content":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "status 204"},
		"nothing":         {saying(""), "is not a JSON object"},
		"a page":          {saying("<html>hello</html>"), "is not a JSON object"},
		"null":            {saying("null"), "is not a JSON object"},
		"an empty object": {saying("{}"), "no member keys"},
		"null keys":       {saying(`{"keys":null}`), "has a null"},
		"no keys":         {saying(`{"keys":[]}`), "no key in it"},
		"only a key for encryption": {saying(string(jwks(t, jwk(t, publicKey("RS256"), "x", func(m *jwkset.JWKMarshal) { m.USE = jwkset.UseEnc })))),
			"no key in it"},
		"two sets":                       {saying(good + good), "is not a JSON object"},
		"keys given twice":               {saying(`{"keys":[],` + good[1:]), "gives a member twice"},
		"half a set":                     {saying(good[:len(good)/2]), "is not a JSON object"},
		"keys of one name":               {set(publicKey("ES256"), func(m *jwkset.JWKMarshal) { m.KID = "good" }), "same kid and algorithm"},
		"a private key":                  {set(privateKey("EdDSA")), "private key"},
		"a secret":                       {set(privateKey("HS256")), "a secret that is published"},
		"a short RSA key":                {set(&must(rsa.GenerateKey(rand.Reader, 1024)).PublicKey), "too short"}, //nolint:gosec // on purpose
		"a private key of another curve": {set(must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))), "private key"},
		"only keys of other kinds":       {saying(`{"keys":[{},{"kty":"AKP","alg":"ML-DSA-44","pub":"eHh4"}]}`), "no key in it"},
		"many wrong keys":                {saying(`{"keys":[` + strings.Repeat(`{"kty":"RSA"},`, 50_000) + `{"kty":"RSA"}]}`), "and 49998 more"},
		"too large":                      {saying(good + strings.Repeat(" ", 1<<20)), "larger than 1048576 bytes"},
		"endless":                        {endless, "larger than 1048576 bytes"},
		"large headers":                  {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "too large"},
		"broken off":                     {hangUp(good), "broke off"},
		"no HTTP":                        {hangUpAtOnce, "EOF"},
		"redirects to https":             {redirectTo(secure.URL), "another scheme"},
		"redirects to a file":            {redirectTo("file:///etc/passwd"), "another scheme"},
		"redirects away":                 {redirectTo("http://keys.example/"), "is not safe"},
		"redirects to no URL":            {redirectTo("/%zz?token=told-to-nobody"), "no answer in HTTP that can be read"},
		"no header":                      {raw("HTTP/1.1 200 OK\r\ntold-to-nobody\x01: x\r\n\r\n"), "no answer in HTTP that can be read"},
		"redirects in a ring":            {redirectTo("/keys"), "too often"},
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	for text := []byte(strings.Repeat(" ", 64<<10)); ; {
		if _, err := w.Write(text); err != nil {
			return
		}
	}
}

// hangUp in the middle of the answer.
func hangUp(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)+1))
		_, _ = io.WriteString(w, text)
	}
}

// raw answers with these bytes.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

func hangUpAtOnce(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestABadAnswerLeavesTheLastGoodSetInForce(t *testing.T) {
	i := newIssuer(t, "ES256")
	k := i.follow(auth.KeyPace{CoolDown: never, Retry: never})
	c := newCache(t, k)
	first := k.Status()
	for name, bad := range badAnswers(t) {
		t.Run(name, func(t *testing.T) {
			before := k.Status()
			i.does(bad.answer)
			k.Refresh()
			eventually(t, "the fetch", func() bool { return k.Status().Fetches > before.Fetches })
			s := k.Status()
			if strings.Contains(s.LastError, "told-to-nobody") {
				t.Errorf("the status quotes the answer: %s", s.LastError)
			}
			if s.Failures != before.Failures+1 || !strings.Contains(s.LastError, bad.words) || len(s.LastError) > 1000 {
				t.Errorf("the status is %+v, want a complaint with %q", s, bad.words)
			}
			if s.Version != first.Version || s.Keys != 1 || s.LoadedAt != first.LoadedAt || s.LastSuccessAt != before.LastSuccessAt {
				t.Errorf("the status is %+v, at first it was %+v", s, first)
			}
			holds(t, c, "ES256", true)
			holds(t, c, "EdDSA", false)
			if err := auth.CheckKeyURL(t.Context(), i.URL+"/keys"); err == nil || !strings.Contains(err.Error(), bad.words) {
				t.Errorf("the check says %v, want %q", err, bad.words)
			}
		})
	}
	i.publish("EdDSA")
	k.Refresh()
	eventually(t, "a good set", func() bool { return k.Status().LastError == "" })
	holds(t, c, "EdDSA", true)
	holds(t, c, "ES256", false)
	if err := auth.CheckKeyURL(t.Context(), i.URL); err != nil {
		t.Error(err)
	}
}

func TestKeysOfOtherKindsArePassedOver(t *testing.T) {
	i := newIssuer(t)
	set := jwks(t,
		jwkset.JWKMarshal{KTY: "AKP", KID: "later"},
		jwk(t, &must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)).PublicKey, "large"),
		jwk(t, publicKey("RS256"), "padded", func(m *jwkset.JWKMarshal) { m.ALG = jwkset.AlgPS256 }),
		jwk(t, publicKey("ES256"), "key-ES256"),
	)
	i.does(saying(string(set)))
	k := i.follow(auth.KeyPace{})
	holds(t, newCache(t, k), "ES256", true)
	if s := k.Status(); s.Keys != 1 || s.LastError != "" {
		t.Errorf("the status is %+v, want one key", s)
	}
}

func TestAServerThatIsGoneLeavesTheLastGoodSetInForce(t *testing.T) {
	i := newIssuer(t, "ES256")
	k := i.follow(auth.KeyPace{Retry: never})
	c := newCache(t, k)
	i.Close()
	holds(t, c, "EdDSA", false)
	if s := k.Status(); s.Failures != 1 || !strings.Contains(s.LastError, "refused") {
		t.Errorf("the status is %+v", s)
	}
	holds(t, c, "ES256", true)
	if err := auth.CheckKeyURL(t.Context(), i.URL); err == nil || strings.Contains(err.Error(), i.URL) {
		t.Errorf("the check says %v", err)
	}
}

func TestARedirectWithinTheRulesIsFollowed(t *testing.T) {
	i := newIssuer(t)
	good := setOf(t, "ES256")
	i.does(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			http.Redirect(w, r, "/moved", http.StatusFound)
			return
		}
		if r.Referer() != "" {
			t.Errorf("the redirect tells %q", r.Referer())
		}
		_, _ = w.Write(good)
	})
	holds(t, newCache(t, i.follow(auth.KeyPace{})), "ES256", true)
}

func TestACertificateThatNobodyKnowsIsRefused(t *testing.T) {
	server := httptest.NewTLSServer(saying(string(setOf(t, "ES256"))))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	if err := auth.CheckKeyURL(t.Context(), server.URL); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}

func TestKeyURLs(t *testing.T) {
	for _, good := range []string{
		"https://issuer.example", "https://issuer.example:8443/keys?p=1", "https://10.0.0.1/keys",
		"http://127.0.0.1:8080/keys", "http://127.9.9.9", "http://[::1]:1/keys", "http://localhost/keys", "http://LOCALHOST:1",
	} {
		if _, err := auth.ParseKeyURL(good); err != nil {
			t.Errorf("%s %v", good, err)
		}
	}
	for bad, words := range map[string]string{
		"": "is not the URL", "keys.json": "is not the URL", "/etc/keys": "is not the URL", "file:///keys": "is not the URL",
		"ftp://a/keys": "is not the URL", "https://": "is not the URL", "https:///keys": "is not the URL", "https:keys": "is not the URL",
		"https://a\n/": "is not the URL", "http://issuer.example/keys": "is not safe", "http://10.0.0.1/": "is not safe",
		"http://localhost.example/": "is not safe", "http://127.0.0.1.example/": "is not safe", "http://0.0.0.0/": "is not safe",
		"https://user:" + hidden + "@a/": "user name", "https://a/#" + hidden: "fragment", "http://" + hidden + "@127.0.0.1@b/": "is not",
	} {
		if _, err := auth.ParseKeyURL(bad); err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), hidden) {
			t.Errorf("%q: %v, want %q", bad, err, words)
		}
	}
	if k, err := auth.OpenKeyURL("http://issuer.example"); err == nil {
		t.Errorf("an unsafe URL was opened: %+v, %v", k.Status(), k.Close())
	}
}
