package auth

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// MinSecretBytes is the least length of an HS256 secret. The library would
// sign and verify with an empty one.
const MinSecretBytes = 32

var (
	hs256 = jwt.SigningMethodHS256.Alg()
	rs256 = jwt.SigningMethodRS256.Alg()
	es256 = jwt.SigningMethodES256.Alg()
	eddsa = jwt.SigningMethodEdDSA.Alg()

	// algorithms that a token may name.
	algorithms = []string{hs256, rs256, es256, eddsa}
)

// keyName is how a token names keys: by id, if it has one, and algorithm.
type keyName struct{ id, algorithm string }

// keyring is the table of keys. Only keys without an id share a name.
type keyring map[keyName][]verificationKey

type verificationKey = jwt.VerificationKey

// newKeyring reports all complaints together.
func newKeyring(secrets [][]byte, jwks []byte) (keyring, error) {
	r := keyring{}
	var errs []error
	for i, secret := range secrets {
		if err := r.addSecret(keyName{algorithm: hs256}, secret); err != nil {
			errs = append(errs, fmt.Errorf("secret %d of %d: %w", i+1, len(secrets), err))
		}
	}
	if jwks != nil {
		errs = append(errs, r.addSet(jwks)...)
	}
	return r, errors.Join(errs...)
}

func (r keyring) addSecret(name keyName, secret []byte) error {
	if len(secret) < MinSecretBytes {
		return fmt.Errorf("%d bytes are too short for %s, which needs at least %d", len(secret), hs256, MinSecretBytes)
	}
	return r.add(name, bytes.Clone(secret))
}

func (r keyring) add(name keyName, key any) error {
	if name.id != "" && len(r[name]) > 0 {
		return errors.New("another key has the same kid and algorithm")
	}
	r[name] = append(r[name], key)
	return nil
}
