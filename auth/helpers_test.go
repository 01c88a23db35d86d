package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

var (
	now     = time.Date(2026, 7, 20, 14, 0, 0, 0, time.UTC)
	project = uuid.MustParse("6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11")
	secret  = []byte(strings.Repeat("s", auth.MinSecretBytes))
	foreign = []byte(strings.Repeat("f", auth.MinSecretBytes))
)

const (
	hs256Header = `{"alg":"HS256","typ":"JWT"}`
	noneHeader  = `{"alg":"none"}`
)

// claimsOf joins the claims that every project's credential has with others.
func claimsOf(role string, others ...string) string {
	members := append([]string{fmt.Sprintf(`"role":%q,"project_id":%q`, role, project)}, others...)
	return "{" + strings.Join(members, ",") + "}"
}

// serviceWith is a service-role key's claims and others.
func serviceWith(others ...string) string { return claimsOf("service_role", others...) }

// sign builds a token from exactly these texts, however wrong they are.
func sign(tb testing.TB, method jwt.SigningMethod, key any, header, payload string) string {
	tb.Helper()
	text := encode(header) + "." + encode(payload)
	signature, err := method.Sign(text, key)
	if err != nil {
		tb.Fatal(err)
	}
	return text + "." + encode(string(signature))
}

// hs256 signs a payload with the secret of the gateway.
func hs256(tb testing.TB, payload string) string {
	tb.Helper()
	return sign(tb, jwt.SigningMethodHS256, secret, hs256Header, payload)
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// newVerifier with the secret and a stopped clock, changed by adjust.
func newVerifier(tb testing.TB, adjust ...func(*auth.Config)) *auth.Verifier {
	tb.Helper()
	cfg := auth.Config{Secrets: [][]byte{secret}, Now: func() time.Time { return now }}
	for _, change := range adjust {
		change(&cfg)
	}
	v, err := auth.NewVerifier(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// accepted verifies a credential that must be accepted.
func accepted(tb testing.TB, v *auth.Verifier, credential string) auth.Principal {
	tb.Helper()
	p, err := v.Verify(credential)
	if err != nil {
		tb.Fatalf("refused: %v", err)
	}
	return p
}

// refused verifies a credential that must be refused with a reason that
// contains the given words and nothing of the credential.
func refused(tb testing.TB, v *auth.Verifier, credential, words string) {
	tb.Helper()
	p, err := v.Verify(credential)
	refusal, ok := errors.AsType[*auth.Refusal](err)
	if !ok {
		tb.Fatalf("got %+v and the error %v, want a refusal with %q", p, err, words)
	}
	if p.Kind != "" || p.Project != uuid.Nil || p.Permissions != nil {
		tb.Errorf("a refusal came with a principal: %+v", p)
	}
	if !strings.Contains(refusal.Reason, words) {
		tb.Errorf("refused with %q, want %q", refusal.Reason, words)
	}
	if err.Error() != refusal.Reason {
		tb.Errorf("the error reads %q, want the reason %q", err, refusal.Reason)
	}
	quotesNothing(tb, refusal.Reason, credential)
}

// quotesNothing looks for the segments of a credential in a text. Shorter ones
// could be words; no word of ours has as many letters as the bound.
func quotesNothing(tb testing.TB, text, credential string) {
	tb.Helper()
	const longestWord = 16
	for segment := range strings.SplitSeq(credential, ".") {
		for _, form := range []string{segment, decoded(segment)} {
			if len(form) > longestWord && !strings.Contains(form, " ") && strings.Contains(text, form) {
				tb.Errorf("%q quotes the credential: %q", text, form)
			}
		}
	}
}

func decoded(segment string) string {
	data, _ := base64.RawURLEncoding.DecodeString(segment)
	return string(data)
}

// A signer is a key of the key set, with its private part.
type signer struct {
	method  jwt.SigningMethod
	private any
	public  any
}

func (s signer) sign(tb testing.TB, kid, payload string) string {
	tb.Helper()
	header := fmt.Sprintf(`{"alg":%q}`, s.method.Alg())
	if kid != "" {
		header = fmt.Sprintf(`{"alg":%q,"kid":%q}`, s.method.Alg(), kid)
	}
	return sign(tb, s.method, s.private, header, payload)
}

// signers has one key for each algorithm, made anew in each run.
var signers = sync.OnceValue(func() map[string]signer {
	rsaKey := must(rsa.GenerateKey(rand.Reader, 2048))
	ecKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	_, edKey := must2(ed25519.GenerateKey(rand.Reader))
	octKey := make([]byte, auth.MinSecretBytes)
	_ = must(rand.Read(octKey))
	return map[string]signer{
		"HS256": {jwt.SigningMethodHS256, octKey, octKey},
		"RS256": {jwt.SigningMethodRS256, rsaKey, rsaKey.Public()},
		"ES256": {jwt.SigningMethodES256, ecKey, ecKey.Public()},
		"EdDSA": {jwt.SigningMethodEdDSA, edKey, edKey.Public()},
	}
})

// jwk describes a key as a member of a key set.
func jwk(tb testing.TB, key any, kid string, adjust ...func(*jwkset.JWKMarshal)) jwkset.JWKMarshal {
	tb.Helper()
	described, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{
		Marshal:  jwkset.JWKMarshalOptions{Private: true},
		Metadata: jwkset.JWKMetadataOptions{KID: kid},
	})
	if err != nil {
		tb.Fatal(err)
	}
	m := described.Marshal()
	for _, change := range adjust {
		change(&m)
	}
	return m
}

func jwks(tb testing.TB, keys ...jwkset.JWKMarshal) []byte {
	tb.Helper()
	data, err := json.Marshal(jwkset.JWKSMarshal{Keys: keys})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// withSet adds a key set to the verifier's configuration.
func withSet(set []byte) func(*auth.Config) { return func(c *auth.Config) { c.JWKS = set } }

// signersSet has the public keys of all signers, named for their algorithm.
func signersSet(tb testing.TB) []byte {
	tb.Helper()
	keys := make([]jwkset.JWKMarshal, 0, len(signers()))
	for alg, s := range signers() {
		keys = append(keys, jwk(tb, s.public, "key-"+alg))
	}
	return jwks(tb, keys...)
}

func privateKey(alg string) any { return signers()[alg].private }

func publicKey(alg string) crypto.PublicKey { return signers()[alg].public }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func must2[A, B any](a A, b B, err error) (A, B) {
	if err != nil {
		panic(err)
	}
	return a, b
}
