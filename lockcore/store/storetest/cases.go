// Package storetest holds stores and rules to their contracts: the cases that
// Go and Lua answer alike, and the conformance suite that every store runs.
package storetest

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/ratelimit"
)

// T is the moment around which tests happen: the first minute after
// microseconds pass 2^52, in 2112. Numbers there show whether a language keeps
// every digit, and a Redis under test expires nothing by its own clock.
var T = time.UnixMicro(1 << 52).Add(time.Minute).Truncate(time.Minute).UTC()

// The lock tokens of tests.
var (
	Me    = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	Other = uuid.MustParse("22222222-2222-4222-8222-222222222222")
)

// StepCase is one case of lockcore/testdata/step.json.
type StepCase struct {
	Name    string
	Now     time.Time
	Before  lockcore.State
	Command lockcore.Command
	After   lockcore.State
	Outcome lockcore.Outcome
}

// TakeCase is one case of ratelimit/testdata/window.json.
type TakeCase struct {
	Name     string
	Now      time.Time
	Before   ratelimit.Window
	Limit    int64
	After    ratelimit.Window
	Admitted bool
	Used     int64
}

// In the files, moments are distances from T: milliseconds for leases,
// microseconds for fencing tokens and windows.
type (
	jsonLease struct {
		Owner                    string
		Fence, Expires, Deadline int64
	}
	jsonState struct {
		Lease *jsonLease
		Last  *int64
	}
	jsonStep struct {
		jsonState
		Name, Op   string
		Micro, TTL int64
		Want       struct {
			Verdict        string
			Fence, Expires *int64
		}
		After *jsonState
	}
	jsonWindow struct{ Start, Count int64 }
	jsonTake   struct {
		Name       string
		Window     *jsonWindow
		Limit, Now int64
		Want       struct {
			Admitted bool
			Used     int64
		}
		After jsonWindow
	}
)

// StepCases reads the cases of the lease rule.
func StepCases(t *testing.T, path string) []StepCase {
	t.Helper()
	var cases []StepCase
	for _, j := range read[jsonStep](t, path) {
		op, err := lockcore.ParseOp(j.Op)
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := lockcore.ParseVerdict(j.Want.Verdict)
		if err != nil {
			t.Fatal(err)
		}
		c := StepCase{
			Name:    j.Name,
			Now:     micros(j.Micro),
			Before:  j.state(),
			Command: lockcore.Command{Op: op, Key: "key", Owner: Me, TTL: time.Duration(j.TTL) * time.Millisecond},
			Outcome: lockcore.Outcome{Verdict: verdict},
		}
		c.After = c.Before
		if j.After != nil {
			c.After = j.After.state()
		}
		if j.Want.Expires != nil {
			c.Outcome.Fence, c.Outcome.ExpiresAt = fence(*j.Want.Fence), millis(*j.Want.Expires)
		}
		cases = append(cases, c)
	}
	return cases
}

// TakeCases reads the cases of the quota rule.
func TakeCases(t *testing.T, path string) []TakeCase {
	t.Helper()
	var cases []TakeCase
	for _, j := range read[jsonTake](t, path) {
		c := TakeCase{
			Name: j.Name, Now: micros(j.Now), Limit: j.Limit,
			After:    ratelimit.Window{Start: micros(j.After.Start), Count: j.After.Count},
			Admitted: j.Want.Admitted, Used: j.Want.Used,
		}
		if j.Window != nil {
			c.Before = ratelimit.Window{Start: micros(j.Window.Start), Count: j.Window.Count}
		}
		cases = append(cases, c)
	}
	return cases
}

func (j jsonState) state() lockcore.State {
	var s lockcore.State
	if j.Last != nil {
		s.LastFence = fence(*j.Last)
	}
	if l := j.Lease; l != nil {
		owner := map[string]uuid.UUID{"me": Me, "other": Other}[l.Owner]
		s.Lease = lockcore.Lease{Owner: owner, Fence: fence(l.Fence), ExpiresAt: millis(l.Expires), Deadline: millis(l.Deadline)}
	}
	return s
}

func millis(n int64) time.Time { return T.Add(time.Duration(n) * time.Millisecond) }
func micros(n int64) time.Time { return T.Add(time.Duration(n) * time.Microsecond) }
func fence(n int64) int64      { return T.UnixMicro() + n }

func read[C any](t *testing.T, path string) []C {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []C
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s holds no cases", path)
	}
	return cases
}
