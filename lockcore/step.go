package lockcore

import (
	_ "embed"
	"time"

	"github.com/google/uuid"
)

// The fixed times of the protocol.
const (
	Margin      = time.Second         // before E: the owner can no longer extend
	Grace       = time.Second         // after E: nobody can take over yet
	MinTTL      = 5 * time.Second     // shortest lease
	MaxTTL      = MaxLifetime         // longest TTL of one acquire or renew
	MaxLifetime = 90 * 24 * time.Hour // from acquisition to the deadline

	// Memory is how long after E + grace an expired lease is remembered. It
	// means nothing to the lock, which is free; it tells who gets it then that
	// this is a takeover.
	Memory = 5 * time.Minute
)

// Script is the same rule in Lua: a chunk that defines step().
//
//go:embed lease.lua
var Script string

// Lease is the record of a lock. The zero Lease is no record.
type Lease struct {
	Owner     uuid.UUID // lock token: proves ownership, never shown
	Fence     int64     // fencing token
	ExpiresAt time.Time // E, whole milliseconds
	Deadline  time.Time // D, whole milliseconds
}

// State is what a command acts on.
type State struct {
	Lease     Lease // of the command's key
	LastFence int64 // last fencing token given in the project
}

// Command is one operation on one key.
type Command struct {
	Op    Op
	Key   string
	Owner uuid.UUID     // Acquire, Renew, Release: the caller's lock token, never nil
	TTL   time.Duration // Acquire, Renew: MinTTL to MaxTTL
}

// Outcome is what became of a command.
type Outcome struct {
	Verdict   Verdict
	Fence     int64     // of the lease in force, if the verdict tells of it:
	ExpiresAt time.Time // Granted, TakenOver, Extended, LockHeld, and Observed unless the lock is free
}

// Held reports whether the outcome tells of a lease in force.
func (o Outcome) Held() bool { return !o.ExpiresAt.IsZero() }

// AvailableAt is when the lock becomes free if its holder does nothing more.
func (o Outcome) AvailableAt() time.Time { return o.ExpiresAt.Add(Grace) }

// Phase of the lease at now.
func (l Lease) Phase(now time.Time) Phase {
	switch {
	case l == Lease{} || !now.Before(l.ExpiresAt.Add(Grace)):
		return Free
	case !now.Before(l.ExpiresAt):
		return InGrace
	case !now.Before(l.ExpiresAt.Add(-Margin)):
		return Closing
	default:
		return Held
	}
}

// Forgotten reports whether a lease means nothing any more at now: its record
// can go.
func (l Lease) Forgotten(now time.Time) bool {
	return l == Lease{} || !now.Before(l.ExpiresAt.Add(Grace+Memory))
}

// Step applies a command at now and returns the state after it. It is the
// state table of the package documentation.
func Step(s State, c Command, now time.Time) (State, Outcome) {
	phase := s.Lease.Phase(now)
	own := s.Lease.Owner == c.Owner
	switch c.Op {
	case Acquire:
		switch {
		case phase == Free:
			return grant(s, c, now)
		case !own:
			return s, shown(LockHeld, s.Lease)
		case phase == Held:
			return extend(s, c, now)
		}
		return s, Outcome{Verdict: OwnershipLost}
	case Renew:
		if phase == Held && own {
			return extend(s, c, now)
		}
		return s, Outcome{Verdict: OwnershipLost}
	case Release:
		if phase != Free && !own {
			return s, Outcome{Verdict: OwnershipLost}
		}
		return remove(s), Outcome{Verdict: Released}
	case ForceRelease:
		return remove(s), Outcome{Verdict: Released}
	case Read:
		if phase == Free {
			return s, Outcome{Verdict: Observed}
		}
		return s, shown(Observed, s.Lease)
	case None:
	}
	return s, Outcome{}
}

func grant(s State, c Command, now time.Time) (State, Outcome) {
	verdict := Granted
	if s.Lease.Owner != c.Owner && !s.Lease.Forgotten(now) {
		verdict = TakenOver
	}
	acquired := now.Truncate(time.Millisecond)
	s.LastFence = max(s.LastFence+1, now.UnixMicro())
	s.Lease = Lease{
		Owner:     c.Owner,
		Fence:     s.LastFence,
		ExpiresAt: acquired.Add(c.TTL),
		Deadline:  acquired.Add(MaxLifetime),
	}
	return s, shown(verdict, s.Lease)
}

func extend(s State, c Command, now time.Time) (State, Outcome) {
	s.Lease.ExpiresAt = now.Truncate(time.Millisecond).Add(c.TTL)
	if s.Lease.ExpiresAt.After(s.Lease.Deadline) {
		s.Lease.ExpiresAt = s.Lease.Deadline
	}
	return s, shown(Extended, s.Lease)
}

func remove(s State) State {
	s.Lease = Lease{}
	return s
}

func shown(v Verdict, l Lease) Outcome {
	return Outcome{Verdict: v, Fence: l.Fence, ExpiresAt: l.ExpiresAt}
}
