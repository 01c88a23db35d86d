// Package lockcore holds the lease rule: what acquire, renew, release, read
// and force release do to a lock.
//
// A lock is a name within a project. Who acquires it holds a lease: it is the
// owner, known by a secret lock token, until the lease's expiry E. Every new
// lease gets a fencing token higher than all before it, so that a resource
// behind the lock can refuse a late writer.
//
// Step is the whole rule: a pure function of the state, the command and the
// moment. It knows nothing of HTTP, Redis or quotas. It is written twice:
// step.go for the embedded store, and lease.lua beside it for Redis. The cases
// in testdata/step.json hold the two together.
//
// # Phases
//
// Time t is the store's clock; margin and grace are one second each.
//
//	free     no record, or t ≥ E + grace    anyone may acquire
//	held     t < E − margin                 the owner works and extends
//	closing  E − margin ≤ t < E             the owner finishes; it can no longer extend
//	grace    E ≤ t < E + grace              the owner must have stopped; others still wait
//
// The two seconds around E absorb what clocks and networks do: an owner never
// extends a lease whose answer might come too late, and nobody takes over in
// the second in which a slow owner may still believe in its lease.
//
// The record of an expired lease is remembered for five minutes after grace. It
// means nothing to the lock, which is free; but whoever else acquires it within
// that time is told to have taken it over, which is a sign of an owner that died
// or was too slow.
//
// # State table
//
//	               free                     other's lease            own, held                own, closing or grace
//	acquire        new lease                lock_held                E = min(t+ttl, D)        lock_ownership_lost
//	renew          lock_ownership_lost      lock_ownership_lost      E = min(t+ttl, D)        lock_ownership_lost
//	release        nothing to do            lock_ownership_lost      removed                  removed
//	read           free                     E, fencing token         E, fencing token         E, fencing token
//	force release  nothing to do            removed                  removed                  removed
//
// A new lease starts with E = t + ttl, a new fencing token and the deadline
// D = t + 90 days. Nothing moves D: acquiring again and renewing stop at it. E
// is absolute, so a shorter TTL shortens the lease. A refused command changes
// nothing.
//
// # Fencing tokens
//
// A project remembers the last token it gave. The next one is
// max(last + 1, t in microseconds since 1970): it rises across releases,
// expiry and restarts, and, as far as clocks allow, across the loss of the
// store's data. It stays below 2^53, exact for JavaScript, until the year 2255.
//
// # Units
//
// Expiries and deadlines are whole milliseconds of the store's clock: what the
// caller is told is exactly what is decided. Fencing tokens come from its
// microseconds.
package lockcore
