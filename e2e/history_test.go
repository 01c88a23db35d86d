package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// possession is one lease as its owner saw it, by the local clock.
type possession struct {
	key   string
	owner uuid.UUID
	fence int64
	from  time.Time // the answer to the acquire was received
	until time.Time // the lease ended, or its owner began to release it
}

func (p possession) String() string {
	const layout = "05.000000"
	return fmt.Sprintf("%s of %.8s with token %d, %s to %s",
		p.key, p.owner, p.fence, p.from.Format(layout), p.until.Format(layout))
}

// judgeHistory finds what must never happen: two owners at a time, and a token
// that does not rise. Possessions of one key are judged in the order in which
// they were granted.
func judgeHistory(history []possession) (faults []error) {
	byKey := map[string][]possession{}
	for _, p := range history {
		byKey[p.key] = append(byKey[p.key], p)
	}
	for _, all := range byKey {
		slices.SortFunc(all, func(a, b possession) int { return a.from.Compare(b.from) })
		faults = append(faults, judgeKey(all)...)
	}
	return faults
}

func judgeKey(all []possession) (faults []error) {
	last := all[0] // the possession that ends last of those so far
	for i, p := range all[1:] {
		if p.from.Before(last.until) && p.owner != last.owner {
			faults = append(faults, fmt.Errorf("two owners at a time: %v; %v", last, p))
		}
		if before := all[i]; p.fence <= before.fence {
			faults = append(faults, fmt.Errorf("the token does not rise: %v; %v", before, p))
		}
		if p.until.After(last.until) {
			last = p
		}
	}
	return faults
}

func TestTheJudgeOfHistoriesRejectsWhatMustNeverHappen(t *testing.T) {
	start, a, b := time.Now(), uuid.New(), uuid.New()
	had := func(key string, owner uuid.UUID, fence int64, from, until int) possession {
		at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
		return possession{key, owner, fence, at(from), at(until)}
	}
	for name, c := range map[string]struct {
		history []possession
		faults  int
	}{
		"nothing":                        {nil, 0},
		"one after the other":            {[]possession{had("k", a, 1, 0, 10), had("k", b, 2, 10, 20), had("k", a, 3, 30, 40)}, 0},
		"two keys at a time":             {[]possession{had("k", a, 2, 0, 10), had("l", b, 1, 5, 20)}, 0},
		"recorded in another order":      {[]possession{had("k", b, 2, 10, 20), had("k", a, 1, 0, 10)}, 0},
		"ended before its answer came":   {[]possession{had("k", a, 1, 10, 5), had("k", b, 2, 10, 20)}, 0},
		"two owners at a time":           {[]possession{had("k", a, 1, 0, 10), had("k", b, 2, 9, 20)}, 1},
		"one inside of another":          {[]possession{had("k", a, 1, 0, 30), had("k", b, 2, 10, 20)}, 1},
		"the third meets the first":      {[]possession{had("k", a, 1, 0, 30), had("k", b, 2, 10, 20), had("k", b, 3, 25, 28)}, 2},
		"the same token twice":           {[]possession{had("k", a, 1, 0, 10), had("k", b, 1, 10, 20)}, 1},
		"a lower token":                  {[]possession{had("k", a, 2, 0, 10), had("k", b, 1, 10, 20)}, 1},
		"a lower token in another order": {[]possession{had("k", b, 1, 10, 20), had("k", a, 2, 0, 10)}, 1},
		"both":                           {[]possession{had("k", a, 2, 0, 10), had("k", b, 1, 5, 20)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if faults := judgeHistory(c.history); len(faults) != c.faults {
				t.Errorf("%d faults, want %d: %v", len(faults), c.faults, faults)
			}
		})
	}
}
