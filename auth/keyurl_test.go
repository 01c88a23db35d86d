package auth_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/project-locks/gateway/auth"
)

// never is longer than any test.
const never = time.Hour

// issuer publishes a key set, or whatever a test has it answer.
type issuer struct {
	*httptest.Server
	t       testing.TB
	answer  atomic.Pointer[http.HandlerFunc]
	fetches atomic.Int64
}

func newIssuer(t testing.TB, keys ...string) *issuer {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after all other cleaning
	i := &issuer{t: t}
	i.publish(keys...)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetches.Add(1)
		(*i.answer.Load())(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) does(answer http.HandlerFunc) { i.answer.Store(&answer) }

func (i *issuer) says(status int, text string) {
	i.does(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

// publish the public keys of these algorithms, named key-ALG.
func (i *issuer) publish(algs ...string) {
	i.says(http.StatusOK, string(setOf(i.t, algs...)))
}

func setOf(t testing.TB, algs ...string) []byte {
	keys := make([]jwkset.JWKMarshal, 0, len(algs))
	for _, alg := range algs {
		keys = append(keys, jwk(t, publicKey(alg), "key-"+alg))
	}
	return jwks(t, keys...)
}

// follow opens the issuer's URL, with a token in it that nobody may see.
func (i *issuer) follow(pace auth.KeyPace) *auth.KeyURL {
	i.t.Helper()
	log := &journal{}
	usual := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	k, err := auth.OpenKeyURLPaced(i.URL+"/keys?token="+hidden, pace)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		if err := k.Close(); err != nil {
			i.t.Error(err)
		}
		slog.SetDefault(usual)
		if text := log.String() + fmt.Sprintf("%+v", k.Status()); strings.Contains(text, hidden) {
			i.t.Errorf("log or status show the URL: %s", text)
		}
	})
	return k
}

const hidden = "token-in-the-query"

// journal is a log that several goroutines write.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func withURL(k *auth.KeyURL) func(*auth.Config) {
	return func(c *auth.Config) { c.KeyURL = k }
}

// newCache has only the keys of the URL.
func newCache(t testing.TB, k *auth.KeyURL) *auth.Cache {
	t.Helper()
	v := newVerifier(t, withURL(k), func(c *auth.Config) { c.Secrets = nil })
	return must(auth.NewCache(v, func() time.Time { return now }))
}

var tokens sync.Map

// tokenOf is always the same text, so that a cache knows it; an ES256 signature
// is another one each time.
func tokenOf(t testing.TB, alg string) string {
	t.Helper()
	token, _ := tokens.LoadOrStore(alg, signers()[alg].sign(t, "key-"+alg, serviceWith()))
	return fmt.Sprint(token)
}

// holds fails the test unless the credential is, or is not, accepted.
func holds(t *testing.T, c *auth.Cache, alg string, want bool) {
	t.Helper()
	if _, err := c.Verify(tokenOf(t, alg)); (err == nil) != want {
		t.Errorf("the credential by %s: %v, want accepted %v", alg, err, want)
	}
}

func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !met(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestAKeyOfTheURLCountsFromTheStart(t *testing.T) {
	i := newIssuer(t, "RS256", "ES256", "EdDSA")
	k := i.follow(auth.KeyPace{})
	c := newCache(t, k)
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		holds(t, c, alg, true)
	}
	s := k.Status()
	if s.Keys != 3 || s.Fetches != 1 || s.Failures != 0 || s.LastError != "" || s.LoadedAt.IsZero() || s.Version == "" {
		t.Errorf("the status is %+v", s)
	}
	if !strings.HasSuffix(i.URL, "//"+s.Host) {
		t.Errorf("the host is %q of %q", s.Host, i.URL)
	}
}

func TestKeysRotateWithTheRefresh(t *testing.T) {
	i := newIssuer(t, "ES256")
	k := i.follow(auth.KeyPace{Refresh: 10 * time.Millisecond, CoolDown: never})
	c := newCache(t, k)
	holds(t, c, "ES256", true)
	i.publish("EdDSA")
	eventually(t, "the new set", func() bool { return k.Status().Reloads == 1 })
	holds(t, c, "EdDSA", true)
	holds(t, c, "ES256", false) // remembered as it was
	i.publish("ES256", "EdDSA")
	eventually(t, "the old key again", func() bool { return k.Status().Reloads == 2 })
	holds(t, c, "ES256", true)
	before := k.Status()
	eventually(t, "the same set again", func() bool { return k.Status().Fetches > before.Fetches+2 })
	if s := k.Status(); s.Reloads != 2 || s.LoadedAt != before.LoadedAt || !s.LastSuccessAt.After(before.LastSuccessAt) {
		t.Errorf("the same set made %+v of %+v", s, before)
	}
}

