package auth

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

const (
	minRSABits = 2048
	maxRSABits = 8192 // a check takes a quarter of a millisecond
)

// keySet is a JSON Web Key Set (RFC 7517).
type keySet struct {
	Keys []json.RawMessage `json:"keys"`
}

var (
	keySetMembers = membersOf[keySet]()
	jwkMembers    = membersOf[jwkset.JWKMarshal]()
)

func (r keyring) addSet(jwks []byte) (errs []error) {
	var set keySet
	if err := strict(jwks, keySetMembers, &set); err != nil {
		return []error{fmt.Errorf("key set %w", err)}
	}
	if set.Keys == nil {
		return []error{errors.New("key set has no member keys")}
	}
	for i, raw := range set.Keys {
		var jwk jwkset.JWKMarshal
		if err := strict(raw, jwkMembers, &jwk); err != nil {
			errs = append(errs, fmt.Errorf("key set: keys[%d] %w", i, err))
		} else if err := r.addJWK(jwk); err != nil {
			errs = append(errs, fmt.Errorf("key set: keys[%d] (kid %.64q): %w", i, jwk.KID, err))
		}
	}
	return errs
}

// addJWK adds a key of the set, or passes over one that is for something else
// than verifying signatures.
func (r keyring) addJWK(jwk jwkset.JWKMarshal) error {
	if !verifiesSignatures(jwk) {
		return nil
	}
	name, err := nameOf(jwk)
	if err != nil {
		return err
	}
	// Only the public part goes on: no certificates, and no address to fetch some from.
	parsed, err := jwkset.NewJWKFromMarshal(
		jwkset.JWKMarshal{KTY: jwk.KTY, CRV: jwk.CRV, X: jwk.X, Y: jwk.Y, N: jwk.N, E: jwk.E, K: jwk.K},
		jwkset.JWKMarshalOptions{Private: true}, // otherwise the library has no secrets
		jwkset.JWKValidateOptions{},
	)
	if err != nil {
		return err
	}
	switch key := parsed.Key().(type) {
	case []byte:
		return r.addSecret(name, key)
	case *rsa.PublicKey:
		switch bits := key.N.BitLen(); {
		case bits < minRSABits:
			return fmt.Errorf("%d bits are too short for %s, which needs at least %d", bits, rs256, minRSABits)
		case bits > maxRSABits:
			return fmt.Errorf("%d bits are too long, at most %d can be used: each check would take too much time", bits, maxRSABits)
		case key.N.Bit(0) == 0 || key.E < 3 || key.E%2 == 0:
			return errors.New("it is no RSA key: its modulus (n) and its exponent (e) are odd, and e is not 1")
		}
		return r.add(name, key)
	default:
		return r.add(name, key)
	}
}

func verifiesSignatures(jwk jwkset.JWKMarshal) bool {
	return (jwk.USE == "" || jwk.USE == jwkset.UseSig) &&
		(len(jwk.KEYOPS) == 0 || slices.Contains(jwk.KEYOPS, jwkset.KeyOpsVerify))
}

type keyType struct {
	kty jwkset.KTY
	crv jwkset.CRV
}

// algorithmFor each type of key: type and curve decide, not the token.
var algorithmFor = map[keyType]string{
	{jwkset.KtyOct, ""}:                hs256,
	{jwkset.KtyRSA, ""}:                rs256,
	{jwkset.KtyEC, jwkset.CrvP256}:     es256,
	{jwkset.KtyOKP, jwkset.CrvEd25519}: eddsa,
}

// otherKind is why a key, though it may be a good one, is for none of our algorithms.
type otherKind string

func (k otherKind) Error() string { return string(k) }

// nameOf derives the algorithm from the key's type. The key may repeat it, and
// nothing else: a key that served two algorithms could be confused.
func nameOf(jwk jwkset.JWKMarshal) (keyName, error) {
	algorithm, ok := algorithmFor[keyType{jwk.KTY, jwk.CRV}]
	switch {
	case isPrivate(jwk):
		return keyName{}, errors.New("it is a private key, and only the public part belongs here")
	case !ok:
		return keyName{}, otherKind("its type (kty, crv) is none of oct, RSA, EC with P-256 and OKP with Ed25519")
	case jwk.ALG != "" && jwk.ALG.String() != algorithm:
		return keyName{}, otherKind("its alg does not fit its type, which goes with " + algorithm + " only")
	}
	return keyName{id: jwk.KID, algorithm: algorithm}, nil
}

func isPrivate(jwk jwkset.JWKMarshal) bool {
	return jwk.D+jwk.P+jwk.Q+jwk.DP+jwk.DQ+jwk.QI != "" || len(jwk.OTH) > 0
}
