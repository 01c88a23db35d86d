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
// of all of it, forgets it when it expires or when the keys at the KeyURL change,
// and never remembers a refusal. It is safe for concurrent use.
type Cache struct {
	verifier *Verifier
	now      func() time.Time
	proved   *lru.Cache[[sha256.Size]byte, proof]
}

// proof is what a credential proved, and which set of the KeyURL was in force
// before it did. Under another set it has to prove it again: its key may be
// gone. Keeping the set, rather than forgetting all when it changes, covers
// whoever verifies while it changes.
type proof struct {
	Principal

	under *publishedSet
}

// NewCache puts a cache before a Verifier.
func NewCache(v *Verifier, now func() time.Time) (*Cache, error) {
	proved, err := lru.New[[sha256.Size]byte, proof](cacheSize)
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
	set := c.verifier.keyURL.set()
	if p, found := c.proved.Get(key); found && p.under == set && !p.expired(c.now()) {
		return p.Principal, nil
	}
	p, err := c.verifier.Verify(credential)
	if err != nil {
		c.proved.Remove(key)
		return Principal{}, err
	}
	c.proved.Add(key, proof{p, set})
	return p, nil
}

// Empty forgets everything.
func (c *Cache) Empty() { c.proved.Purge() }

func (p Principal) expired(now time.Time) bool {
	return !p.ExpiresAt.IsZero() && !now.Before(p.ExpiresAt)
}
