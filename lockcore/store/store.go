// Package store is the contract between the gateway and whatever keeps its
// locks.
//
// A store owns the transaction in which both rules meet: it reads the project's
// window and the key's lease, applies ratelimit.Take and lockcore.Step at one
// moment of one clock, its own, and writes both. The contract is written on
// Store, once; package storetest holds every implementation to it.
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/ratelimit"
)

// Store decides requests. Implementations are safe for concurrent use.
type Store interface {
	// Decide counts the request against its project's window and, if it is
	// admitted, applies the command to the project's key. Both happen in one
	// transaction at one moment of the store's clock, and are as durable as
	// the store gets before Decide returns.
	//
	// A refusal by one of the rules is a Decision, not an error. An error means
	// that the store could not decide: it wraps ErrNotApplied when nothing can
	// have happened, otherwise ErrUnknown. Decide never repeats a command that
	// may have reached the store, and returns soon after ctx ends.
	Decide(ctx context.Context, charge ratelimit.Charge, command lockcore.Command) (Decision, error)

	// Ping reports whether the store can decide now, and safely: it takes the
	// same way as Decide.
	Ping(ctx context.Context) error

	// Close releases the store. Calls that are still under way get no more time.
	Close() error
}

// Decision is what became of one request.
type Decision struct {
	At      time.Time        // the moment, on the store's clock
	Quota   ratelimit.Result // where the window stands
	Outcome lockcore.Outcome // Nothing when the quota did not admit the request
}

var (
	// ErrNotApplied is an operation that the store did not carry out.
	ErrNotApplied = errors.New("the store did not carry out the operation")
	// ErrDamaged is an ErrNotApplied for a reason that lies in the records of one
	// project, and says nothing about the store.
	ErrDamaged = fmt.Errorf("%w: a record is damaged", ErrNotApplied)
	// ErrMoving is an ErrNotApplied because one project's records are on their
	// way to another node, and says nothing about the store either.
	ErrMoving = fmt.Errorf("%w: its records are being moved", ErrNotApplied)
	// ErrDown is an ErrNotApplied without asking a store that is known to be down.
	ErrDown = fmt.Errorf("%w: it is known to be down", ErrNotApplied)
	// ErrUnknown is an operation of which nobody can tell whether it happened.
	ErrUnknown = errors.New("whether the store carried out the operation is unknown")
)

// Probe is how stores answer Ping: a real decision, on a project that no
// credential can name, so that whatever would refuse an acquire refuses this.
func Probe(ctx context.Context, s Store) error {
	charge := ratelimit.Charge{Project: uuid.Nil, Limit: math.MaxInt32}
	_, err := s.Decide(ctx, charge, lockcore.Command{
		Op: lockcore.Acquire, Key: "ping", Owner: uuid.Max, TTL: lockcore.MinTTL,
	})
	return err
}
