package auth

import (
	"encoding/json"
	"math"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// claims are what a token says. The same struct is read by Verify and written
// by Mint, so the two cannot drift apart.
type claims struct {
	Role        Kind             `json:"role"`
	Project     projectID        `json:"project_id,omitzero"`
	Permissions []string         `json:"permissions,omitzero"` // nil: no claim, and that is not the same as an empty one
	KeyID       string           `json:"jti,omitzero"`
	UserID      string           `json:"sub,omitzero"`
	Issuer      string           `json:"iss,omitzero"`
	Audience    jwt.ClaimStrings `json:"aud,omitzero"`
	ExpiresAt   *seconds         `json:"exp,omitzero"`
	NotBefore   *seconds         `json:"nbf,omitzero"`
	IssuedAt    *seconds         `json:"iat,omitzero"`
}

var (
	claimMembers = membersOf[claims]()

	_ jwt.Claims       = (*claims)(nil)
	_ json.Unmarshaler = (*claims)(nil)
)

// UnmarshalJSON is called by the JWT library with the decoded second segment.
func (c *claims) UnmarshalJSON(data []byte) error {
	type plain claims // without this method
	return strict(data, claimMembers, (*plain)(c))
}

// principal judges the claims of a token whose signature, times, issuer and
// audience are already verified. The prefix stands for a kind, or for none.
func (c *claims) principal(prefixed Kind) (Principal, error) {
	needsProject, needsExpiry := true, false
	switch c.Role {
	case ServiceRole, Anon:
	case AuthUser:
		needsExpiry = true
	case Platform:
		needsProject = false
	default:
		return Principal{}, refuse(unknownRole)
	}
	switch {
	case prefixed != "" && prefixed != c.Role:
		return Principal{}, refuse(prefixMismatch)
	case needsProject && c.Project == projectID{}:
		return Principal{}, refuse(noProject)
	case needsExpiry && c.ExpiresAt == nil:
		return Principal{}, refuse(noExpiry)
	}
	return Principal{
		Kind:        c.Role,
		Project:     uuid.UUID(c.Project),
		KeyID:       c.KeyID,
		UserID:      c.UserID,
		Permissions: c.permissions(),
		ExpiresAt:   c.ExpiresAt.time(),
	}, nil
}

func (c *claims) permissions() []string {
	if c.Role == ServiceRole && c.Permissions == nil {
		return []string{everything}
	}
	return c.Permissions
}

// The claims that the JWT library judges.

func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.ExpiresAt.date(), nil }
func (c *claims) GetNotBefore() (*jwt.NumericDate, error)      { return c.NotBefore.date(), nil }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)       { return c.IssuedAt.date(), nil }
func (c *claims) GetIssuer() (string, error)                   { return c.Issuer, nil }
func (c *claims) GetSubject() (string, error)                  { return c.UserID, nil }
func (c *claims) GetAudience() (jwt.ClaimStrings, error)       { return c.Audience, nil }

// seconds since 1970, possibly with a fraction; nil where there is no claim.
// The library's own type takes text for a number and rounds a fraction away.
type seconds float64

// lastSecond of the year 9999, beyond which dates have no agreed form. It also
// catches times in milliseconds.
const lastSecond = 253402300799

// UnmarshalJSON takes a JSON number after 0 and up to the year 9999.
func (s *seconds) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*float64)(s)); err != nil {
		return wrongType
	}
	if *s <= 0 || *s > lastSecond {
		return badTime
	}
	return nil
}

func secondsOf(t time.Time) *seconds {
	if t.IsZero() {
		return nil
	}
	return new(seconds(t.Unix()))
}

func (s *seconds) time() time.Time {
	if s == nil {
		return time.Time{}
	}
	whole, fraction := math.Modf(float64(*s))
	return time.Unix(int64(whole), int64(fraction*float64(time.Second))).UTC()
}

func (s *seconds) date() *jwt.NumericDate {
	if s == nil {
		return nil
	}
	return &jwt.NumericDate{Time: s.time()}
}

// projectID is a UUID, of whose spellings only the one of 36 characters counts.
type projectID uuid.UUID

// UnmarshalText refuses the nil UUID too: it is what no project looks like.
func (p *projectID) UnmarshalText(text []byte) error {
	id, err := uuid.ParseBytes(text)
	if err != nil || len(text) != len(uuid.Nil.String()) || id == uuid.Nil {
		return badProjectID
	}
	*p = projectID(id)
	return nil
}

// MarshalText writes the 36 characters.
func (p projectID) MarshalText() ([]byte, error) { return uuid.UUID(p).MarshalText() }
