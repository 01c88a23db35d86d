package configs

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// Limits of what a project has in a clock minute.
const (
	DefaultLocksPerMinute = 600           // lock requests, unless the policy says otherwise
	MaxPerMinute          = 1_000_000_000 // of locks_per_minute and requests_per_minute
)

// Policy says what each project may do. It does not change and is safe for concurrent use. A nil
// Policy is the default policy: DefaultLocksPerMinute for every project, forwarded requests
// without a limit, nothing revoked.
type Policy struct {
	defaults Limits // of projects without limits of their own
	projects map[uuid.UUID]Project
}

// Limits are what a project may use; a zero field leaves it to the default.
type Limits struct {
	LocksPerMinute    int64           // lock requests, at most MaxPerMinute
	RequestsPerMinute int64           // forwarded requests, at most MaxPerMinute; 0 by default too: no limit
	WhenUnavailable   WhenUnavailable // what happens to forwarded requests with a limit while the store cannot count
}

// WhenUnavailable is the value of when_store_unavailable.
type WhenUnavailable string

// The values; Allow is the default. Lock requests are refused always.
const (
	Allow  WhenUnavailable = "allow"
	Refuse WhenUnavailable = "refuse"
)

// Project is the policy of one project.
type Project struct {
	Limits
	Name      string // for people; may be empty
	Suspended bool   // every lock request is refused

	revokedKeys []string // sorted
}

// Project is the policy in force for a project, known or not, with the defaults filled in.
// It allocates nothing.
func (p *Policy) Project(id uuid.UUID) Project {
	if p == nil {
		p = &Policy{}
	}
	project := p.projects[id]
	project.LocksPerMinute = cmp.Or(project.LocksPerMinute, p.defaults.LocksPerMinute, DefaultLocksPerMinute)
	project.RequestsPerMinute = cmp.Or(project.RequestsPerMinute, p.defaults.RequestsPerMinute)
	project.WhenUnavailable = cmp.Or(project.WhenUnavailable, p.defaults.WhenUnavailable, Allow)
	return project
}

// Projects is the number of projects that the policy names.
func (p *Policy) Projects() int { return len(p.projects) }

// Revoked reports whether the key with this id (the jti claim) no longer counts.
func (p Project) Revoked(keyID string) bool {
	_, found := slices.BinarySearch(p.revokedKeys, keyID)
	return found
}