func TestAnUnknownKeyIDFetchesOnceAndThenWaitsForTheCoolDown(t *testing.T) {
	i := newIssuer(t, "ES256")
	k := i.follow(auth.KeyPace{CoolDown: 300 * time.Millisecond})
	c := newCache(t, k)
	i.publish("ES256", "EdDSA")
	holds(t, c, "EdDSA", true)
	asked := time.Now()
	i.publish("ES256", "EdDSA", "RS256")
	if holds(t, c, "RS256", false); time.Since(asked) > 250*time.Millisecond {
		t.Skip("too slow a machine for this test")
	}
	if got := i.fetches.Load(); got != 2 {
		t.Errorf("%d fetches, want 2", got)
	}
	eventually(t, "the end of the cool-down", func() bool { _, err := c.Verify(tokenOf(t, "RS256")); return err == nil })
}

func TestWhatNoURLCanHaveFetchesNothing(t *testing.T) {
	i := newIssuer(t, "ES256")
	v := newVerifier(t, withURL(i.follow(auth.KeyPace{})))
	s := signers()
	refused(t, v, s["HS256"].sign(t, "unknown", serviceWith()), "unknown key id")
	refused(t, v, s["EdDSA"].sign(t, "", serviceWith()), "names no key id")
	refused(t, v, sign(t, s["EdDSA"].method, s["EdDSA"].private, `{"alg":"EdDSA","kid":""}`, serviceWith()), "unknown key id")
	refused(t, v, encode(`{"alg":"PS512","kid":"x"}`)+"."+encode("{}")+".", "algorithm")
	accepted(t, v, hs256(t, serviceWith()))
	if got := i.fetches.Load(); got != 1 {
		t.Errorf("%d fetches, want the first one alone", got)
	}
}

// storm sends tokens with random key ids, and good ones among them.
func storm(t *testing.T, c *auth.Cache) (slowest, slowestGood time.Duration) {
	t.Helper()
	const tokens, senders = 5_000, 50
	good := tokenOf(t, "ES256")
	rest := strings.SplitN(tokenOf(t, "EdDSA"), ".", 2)[1]
	var mu sync.Mutex
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			var bad, fine time.Duration
			for n := range tokens / senders {
				began := time.Now()
				if _, err := c.Verify(encode(`{"alg":"EdDSA","kid":"`+uuid.NewString()+`"}`) + "." + rest); err == nil {
					t.Error("a random key id was accepted")
				}
				bad = max(bad, time.Since(began))
				if began = time.Now(); n%10 == 0 {
					if _, err := c.Verify(good); err != nil {
						t.Errorf("a good credential: %v", err)
					}
					fine = max(fine, time.Since(began))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			slowest, slowestGood = max(slowest, bad), max(slowestGood, fine)
		})
	}
	sending.Wait()
	return slowest, slowestGood
}

func TestAStormOfUnknownKeyIDsFetchesOncePerCoolDown(t *testing.T) {
	t.Run("in the usual minute", func(t *testing.T) {
		i := newIssuer(t, "ES256")
		c := newCache(t, i.follow(auth.KeyPace{}))
		began := time.Now()
		slowest, _ := storm(t, c)
		if got := i.fetches.Load(); got > 2 {
			t.Errorf("%d fetches, want the first and one more", got)
		}
		t.Logf("5,000 tokens in %v, the slowest %v", time.Since(began), slowest)
	})
	t.Run("over several cool-downs", func(t *testing.T) {
		const coolDown = 20 * time.Millisecond
		i := newIssuer(t, "ES256")
		c := newCache(t, i.follow(auth.KeyPace{CoolDown: coolDown}))
		began := time.Now()
		storm(t, c)
		if got, most := i.fetches.Load(), 2+int64(time.Since(began)/coolDown); got > most {
			t.Errorf("%d fetches, want %d at most", got, most)
		}
	})
	t.Run("while the URL does not answer", func(t *testing.T) {
		i := newIssuer(t, "ES256")
		release := make(chan struct{})
		c := newCache(t, i.follow(auth.KeyPace{Patience: 300 * time.Millisecond, Timeout: never}))
		i.does(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
		defer close(release)
		began := time.Now()
		_, good := storm(t, c)
		all := time.Since(began)
		if got := i.fetches.Load(); got > 2 {
			t.Errorf("%d fetches, want the first and one more", got)
		}
		// In sequence, the tokens would have waited 100 times for each sender.
		if all > 10*time.Second || good > 5*time.Second {
			t.Errorf("the storm took %v, a good credential up to %v", all, good)
		}
		t.Logf("5,000 tokens in %v, good ones up to %v", all, good)
	})
}

func TestAFetchUnderWayHoldsUpNobodyElse(t *testing.T) {
	i := newIssuer(t, "ES256")
	k := i.follow(auth.KeyPace{Patience: never, Timeout: never})
	c := newCache(t, k)
	arrived := make(chan struct{})
	i.does(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = c.Verify(tokenOf(t, "EdDSA")) })
	<-arrived
	holds(t, c, "ES256", true)                                                    // not remembered: verified
	holds(t, c, "ES256", true)                                                    // remembered
	refused(t, newVerifier(t, withURL(k)), hs256(t, claimsOf("emperor")), "role") // by a configured key
	k.Refresh()
	if s := k.Status(); s.Fetches != 1 {
		t.Errorf("the status is %+v", s)
	}
	if err := k.Close(); err != nil { // ends the fetch, and with it the wait
		t.Error(err)
	}
	waiting.Wait()
	holds(t, c, "ES256", true)
	holds(t, c, "RS256", false)
}

