package ratelimit

import (
	_ "embed"
	"time"

	"github.com/google/uuid"
)

// Length of a window.
const Length = time.Minute

// Script is the same rule in Lua: a chunk that defines take().
//
//go:embed window.lua
var Script string

// Counter is what is counted. Each has windows of its own.
type Counter uint8

// The counters of a project.
const (
	Locks    Counter = iota // requests to lock endpoints
	Requests                // forwarded requests
)

// Charge asks to count one request against a project.
type Charge struct {
	Project uuid.UUID
	Counter Counter
	Limit   int64 // requests per window, at least 1
}

// Account is what has a Window of its own: one counter of one project.
type Account struct {
	Project uuid.UUID
	Counter Counter
}

// Account is where the charge is counted.
func (c Charge) Account() Account { return Account{c.Project, c.Counter} }

// Window is what is remembered of a project: the requests counted in the
// window that starts at Start. The zero Window has counted nothing.
type Window struct {
	Start time.Time
	Count int64
}

// Result says whether a request was admitted and where its window stands.
type Result struct {
	Admitted bool
	Limit    int64
	Used     int64     // requests counted in the window, this one included when admitted
	Reset    time.Time // end of the window
}

// Take counts one request made at now. A refused request leaves the window as
// it was, so refusals never prolong a block.
func Take(w Window, c Charge, now time.Time) (Window, Result) {
	if start := WindowStart(now); !w.Start.Equal(start) {
		w = Window{Start: start}
	}
	admitted := w.Count < c.Limit
	if admitted {
		w.Count++
	}
	return w, NewResult(admitted, c.Limit, w.Count, now)
}

// NewResult describes a window of which used requests are counted at now.
func NewResult(admitted bool, limit, used int64, now time.Time) Result {
	return Result{Admitted: admitted, Limit: limit, Used: used, Reset: WindowStart(now).Add(Length)}
}

// WindowStart is the beginning of the window that contains now.
func WindowStart(now time.Time) time.Time { return now.Truncate(Length) }

// Remaining is how many more requests the window admits. A limit lowered in
// mid-window leaves 0, not less.
func (r Result) Remaining() int64 { return max(0, r.Limit-r.Used) }

// RetryAfter is how long after now the window ends, in whole seconds rounded
// up: 1 to 60 for any now inside the window. Sleeping that long leads into the
// next window.
func (r Result) RetryAfter(now time.Time) int64 { return CeilSeconds(r.Reset.Sub(now)) }

// CeilSeconds rounds d up to whole seconds, at least 1, as Retry-After wants.
func CeilSeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}
