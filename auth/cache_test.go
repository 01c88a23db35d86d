package auth_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// cached is a cache whose time a test moves.
type cached struct {
	*auth.Cache
	secret []byte
	mu     sync.Mutex
	at     time.Time
}

func newCached(t *testing.T) *cached {
	t.Helper()
	c := &cached{secret: bytes.Repeat([]byte("k"), auth.MinSecretBytes), at: time.Unix(1_800_000_000, 0)}
	verifier, err := auth.NewVerifier(auth.Config{Secrets: [][]byte{c.secret}, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	if c.Cache, err = auth.NewCache(verifier, c.now); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cached) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *cached) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *cached) mint(t *testing.T, lifetime time.Duration) string {
	t.Helper()
	credential, err := auth.Mint(c.secret, auth.Grant{
		Kind: auth.ServiceRole, Project: uuid.New(), KeyID: "k1", IssuedAt: c.now(), ExpiresAt: c.now().Add(lifetime),
	})
	if err != nil {
		t.Fatal(err)
	}
	return credential
}

func TestTheCacheAnswersAsTheVerifierDoes(t *testing.T) {
	c := newCached(t)
	credential := c.mint(t, time.Hour)
	first, err := c.Verify(credential)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Verify(credential)
	if err != nil || again.KeyID != first.KeyID || again.Project != first.Project || !again.CanManageLocks() {
		t.Errorf("from memory %+v, %v; verified %+v", again, err, first)
	}
}

func TestTheCacheNeverOutlivesTheCredential(t *testing.T) {
	c := newCached(t)
	credential := c.mint(t, time.Hour)
	for _, step := range []struct {
		pass time.Duration
		ok   bool
	}{{0, true}, {time.Hour - time.Second, true}, {time.Second, false}, {time.Hour, false}} {
		c.pass(step.pass)
		if _, err := c.Verify(credential); (err == nil) != step.ok {
			t.Errorf("after another %v: %v", step.pass, err)
		}
	}
}

func TestTheCacheKnowsACredentialByAllOfIt(t *testing.T) {
	c := newCached(t)
	credential := c.mint(t, time.Hour)
	if _, err := c.Verify(credential); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{credential + " ", "ak-" + credential[3:], credential[:len(credential)-2] + "AA", " " + credential} {
		if p, err := c.Verify(other); err == nil {
			t.Errorf("a changed credential proved %+v", p)
		}
	}
	if _, err := c.Verify(credential[3:]); err != nil {
		t.Errorf("without its prefix the credential is another valid one: %v", err)
	}
}

func BenchmarkCache(b *testing.B) {
	secret := bytes.Repeat([]byte("k"), auth.MinSecretBytes)
	credential, err := auth.Mint(secret, auth.Grant{Kind: auth.ServiceRole, Project: uuid.New(), IssuedAt: time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	verifier, err := auth.NewVerifier(auth.Config{Secrets: [][]byte{secret}})
	if err != nil {
		b.Fatal(err)
	}
	cache, err := auth.NewCache(verifier, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cache.Verify(credential); err != nil {
			b.Fatal(err)
		}
	}
}
