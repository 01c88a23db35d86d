package configs

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// Limits of locks_per_minute, the lock requests that a project has in a clock minute.
const (
	DefaultLocksPerMinute = 600
	MaxLocksPerMinute     = 1_000_000_000
)

// Policy says what each project may do. It does not change and is safe for concurrent use. A nil
// Policy is the default policy: DefaultLocksPerMinute for every project, nothing revoked.
type Policy struct {
	locksPerMinute int64 // of projects without a number of their own; 0: the default
	projects       map[uuid.UUID]Project
}

// Project is the policy of one project.
type Project struct {
	Name           string // for people; may be empty
	LocksPerMinute int64  // at least 1, at most MaxLocksPerMinute
	Suspended      bool   // every lock request is refused

	revokedKeys []string // sorted
}

// Project is the policy in force for a project, known or not, with the defaults filled in.
// It allocates nothing.
func (p *Policy) Project(id uuid.UUID) Project {
	if p == nil {
		p = &Policy{}
	}
	project := p.projects[id]
	project.LocksPerMinute = cmp.Or(project.LocksPerMinute, p.locksPerMinute, DefaultLocksPerMinute)
	return project
}

// Revoked reports whether the key with this id (the jti claim) no longer counts.
func (p Project) Revoked(keyID string) bool {
	_, found := slices.BinarySearch(p.revokedKeys, keyID)
	return found
}
