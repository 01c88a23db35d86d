package auth_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/project-locks/gateway/auth"
)

// The fuzzer's worker processes must agree on the keys, so these are not random.
var (
	fuzzEdKey          = ed25519.NewKeyFromSeed([]byte(strings.Repeat("e", ed25519.SeedSize)))
	fuzzEdPublicKey, _ = fuzzEdKey.Public().(ed25519.PublicKey)
)

// FuzzVerify looks for a credential that is accepted and that no key signed.
func FuzzVerify(f *testing.F) {
	v := newVerifier(f, withSet(jwks(f, jwk(f, fuzzEdPublicKey, "ed"))))
	ed := signer{method: jwt.SigningMethodEdDSA, private: fuzzEdKey}
	for _, credential := range []string{
		"sk-" + hs256(f, serviceWith()),
		"ak-" + hs256(f, claimsOf("anon", `"permissions":["*"]`)),
		hs256(f, claimsOf("authenticated", inAnHour, `"sub":"user-7"`)),
		hs256(f, serviceWith(`"iss":"x","aud":["x","y"],"iat":1784556000`)),
		hs256(f, serviceWith(`"exp":1e300`)),
		"sk-" + ed.sign(f, "ed", serviceWith()),
		ed.sign(f, "", serviceWith()),
		sign(f, jwt.SigningMethodHS256, foreign, hs256Header, serviceWith()),
		sign(f, jwt.SigningMethodHS256, []byte{}, hs256Header, serviceWith()),
		sign(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, noneHeader, serviceWith()),
		strings.Repeat("0a", 32), "", "..", "sk-..", "sk-" + strings.Repeat("a", 64),
	} {
		f.Add(credential)
	}
	f.Fuzz(func(t *testing.T, credential string) {
		p, err := v.Verify(credential)
		switch {
		case err != nil:
			isAPlainRefusal(t, p, err, credential)
		case p.Kind == auth.Platform && len(credential) == 64:
			if _, err := hex.DecodeString(credential); err != nil || p.Project != [16]byte{} {
				t.Errorf("%q is taken for a platform token: %+v", credential, p)
			}
		case !isSigned(credential):
			t.Errorf("no key signed %q, which proves %+v", credential, p)
		}
	})
}

// FuzzSignedClaims looks for claims that are accepted and that another reader
// would read differently.
func FuzzSignedClaims(f *testing.F) {
	v := newVerifier(f)
	for _, payload := range []string{
		serviceWith(), claimsOf("anon", `"ROLE":"service_role"`), claimsOf("authenticated", inAnHour),
		serviceWith(`"permissions":[]`), serviceWith(`"permissions":["*",null]`), serviceWith(`"exp":null`),
		serviceWith(`"exp":1e300`, `"nbf":0`, `"iat":"x"`), serviceWith(`"iſs":"x","aud":["x"],"sub":"\ud800"`),
		`{"role":"platform"}`, `null`, `[]`, `{}`, ``,
	} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		p, err := v.Verify(hs256(t, payload))
		if err != nil {
			isAPlainRefusal(t, p, err, payload)
			return
		}
		var read map[string]any // the last of duplicates, in exactly this case
		if err := json.Unmarshal([]byte(payload), &read); err != nil {
			t.Fatalf("%q is accepted and not JSON: %v", payload, err)
		}
		agrees(t, p, read)
		for name := range read {
			for other := range read {
				if name != other && strings.EqualFold(name, other) {
					t.Errorf("%q has both %q and %q", payload, name, other)
				}
			}
		}
	})
}

// agrees compares a principal with the claims as a naive reader finds them.
func agrees(t *testing.T, p auth.Principal, read map[string]any) {
	t.Helper()
	text := func(name string) string { s, _ := read[name].(string); return s }
	if p.Kind.String() != text("role") || p.KeyID != text("jti") || p.UserID != text("sub") {
		t.Errorf("got %+v from %v", p, read)
	}
	if p.Kind != auth.Platform && !strings.EqualFold(p.Project.String(), text("project_id")) {
		t.Errorf("got the project %v from %v", p.Project, read)
	}
	if exp, ok := read["exp"].(float64); ok != !p.ExpiresAt.IsZero() || ok && exp <= float64(now.Unix()) {
		t.Errorf("got the expiry %v from %v", p.ExpiresAt, read)
	}
	if list, ok := read["permissions"].([]any); ok && len(list) != len(p.Permissions) {
		t.Errorf("got the permissions %v from %v", p.Permissions, read)
	}
}

func isAPlainRefusal(t *testing.T, p auth.Principal, err error, input string) {
	t.Helper()
	if _, ok := errors.AsType[*auth.Refusal](err); !ok {
		t.Errorf("got the error %T for %q", err, input)
	}
	if p.Kind != "" {
		t.Errorf("a refusal came with a principal: %+v", p)
	}
	quotesNothing(t, err.Error(), input)
}

// isSigned judges a signature without the package and its libraries.
func isSigned(credential string) bool {
	token := strings.TrimPrefix(strings.TrimPrefix(credential, "sk-"), "ak-")
	dot := strings.LastIndexByte(token, '.')
	if dot < 0 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(token[:dot]))
	return err == nil && (hmac.Equal(signature, mac.Sum(nil)) ||
		ed25519.Verify(fuzzEdPublicKey, []byte(token[:dot]), signature))
}
