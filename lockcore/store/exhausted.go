package store

import (
	"context"
	"sync"
	"time"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/ratelimit"
)

// Exhausted refuses a project that is known to be over its quota from memory,
// until the window ends on the store's clock: a flood from one project must not
// cost the others. A charge with another limit than the one that was exceeded,
// because the policy changed, goes to the store again.
type Exhausted struct {
	Store

	mu       sync.RWMutex
	reset    time.Time // end of the window that all projects are exhausted in
	projects map[ratelimit.Account]exhaustion
}

// exhaustion is a refusal by the store. When it was sent and received bound
// the store's clock from both sides without trusting our own to agree with it.
type exhaustion struct {
	Decision
	sent, received time.Time
}

// NewExhausted remembers for s.
func NewExhausted(s Store) *Exhausted {
	return &Exhausted{Store: s, projects: map[ratelimit.Account]exhaustion{}}
}

// Decide implements Store.
func (e *Exhausted) Decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (Decision, error) {
	if d, refused := e.recall(charge); refused {
		return d, nil
	}
	sent := time.Now()
	d, err := e.Store.Decide(ctx, charge, command)
	if err == nil && !d.Quota.Admitted {
		e.remember(charge.Account(), exhaustion{Decision: d, sent: sent, received: time.Now()})
	}
	return d, err
}

func (e *Exhausted) recall(charge ratelimit.Charge) (Decision, bool) {
	e.mu.RLock()
	x, known := e.projects[charge.Account()]
	e.mu.RUnlock()
	// The store's clock is at most this far: better to ask the store a moment too early than too late.
	if !known || x.Quota.Limit != charge.Limit || !x.At.Add(time.Since(x.sent)).Before(x.Quota.Reset) {
		return Decision{}, false
	}
	// It is at least this far: sleeping for what is left from here leads into the next window.
	x.At = x.At.Add(time.Since(x.received))
	return x.Decision, true
}

// remember keeps the refusals of one window only, so memory is bounded by the
// projects that can exceed their quotas within a minute.
func (e *Exhausted) remember(account ratelimit.Account, x exhaustion) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !x.Quota.Reset.Equal(e.reset) {
		e.reset = x.Quota.Reset
		clear(e.projects)
	}
	e.projects[account] = x
}
