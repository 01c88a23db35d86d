package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// Grant says what a new credential shall prove. Empty fields leave the claim out.
type Grant struct {
	Kind        Kind
	Project     uuid.UUID // required, except for a platform token
	Permissions []string  // nil: no claim; empty: an empty array, which grants nothing
	KeyID       string
	UserID      string
	Issuer      string
	Audience    string
	IssuedAt    time.Time // whole seconds, as ExpiresAt
	ExpiresAt   time.Time // zero: never; required for an auth-user access token
}

// Mint signs a credential with HS256. A service-role or an anon key gets its
// prefix. What a Verifier with this secret would refuse at the time of issue
// is not handed out, so the rules for credentials stand in one place.
func Mint(secret []byte, g Grant) (string, error) {
	if !utf8.ValidString(strings.Join(append([]string{g.KeyID, g.UserID}, g.Permissions...), "\n")) {
		return "", errors.New("mint: key id, user id and permissions must be UTF-8")
	}
	v, err := NewVerifier(Config{
		Secrets:  [][]byte{secret},
		Issuer:   g.Issuer,
		Audience: g.Audience,
		Now:      func() time.Time { return g.IssuedAt },
	})
	if err != nil {
		return "", fmt.Errorf("mint: %w", err)
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, g.claims()).SignedString(secret)
	if err != nil {
		return "", fmt.Errorf("mint: %w", err)
	}
	credential := prefixes[g.Kind] + token
	if _, err := v.Verify(credential); err != nil {
		return "", fmt.Errorf("mint: %w", err)
	}
	return credential, nil
}

func (g Grant) claims() *claims {
	c := &claims{
		Role:        g.Kind,
		Project:     projectID(g.Project),
		Permissions: g.Permissions,
		KeyID:       g.KeyID,
		UserID:      g.UserID,
		Issuer:      g.Issuer,
		ExpiresAt:   secondsOf(g.ExpiresAt),
		IssuedAt:    secondsOf(g.IssuedAt),
	}
	if g.Audience != "" {
		c.Audience = jwt.ClaimStrings{g.Audience}
	}
	return c
}
