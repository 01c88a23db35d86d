package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// publisher answers with a key set, or with 503 while it has none.
type publisher struct {
	*httptest.Server
	set atomic.Pointer[string]
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		set := p.set.Load()
		if set == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, *set)
	}))
	t.Cleanup(p.Close)
	return p
}

// publish makes the set of one new key, and a credential that it verifies.
func (p *publisher) publish(t *testing.T, kid string) (credential string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	set := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}]}`, kid, base64.RawURLEncoding.EncodeToString(public))
	p.set.Store(&set)
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"role": "service_role", "project_id": uuid.NewString()})
	token.Header["kid"] = kid
	credential, err = token.SignedString(private)
	if err != nil {
		t.Fatal(err)
	}
	return credential
}

// status of reading a lock with a credential.
func (r *running) status(credential string) int {
	r.t.Helper()
	response, _ := r.send("GET /locks/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", credential)
	return response.StatusCode
}

// askAdmin decodes what the admin listener has at a path.
func (r *running) askAdmin(path string, into any) (status int) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.admin.Addr().String()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode
}

func TestAGatewayWithoutAnyKeyYetServesAndIsReady(t *testing.T) {
	p := newPublisher(t)
	g := startGateway(t, map[string]string{"GATEWAY_JWT_SECRET": "", "GATEWAY_JWKS_URL": p.URL + "/keys?token=hidden"})
	var health map[string]string
	if status := g.askAdmin("/readyz", &health); status != http.StatusOK {
		t.Errorf("/readyz answers %d: %v", status, health)
	}
	var s auth.KeyURLStatus
	if g.askAdmin("/jwks", &s); s.Keys != 0 || s.Failures == 0 || !strings.Contains(s.LastError, "503") {
		t.Errorf("/jwks says %+v", s)
	}
	credential := p.publish(t, "first") // from here on the URL answers; who asks may wait for the second attempt
	for deadline := time.Now().Add(10 * time.Second); g.status(credential) != http.StatusOK; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first set never counted")
		}
	}
	if g.askAdmin("/jwks", &s); s.Keys != 1 || s.LastError != "" || !strings.HasSuffix(p.URL, "//"+s.Host) {
		t.Errorf("/jwks says %+v", s)
	}
	g.end()
}

func TestKeysAtTheURLRotateWithoutARestart(t *testing.T) {
	p := newPublisher(t)
	first := p.publish(t, "first")
	g := startGateway(t, map[string]string{"GATEWAY_JWKS_URL": p.URL})
	if got := []int{g.status(g.key), g.status(first)}; got[0] != http.StatusOK || got[1] != http.StatusOK {
		t.Fatalf("at first: %v", got)
	}
	second := p.publish(t, "second")
	if got := g.status(second); got != http.StatusOK {
		t.Errorf("the new key: %d", got)
	}
	if got := g.status(first); got != http.StatusUnauthorized {
		t.Errorf("the key that is gone: %d", got)
	}
	p.set.Store(nil)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(syscall.SIGHUP) // within the cool-down
	}
	if err != nil {
		t.Fatal(err)
	}
	var s auth.KeyURLStatus
	for deadline := time.Now().Add(10 * time.Second); s.Failures == 0 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		g.askAdmin("/jwks", &s)
	}
	if got := []int{g.status(g.key), g.status(second)}; s.Failures == 0 || s.Keys != 1 || got[0] != http.StatusOK || got[1] != http.StatusOK {
		t.Errorf("when the URL fails: %v, %+v", got, s)
	}
	g.end()
}

func TestCheckReportsAURLWithoutAUsableSet(t *testing.T) {
	p := newPublisher(t)
	check := func(environ map[string]string) error {
		environ["GATEWAY_STORE"] = "bolt://" + filepath.Join(t.TempDir(), "locks.db")
		return process{environ: environ, stdout: io.Discard, stderr: io.Discard}.command(t.Context(), []string{"check"})
	}
	only := func() map[string]string { return map[string]string{"GATEWAY_JWKS_URL": p.URL + "/keys?token=hidden"} }
	wants := func(err error, words string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "GATEWAY_JWKS_URL: ") || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("got %v, want %q", err, words)
		}
	}
	wants(check(only()), "status 503")
	set := `{"keys":[{"kty":"EC","crv":"P-256"}]}`
	p.set.Store(&set)
	wants(check(only()), "keys[0]")
	p.publish(t, "good")
	if err := check(only()); err != nil {
		t.Error(err)
	}
	p.Close()
	wants(check(only()), "refused")
	wants(check(map[string]string{"GATEWAY_JWKS_URL": "http://issuer.example/?token=hidden"}), "is not safe")
}

func TestInspectKnowsTheKeysOfTheURL(t *testing.T) {
	p := newPublisher(t)
	credential := p.publish(t, "key")
	var out bytes.Buffer
	err := process{
		environ: map[string]string{"GATEWAY_JWKS_URL": p.URL}, stdin: strings.NewReader(credential), stdout: &out, stderr: io.Discard,
	}.command(t.Context(), []string{"key", "inspect"})
	if err != nil || !strings.Contains(out.String(), `"valid": true`) {
		t.Errorf("%v, %s", err, &out)
	}
}
