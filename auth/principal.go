package auth

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Kind is the kind of a credential. Its text is the value of the claim role.
type Kind string

// The kinds; see the package documentation.
const (
	ServiceRole Kind = "service_role"
	Anon        Kind = "anon"
	AuthUser    Kind = "authenticated"
	Platform    Kind = "platform"
)

// The permissions that let a service-role key manage locks.
const (
	everything  = "*"
	manageLocks = "locks.manage"
)

func (k Kind) String() string { return string(k) }

// Describe names a credential of this kind in a sentence.
func (k Kind) Describe() string {
	switch k {
	case ServiceRole:
		return "a service-role key"
	case Anon:
		return "an anon key"
	case AuthUser:
		return "an auth-user access token"
	case Platform:
		return "a platform token"
	}
	return "an unknown credential"
}

// Principal is who a credential proved to be.
type Principal struct {
	Kind        Kind
	Project     uuid.UUID // the nil UUID only for a platform token
	KeyID       string    // jti; empty when the credential has none
	UserID      string    // sub; empty when the credential has none
	Permissions []string  // shared by copies of the Principal: read only
	ExpiresAt   time.Time // zero: never
}

// CanManageLocks tells whether the lock endpoints are open to p: only to a
// service-role key, and only with the permission "*" or "locks.manage".
func (p Principal) CanManageLocks() bool {
	return p.Kind == ServiceRole &&
		(slices.Contains(p.Permissions, everything) || slices.Contains(p.Permissions, manageLocks))
}
