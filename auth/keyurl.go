package auth

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// KeyURL holds the keys of the JSON Web Key Set at a URL and fetches the set
// again and again until Close. A nil *KeyURL has no keys. All methods are safe
// for concurrent use.
//
// The set is fetched every 15 minutes, and after a failure after 1, 2, 4 s and
// so on, at most a minute. A credential with an unknown key id has it fetched
// too, once a minute at most; a request waits for the fetch that is under way
// until a second after that began, and only if its key is not there. Nobody
// else waits.
//
// What the URL answers replaces the set as a whole: a key that is gone no
// longer counts. If it cannot be reached, or answers anything but a set by the
// rules of this package, the last good set stays in force, however old.
type KeyURL struct {
	url     *url.URL
	client  *http.Client
	pace    keyPace
	current atomic.Pointer[publishedSet]

	life    context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	next    *time.Timer // of the next fetch

	mu       sync.Mutex
	status   KeyURLStatus
	fetching bool
	again    bool            // fetch once more: the answer under way may be older than the wish
	fetch    context.Context // over when the last fetch is, or patience with it
	fetched  context.CancelFunc
	askedAt  time.Time // of the last fetch for the sake of an unknown key id
	failed   int       // fetches in a row
}

// KeyURLStatus says where a key set at a URL stands. Times are those of this
// process, in UTC.
type KeyURLStatus struct {
	Host          string    `json:"host"`                     // of the URL; empty without one. The rest of it may be confidential
	Version       string    `json:"version"`                  // of the set in force: the start of its SHA-256, in hex; empty without one
	Keys          int       `json:"keys"`                     // in force
	LoadedAt      time.Time `json:"loaded_at,omitzero"`       // when they came into force
	Reloads       int       `json:"reloads"`                  // sets that came into force after the first
	Fetches       int       `json:"fetches"`                  // that have ended, failures included
	Failures      int       `json:"failures"`                 // fetches that brought no usable set
	LastError     string    `json:"last_error"`               // empty when the last fetch succeeded
	LastAttemptAt time.Time `json:"last_attempt_at,omitzero"` // when the last fetch ended
	LastSuccessAt time.Time `json:"last_success_at,omitzero"` // when the URL last answered with the set in force
}

// keyPace is how often a set is fetched, and who waits for it.
type keyPace struct {
	refresh  time.Duration // from a success to the next fetch
	retry    time.Duration // from a failure to the next fetch, doubled with each further failure
	coolDown time.Duration // between fetches for unknown key ids; also the bound of retry
	patience time.Duration // of whoever waits, from the beginning of a fetch
	timeout  time.Duration // of a fetch
}

var usualKeyPace = keyPace{
	refresh:  15 * time.Minute,
	retry:    time.Second,
	coolDown: time.Minute,
	patience: time.Second,
	timeout:  10 * time.Second,
}

// OpenKeyURL follows the key set at a URL that [ParseKeyURL] accepts. It waits
// a second for the first set. To have none then is no error: it is logged, and
// tried again.
func OpenKeyURL(address string) (*KeyURL, error) {
	return openKeyURL(address, usualKeyPace)
}

func openKeyURL(address string, pace keyPace) (*KeyURL, error) {
	parsed, err := ParseKeyURL(address)
	if err != nil {
		return nil, err
	}
	k := &KeyURL{url: parsed, client: newKeyClient(), pace: pace, next: time.NewTimer(pace.refresh)}
	k.status.Host = parsed.Host
	k.life, k.stop = context.WithCancel(context.Background())
	k.mu.Lock()
	first := k.begin()
	k.mu.Unlock()
	k.running.Go(k.run)
	<-first.Done()
	return k, nil
}

// Close ends the fetching and waits for that. The last set stays in force.
func (k *KeyURL) Close() error {
	if k == nil {
		return nil
	}
	k.stop()
	k.running.Wait()
	k.next.Stop()
	k.client.CloseIdleConnections()
	return nil
}

// Status says where the set stands.
func (k *KeyURL) Status() KeyURLStatus {
	if k == nil {
		return KeyURLStatus{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// Refresh has the set fetched now and does not wait for it.
func (k *KeyURL) Refresh() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetching {
		k.again = true
		return
	}
	k.begin()
}

// set is the set in force, nil if there is none.
func (k *KeyURL) set() *publishedSet {
	if k == nil {
		return nil
	}
	return k.current.Load()
}

// seek is for a key id that is not in the set: it returns when another set may
// be there, or waiting for one takes too long. During the cool-down it returns
// at once.
func (k *KeyURL) seek() {
	k.mu.Lock()
	if now := time.Now(); !k.fetching && now.Sub(k.askedAt) >= k.pace.coolDown {
		k.askedAt = now
		k.begin()
	}
	fetch := k.fetch
	k.mu.Unlock()
	<-fetch.Done()
}

// begin a fetch, which run carries out; none is under way. The caller holds mu.
func (k *KeyURL) begin() context.Context {
	k.fetching = true
	k.fetch, k.fetched = context.WithTimeout(k.life, k.pace.patience)
	k.next.Reset(0)
	return k.fetch
}

// run carries out one fetch at a time, so that the last answer counts.
func (k *KeyURL) run() {
	for {
		select {
		case <-k.life.Done():
			return
		case <-k.next.C:
		}
		k.mu.Lock()
		if !k.fetching { // otherwise somebody has begun this one
			k.begin()
		}
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(k.life, k.pace.timeout)
		set, err := fetchSet(ctx, k.client, k.url)
		cancel()
		if k.life.Err() != nil {
			return
		}
		k.end(set, err)
	}
}

// end the fetch that is under way.
func (k *KeyURL) end(set *publishedSet, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Fetches++
	k.status.LastAttemptAt = time.Now().UTC()
	if err != nil {
		k.refuse(err)
	} else {
		k.enforce(set)
	}
	k.next.Reset(k.pause())
	k.fetching = false
	k.fetched()
	if k.again {
		k.again = false
		k.begin()
	}
}

func (k *KeyURL) pause() time.Duration {
	if k.failed == 0 {
		return k.pace.refresh
	}
	const most = 16 // doublings, far beyond the cool-down and far from an overflow
	return min(k.pace.retry<<min(k.failed-1, most), k.pace.coolDown)
}

func (k *KeyURL) enforce(set *publishedSet) {
	s, before := &k.status, k.current.Load()
	recovered := k.failed > 0
	k.failed, s.LastError, s.LastSuccessAt = 0, "", s.LastAttemptAt
	switch {
	case before == nil || before.hash != set.hash:
		k.current.Store(set)
		s.Version, s.Keys, s.LoadedAt = set.version(), set.size(), s.LastAttemptAt
		if before != nil {
			s.Reloads++
		}
		slog.Info("key set in force", "host", s.Host, "version", s.Version, "keys", s.Keys)
	case recovered:
		slog.Info("the key set can be fetched again, and is the one in force", "host", s.Host, "version", s.Version)
	}
}

// refuse complains aloud of what is new only: there will be many attempts.
func (k *KeyURL) refuse(err error) {
	s, level := &k.status, slog.LevelError
	if s.LastError == err.Error() {
		level = slog.LevelDebug
	}
	k.failed++
	s.Failures++
	s.LastError = err.Error()
	slog.Log(context.Background(), level, "no usable key set at GATEWAY_JWKS_URL: the last good one, if any, stays in force",
		"host", s.Host, "error", err, "version", s.Version, "keys", s.Keys)
}