func TestTheURLMayBeDownAtTheStart(t *testing.T) {
	i := newIssuer(t)
	i.says(http.StatusServiceUnavailable, "")
	k := i.follow(auth.KeyPace{Retry: 10 * time.Millisecond, CoolDown: 50 * time.Millisecond})
	v := newVerifier(t, withURL(k))
	refused(t, v, tokenOf(t, "ES256"), "unknown key id")
	accepted(t, v, hs256(t, serviceWith()))
	if s := k.Status(); s.Failures == 0 || !strings.Contains(s.LastError, "status 503") || s.Version != "" || s.Keys != 0 || !s.LoadedAt.IsZero() {
		t.Errorf("the status is %+v", s)
	}
	i.publish("ES256")
	eventually(t, "a first set", func() bool { return k.Status().Keys == 1 })
	accepted(t, v, tokenOf(t, "ES256"))
	if s := k.Status(); s.LastError != "" || s.Reloads != 0 {
		t.Errorf("the status is %+v", s)
	}
}

func TestASlowURLDelaysTheStartForAShortTimeOnly(t *testing.T) {
	i := newIssuer(t)
	i.does(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	began := time.Now()
	k := i.follow(auth.KeyPace{Patience: 50 * time.Millisecond, Timeout: 200 * time.Millisecond, Retry: never})
	if waited := time.Since(began); waited > 5*time.Second {
		t.Errorf("opening took %v", waited)
	}
	eventually(t, "the time-out", func() bool { return k.Status().LastError == "there was no complete answer in time" })
}

func TestRefreshFetchesWithinTheCoolDown(t *testing.T) {
	i := newIssuer(t, "ES256")
	k := i.follow(auth.KeyPace{CoolDown: never})
	c := newCache(t, k)
	holds(t, c, "EdDSA", false) // and now it is cooling down
	holds(t, c, "ES256", true)
	i.publish("EdDSA")
	k.Refresh()
	eventually(t, "the new set", func() bool { return k.Status().Reloads == 1 })
	holds(t, c, "EdDSA", true)
	holds(t, c, "ES256", false)
}

func TestRefreshDuringAFetchFetchesOnceMore(t *testing.T) {
	i := newIssuer(t, "ES256")
	k := i.follow(auth.KeyPace{Timeout: never})
	c := newCache(t, k)
	arrived, release := make(chan struct{}), make(chan struct{})
	i.does(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = w.Write(setOf(i.t, "ES256")) // what was right when it was asked for
	})
	k.Refresh()
	<-arrived
	i.publish("EdDSA")
	k.Refresh()
	k.Refresh()
	close(release)
	eventually(t, "the new set", func() bool { return k.Status().Reloads == 1 })
	if got := i.fetches.Load(); got != 3 {
		t.Errorf("%d fetches, want the first, the slow one and one more", got)
	}
	holds(t, c, "ES256", false)
	holds(t, c, "EdDSA", true)
}

func TestAConfiguredKeyComesBeforeOneOfTheURL(t *testing.T) {
	ours, theirs := signers()["EdDSA"], signer{method: signers()["EdDSA"].method, private: fuzzEdKey, public: fuzzEdPublicKey}
	i := newIssuer(t)
	i.says(http.StatusOK, string(jwks(t,
		jwk(t, theirs.public, "same"), jwk(t, theirs.public, "other"), jwk(t, theirs.public, ""),
		jwk(t, publicKey("ES256"), "same"))))
	v := newVerifier(t, withURL(i.follow(auth.KeyPace{})), withSet(jwks(t, jwk(t, ours.public, "same"), jwk(t, ours.public, ""))))
	accepted(t, v, ours.sign(t, "same", serviceWith()))
	refused(t, v, theirs.sign(t, "same", serviceWith()), "signature is not valid")
	accepted(t, v, theirs.sign(t, "other", serviceWith()))
	accepted(t, v, signers()["ES256"].sign(t, "same", serviceWith())) // same id, another algorithm: another key
	accepted(t, v, ours.sign(t, "", serviceWith()))                   // without an id: side by side
	accepted(t, v, theirs.sign(t, "", serviceWith()))
}

func TestANilKeyURLHasNoKeys(t *testing.T) {
	var k *auth.KeyURL
	k.Refresh()
	if s := k.Status(); s != (auth.KeyURLStatus{}) {
		t.Errorf("the status is %+v", s)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}
