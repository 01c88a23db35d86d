package e2e

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// signToken builds a token from exactly these texts, however wrong they are.
func signToken(t testing.TB, method jwt.SigningMethod, key any, header, claims string) string {
	t.Helper()
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	signature, err := method.Sign(text, key)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(signature)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

const plainHeader = `{"alg":"HS256","typ":"JWT"}`

// sign signs claims with the gateway's secret.
func (g *gateway) sign(t testing.TB, claims string) string {
	t.Helper()
	return signToken(t, jwt.SigningMethodHS256, []byte(g.settings["GATEWAY_JWT_SECRET"]), plainHeader, claims)
}

// claimsOf is a JSON object with these members, each written as "name":value.
func claimsOf(members ...string) string { return "{" + strings.Join(members, ",") + "}" }

// keyPair is a key that the gateway knows from its key set.
type keyPair struct {
	method  jwt.SigningMethod
	private any
	public  map[string]string // as a JSON Web Key
}

func (k keyPair) kid() string { return "kid-" + k.method.Alg() }

func (k keyPair) header() string {
	return fmt.Sprintf(`{"alg":%q,"kid":%q}`, k.method.Alg(), k.kid())
}

// newKeys makes one key for each algorithm.
func newKeys(t testing.TB) map[string]keyPair {
	t.Helper()
	oct := []byte(newSecret())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := ecKey.PublicKey.Bytes() // 4, X, Y
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	e := big.NewInt(int64(rsaKey.E)).Bytes()
	keys := map[string]keyPair{}
	for _, k := range []keyPair{
		{jwt.SigningMethodHS256, oct, map[string]string{"kty": "oct", "k": encode(oct)}},
		{jwt.SigningMethodRS256, rsaKey, map[string]string{"kty": "RSA", "n": encode(rsaKey.N.Bytes()), "e": encode(e)}},
		{jwt.SigningMethodES256, ecKey, map[string]string{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}},
		{jwt.SigningMethodEdDSA, edKey, map[string]string{"kty": "OKP", "crv": "Ed25519", "x": encode(edPublic)}},
	} {
		k.public["kid"] = k.kid()
		keys[k.method.Alg()] = k
	}
	return keys
}

// keySet is the text of a set of these keys.
func keySet(t testing.TB, keys map[string]keyPair) string {
	t.Helper()
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	for _, k := range keys {
		set.Keys = append(set.Keys, k.public)
	}
	data, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
