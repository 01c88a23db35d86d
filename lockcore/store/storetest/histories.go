package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

// model is what a store must be equal to: the two rules over plain maps.
type model struct {
	windows map[uuid.UUID]ratelimit.Window
	fences  map[uuid.UUID]int64
	leases  map[lock]lockcore.Lease
}

type lock struct {
	project uuid.UUID
	key     string
}

func (m *model) decide(charge ratelimit.Charge, command lockcore.Command, now time.Time) store.Decision {
	d := store.Decision{At: now}
	m.windows[charge.Project], d.Quota = ratelimit.Take(m.windows[charge.Project], charge, now)
	if !d.Quota.Admitted {
		return d
	}
	at := lock{charge.Project, command.Key}
	var after lockcore.State
	after, d.Outcome = lockcore.Step(lockcore.State{Lease: m.leases[at], LastFence: m.fences[charge.Project]}, command, now)
	m.leases[at], m.fences[charge.Project] = after.Lease, after.LastFence
	return d
}

// testRandomHistories plays random commands, and moves time between them to
// where phases meet, on the store and on the model. Beside the equality it
// checks what must hold whatever the rules say: a lock has one owner at a time
// and its tokens only rise.
func testRandomHistories(t *testing.T, d *driver) {
	d.limit = 30
	moves := []time.Duration{
		0, time.Microsecond, time.Millisecond, 999 * time.Millisecond, time.Second,
		4 * time.Second, 5 * time.Second, 6*time.Second - time.Microsecond, 6 * time.Second, time.Minute,
		lockcore.Memory, lockcore.Memory + 6*time.Second - time.Microsecond, lockcore.Memory + 6*time.Second,
		lockcore.MaxLifetime - 3*time.Second,
	}
	elapsed := time.Duration(0)
	rapid.Check(t, func(r *rapid.T) {
		m := &model{map[uuid.UUID]ratelimit.Window{}, map[uuid.UUID]int64{}, map[lock]lockcore.Lease{}}
		projects := []uuid.UUID{uuid.New(), uuid.New()} // new ones: each history starts from nothing
		tokens := map[lock]lockcore.Outcome{}
		for range rapid.IntRange(1, 60).Draw(r, "commands") {
			elapsed += rapid.SampledFrom(moves).Draw(r, "time passes")
			d.at(elapsed)
			charge := ratelimit.Charge{Project: rapid.SampledFrom(projects).Draw(r, "project"), Limit: d.limit}
			command := lockcore.Command{
				Op:    lockcore.Op(rapid.IntRange(0, int(lockcore.ForceRelease)).Draw(r, "op")), //nolint:gosec // small
				Key:   rapid.SampledFrom([]string{"a", "b"}).Draw(r, "key"),
				Owner: rapid.SampledFrom([]uuid.UUID{Me, Other}).Draw(r, "owner"),
				TTL:   rapid.SampledFrom([]time.Duration{lockcore.MinTTL, 7 * time.Second, lockcore.MaxTTL}).Draw(r, "ttl"),
			}
			got := d.decideKey(charge.Project, command.Key, command.Op, command.Owner, command.TTL)
			if want := m.decide(charge, command, d.now); got != want {
				r.Fatalf("%v by %v at T%+v:\n got %+v\nwant %+v", command.Op, command.Owner, elapsed, got, want)
			}
			at := lock{charge.Project, command.Key}
			if Gives(got.Outcome.Verdict) {
				if got.Outcome.Fence < tokens[at].Fence {
					r.Fatalf("token %d of %q after %d", got.Outcome.Fence, command.Key, tokens[at].Fence)
				}
				tokens[at] = got.Outcome
			}
		}
	})
}

// Gives reports whether a verdict makes the caller the owner.
func Gives(v lockcore.Verdict) bool {
	return v == lockcore.Granted || v == lockcore.TakenOver || v == lockcore.Extended
}
