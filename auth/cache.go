package auth

import (
	"crypto/sha256"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// cacheSize is how many credentials a Cache remembers.
const cacheSize = 10_000

// Cache remembers what verified credentials proved, so that a signature is
// verified once and not with every request. It knows a credential by the hash
// of all of it, forgets it when it expires, and never remembers a refusal. It
// is safe for concurrent use.
type Cache struct {
	verifier *Verifier
	now      func() time.Time
	proved   *lru.Cache[[sha256.Size]byte, Principal]
}

// NewCache puts a cache before a Verifier.
func NewCache(v *Verifier, now func() time.Time) (*Cache, error) {
	proved, err := lru.New[[sha256.Size]byte, Principal](cacheSize)
	if err != nil {
		return nil, err
	}
	return &Cache{verifier: v, now: now, proved: proved}, nil
}

// Verify is Verifier.Verify, from memory where possible.
func (c *Cache) Verify(credential string) (Principal, error) {
	if len(credential) > MaxLength {
		return Principal{}, refuse(tooLong)
	}
	key := sha256.Sum256([]byte(credential))
	if p, found := c.proved.Get(key); found && !p.expired(c.now()) {
		return p, nil
	}
	p, err := c.verifier.Verify(credential)
	if err != nil {
		c.proved.Remove(key)
		return Principal{}, err
	}
	c.proved.Add(key, p)
	return p, nil
}

// Empty forgets everything.
func (c *Cache) Empty() { c.proved.Purge() }

func (p Principal) expired(now time.Time) bool {
	return !p.ExpiresAt.IsZero() && !now.Before(p.ExpiresAt)
}
