package auth

import (
	"errors"

	"github.com/golang-jwt/jwt/v5"
)

// Refusal is the error for a credential that proves nothing. Reason is a fixed
// text for a person: it names what was wrong and never quotes the credential.
// For the same reason it wraps no cause: parsers quote what they could not read.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

func refuse(reason string) error { return &Refusal{Reason: reason} }

const (
	tooLong        = "the credential is longer than 8 KiB"
	malformed      = "the credential is neither a JSON Web Token nor a platform token"
	algorithm      = "the credential's algorithm (alg) is none of HS256, RS256, ES256 and EdDSA"
	critical       = "the credential demands an extension (crit), and none is known here"
	unknownKeyID   = "the credential has an unknown key id (kid), or an algorithm that is not that key's"
	noKeyID        = "the credential names no key id (kid), and no key without an id has its algorithm"
	badSignature   = "the credential's signature is not valid"
	expired        = "the credential expired; use a new one"
	notYetValid    = "the credential is not valid yet (nbf)"
	wrongIssuer    = "the credential is from another issuer (iss) than the one accepted here"
	wrongAudience  = "the credential is for another audience (aud)"
	missingClaim   = "the credential lacks the issuer (iss) or the audience (aud) that is required here"
	unknownRole    = "the credential's role is none of service_role, anon, authenticated and platform"
	prefixMismatch = "the credential's prefix contradicts its role: sk- is for service_role, ak- for anon"
	noProject      = "the credential names no project (project_id)"
	noExpiry       = "the credential is an access token without an expiry (exp)"

	inHeader = "the credential's header "
	inClaims = "the credential's set of claims "
)

// A token can fail several checks of the library at once: the first counts.
var libraryReasons = []struct {
	cause  error
	reason string
}{
	{jwt.ErrTokenSignatureInvalid, badSignature},
	{jwt.ErrTokenExpired, expired},
	{jwt.ErrTokenNotValidYet, notYetValid},
	{jwt.ErrTokenInvalidIssuer, wrongIssuer},
	{jwt.ErrTokenInvalidAudience, wrongAudience},
	{jwt.ErrTokenRequiredClaimMissing, missingClaim},
}

// refusalFor puts what the JWT library found into our words.
func refusalFor(err error) error {
	if f, ok := errors.AsType[flaw](err); ok {
		return refuse(inClaims + f.Error())
	}
	for _, r := range libraryReasons {
		if errors.Is(err, r.cause) {
			return refuse(r.reason)
		}
	}
	return refuse(malformed)
}
