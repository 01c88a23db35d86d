package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/project-locks/gateway/auth"
)

func TestEachAlgorithmVerifiesWithItsKey(t *testing.T) {
	for alg, s := range signers() {
		t.Run(alg+", by key id", func(t *testing.T) {
			v := newVerifier(t, withSet(signersSet(t)))
			p := accepted(t, v, "sk-"+s.sign(t, "key-"+alg, serviceWith()))
			if p.Kind != auth.ServiceRole || p.Project != project {
				t.Errorf("got %+v", p)
			}
		})
		t.Run(alg+", key without an id", func(t *testing.T) {
			v := newVerifier(t, withSet(jwks(t, jwk(t, s.public, ""))))
			accepted(t, v, s.sign(t, "", serviceWith()))
		})
		t.Run(alg+", key set alone", func(t *testing.T) {
			v := newVerifier(t, withSet(signersSet(t)), func(c *auth.Config) { c.Secrets = nil })
			accepted(t, v, s.sign(t, "key-"+alg, serviceWith()))
		})
		t.Run(alg+", claims of another token", func(t *testing.T) {
			v := newVerifier(t, withSet(signersSet(t)))
			parts := strings.Split(s.sign(t, "key-"+alg, claimsOf("anon")), ".")
			refused(t, v, parts[0]+"."+encode(serviceWith())+"."+parts[2], "signature is not valid")
		})
		t.Run(alg+", signature of zeros", func(t *testing.T) {
			v := newVerifier(t, withSet(signersSet(t)))
			parts := strings.Split(s.sign(t, "key-"+alg, serviceWith()), ".")
			zeros := encode(strings.Repeat("\x00", len(decoded(parts[2]))))
			refused(t, v, parts[0]+"."+parts[1]+"."+zeros, "signature is not valid")
		})
	}
}

func TestAKeyIDIsLookedUpTogetherWithTheAlgorithm(t *testing.T) {
	v := newVerifier(t, withSet(signersSet(t)))
	for alg, s := range signers() {
		for _, kid := range []string{"random-1b2c", "key-", "KEY-" + alg, "key-" + alg + " ", "../key-" + alg} {
			t.Run(alg+", id "+kid, func(t *testing.T) {
				refused(t, v, s.sign(t, kid, serviceWith()), "unknown key id")
			})
		}
		for other := range signers() {
			if other != alg {
				t.Run(alg+", id of the "+other+" key", func(t *testing.T) {
					refused(t, v, s.sign(t, "key-"+other, serviceWith()), "unknown key id")
				})
			}
		}
	}
	t.Run("empty id does not mean no id", func(t *testing.T) {
		refused(t, v, sign(t, jwt.SigningMethodHS256, secret, `{"alg":"HS256","kid":""}`, serviceWith()), "unknown key id")
	})
	t.Run("the secret has no id", func(t *testing.T) {
		refused(t, v, sign(t, jwt.SigningMethodHS256, secret, `{"alg":"HS256","kid":"key-HS256"}`, serviceWith()), "signature is not valid")
	})
}

func TestATokenWithoutAKeyIDMeetsNoKeyThatHasOne(t *testing.T) {
	v := newVerifier(t, withSet(signersSet(t)))
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		refused(t, v, signers()[alg].sign(t, "", serviceWith()), "names no key id")
	}
	refused(t, v, signers()["HS256"].sign(t, "", serviceWith()), "signature is not valid")
	accepted(t, v, hs256(t, serviceWith()))
}

func TestSecretsAndKeysWithoutAnIDServeSideBySide(t *testing.T) {
	s := signers()["HS256"]
	v := newVerifier(t, withSet(jwks(t, jwk(t, s.public, ""), jwk(t, foreign, ""))))
	accepted(t, v, hs256(t, serviceWith()))
	accepted(t, v, s.sign(t, "", serviceWith()))
	accepted(t, v, sign(t, jwt.SigningMethodHS256, foreign, hs256Header, serviceWith()))
}

func TestAPublicKeyIsNoSecret(t *testing.T) {
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		der := must(x509.MarshalPKIXPublicKey(publicKey(alg)))
		described := must(json.Marshal(jwk(t, publicKey(alg), "key-"+alg)))
		secrets := map[string][]byte{
			"DER":          der,
			"PEM":          pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
			"PEM, trimmed": []byte(strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))),
			"base64":       []byte(base64.StdEncoding.EncodeToString(der)),
			"JWK":          described,
			"key set":      signersSet(t),
		}
		if key, ok := publicKey(alg).(*rsa.PublicKey); ok {
			pkcs1 := x509.MarshalPKCS1PublicKey(key)
			secrets["PKCS 1 DER"] = pkcs1
			secrets["PKCS 1 PEM"] = pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1})
			secrets["modulus"] = key.N.Bytes()
		}
		named := newVerifier(t, withSet(signersSet(t)))
		unnamed := newVerifier(t, withSet(jwks(t, jwk(t, publicKey(alg), ""))))
		alone := newVerifier(t, withSet(jwks(t, jwk(t, publicKey(alg), ""))), func(c *auth.Config) { c.Secrets = nil })
		for form, confused := range secrets {
			t.Run(alg+" as "+form, func(t *testing.T) {
				bare := sign(t, jwt.SigningMethodHS256, confused, hs256Header, serviceWith())
				refused(t, named, bare, "signature is not valid")
				refused(t, unnamed, bare, "signature is not valid")
				refused(t, alone, bare, "names no key id")
				refused(t, named, sign(t, jwt.SigningMethodHS256, confused, `{"alg":"HS256","kid":"key-`+alg+`"}`, serviceWith()), "unknown key id")
				refused(t, named, sign(t, jwt.SigningMethodHS256, confused, `{"alg":"`+alg+`","kid":"key-`+alg+`"}`, serviceWith()), "signature is not valid")
			})
		}
	}
}

func TestOneKeyIDMayNameOneKeyOfEachAlgorithm(t *testing.T) {
	v := newVerifier(t, withSet(jwks(t, jwk(t, publicKey("RS256"), "k"), jwk(t, publicKey("ES256"), "k"))))
	accepted(t, v, signers()["RS256"].sign(t, "k", serviceWith()))
	accepted(t, v, signers()["ES256"].sign(t, "k", serviceWith()))
}

func TestAKeyMayRepeatItsAlgorithm(t *testing.T) {
	for alg, s := range signers() {
		set := jwks(t, jwk(t, s.public, "k", func(m *jwkset.JWKMarshal) {
			m.ALG, m.USE, m.KEYOPS = jwkset.ALG(alg), jwkset.UseSig, []jwkset.KEYOPS{jwkset.KeyOpsSign, jwkset.KeyOpsVerify}
		}))
		accepted(t, newVerifier(t, withSet(set)), s.sign(t, "k", serviceWith()))
	}
}

func TestKeysForSomethingElseAreIgnored(t *testing.T) {
	for name, purpose := range map[string]func(*jwkset.JWKMarshal){
		"encryption":        func(m *jwkset.JWKMarshal) { m.USE = jwkset.UseEnc },
		"an unknown use":    func(m *jwkset.JWKMarshal) { m.USE = "tls" },
		"other operations":  func(m *jwkset.JWKMarshal) { m.KEYOPS = []jwkset.KEYOPS{jwkset.KeyOpsEncrypt} },
		"signing alone":     func(m *jwkset.JWKMarshal) { m.KEYOPS = []jwkset.KEYOPS{jwkset.KeyOpsSign} },
		"use against ops":   func(m *jwkset.JWKMarshal) { m.USE, m.KEYOPS = jwkset.UseEnc, []jwkset.KEYOPS{jwkset.KeyOpsVerify} },
		"its own algorithm": func(m *jwkset.JWKMarshal) { m.USE, m.ALG = jwkset.UseEnc, jwkset.AlgRSAOAEP },
	} {
		t.Run(name, func(t *testing.T) {
			s := signers()["RS256"]
			set := jwks(t, jwk(t, s.public, "k", purpose))
			refused(t, newVerifier(t, withSet(set)), s.sign(t, "k", serviceWith()), "unknown key id")
			_, err := auth.NewVerifier(auth.Config{JWKS: set})
			complains(t, err, "no key to verify credentials with")
		})
	}
}

func TestCertificatesAndAddressesInAKeyAreIgnored(t *testing.T) {
	set := jwks(t, jwk(t, publicKey("RS256"), "k", func(m *jwkset.JWKMarshal) {
		m.X5U, m.X5T, m.X5C = "https://keys.example.invalid/", "AAAA", []string{"not a certificate"}
	}))
	accepted(t, newVerifier(t, withSet(set)), signers()["RS256"].sign(t, "k", serviceWith()))
}

func TestAnEmptyKeySetIsFineBesideASecret(t *testing.T) {
	accepted(t, newVerifier(t, withSet([]byte(`{"keys":[]}`))), hs256(t, serviceWith()))
}

func TestAWrongKeyDoesNotStart(t *testing.T) {
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	rsaPublic := publicKey("RS256")
	weakRSA := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 2046, 1), E: 65537}
	longRSA := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 8192, 1), E: 65537}
	evenRSA := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(2), 2047, 1), E: 65537}
	good := func(change func(*jwkset.JWKMarshal)) []byte {
		return jwks(t, jwk(t, publicKey("ES256"), "good"), jwk(t, rsaPublic, "bad", change))
	}
	goodEC := func(change func(*jwkset.JWKMarshal)) []byte {
		return jwks(t, jwk(t, rsaPublic, "good"), jwk(t, publicKey("ES256"), "bad", change))
	}
	const bad = `keys[1] (kid "bad"): `
	for name, c := range map[string]struct {
		set  []byte
		want string
	}{
		"RSA of 2047 bits":     {jwks(t, jwk(t, rsaPublic, "good"), jwk(t, weakRSA, "bad")), bad + "2047 bits are too short"},
		"RSA of 8193 bits":     {jwks(t, jwk(t, rsaPublic, "good"), jwk(t, longRSA, "bad")), bad + "8193 bits are too long"},
		"RSA of an even n":     {jwks(t, jwk(t, rsaPublic, "good"), jwk(t, evenRSA, "bad")), bad + "it is no RSA key"},
		"RSA with exponent 2":  {good(func(m *jwkset.JWKMarshal) { m.E = "Ag" }), bad + "it is no RSA key"},
		"RSA with exponent 1":  {good(func(m *jwkset.JWKMarshal) { m.E = "AQ" }), bad},
		"RSA without exponent": {good(func(m *jwkset.JWKMarshal) { m.E = "" }), bad},
		"RSA with a huge exponent": {
			good(func(m *jwkset.JWKMarshal) { m.E = encode("\x01" + strings.Repeat("\x00", 8) + "\x01\x00\x01") }), bad,
		},
		"RSA for RS512":       {good(func(m *jwkset.JWKMarshal) { m.ALG = jwkset.AlgRS512 }), bad + "its alg does not fit"},
		"RSA for PS256":       {good(func(m *jwkset.JWKMarshal) { m.ALG = jwkset.AlgPS256 }), bad + "its alg does not fit"},
		"RSA for HS256":       {good(func(m *jwkset.JWKMarshal) { m.ALG = jwkset.AlgHS256 }), bad + "its alg does not fit"},
		"RSA for nothing":     {good(func(m *jwkset.JWKMarshal) { m.ALG = jwkset.AlgNone }), bad + "its alg does not fit"},
		"RSA not in base64":   {good(func(m *jwkset.JWKMarshal) { m.N = "*" + m.N }), bad},
		"RSA as a secret":     {good(func(m *jwkset.JWKMarshal) { m.KTY = jwkset.KtyOct }), bad},
		"EC P-384":            {jwks(t, jwk(t, rsaPublic, "good"), jwk(t, p384.Public(), "bad")), bad + "its type"},
		"EC for ES384":        {goodEC(func(m *jwkset.JWKMarshal) { m.ALG = jwkset.AlgES384 }), bad + "its alg does not fit"},
		"EC without a curve":  {goodEC(func(m *jwkset.JWKMarshal) { m.CRV = "" }), bad + "its type"},
		"EC beside the curve": {goodEC(func(m *jwkset.JWKMarshal) { m.X, m.Y = m.Y, m.X }), bad},
		"EC at infinity": {goodEC(func(m *jwkset.JWKMarshal) {
			m.X, m.Y = encode(strings.Repeat("\x00", 32)), encode(strings.Repeat("\x00", 32))
		}), bad},
		"unknown type":              {goodEC(func(m *jwkset.JWKMarshal) { m.KTY = "lock" }), bad + "its type"},
		"no type":                   {goodEC(func(m *jwkset.JWKMarshal) { m.KTY = "" }), bad + "its type"},
		"X25519":                    {jwks(t, jwk(t, rsaPublic, "good"), jwkset.JWKMarshal{KID: "bad", KTY: jwkset.KtyOKP, CRV: jwkset.CrvX25519, X: encode(strings.Repeat("x", 32))}), bad + "its type"},
		"Ed25519 of 31 bytes":       {jwks(t, jwk(t, rsaPublic, "good"), jwkset.JWKMarshal{KID: "bad", KTY: jwkset.KtyOKP, CRV: jwkset.CrvEd25519, X: encode(strings.Repeat("x", 31))}), bad},
		"secret of 31 bytes":        {jwks(t, jwk(t, rsaPublic, "good"), jwk(t, secret[:31], "bad")), bad + "31 bytes are too short"},
		"empty secret":              {jwks(t, jwk(t, rsaPublic, "good"), jwkset.JWKMarshal{KID: "bad", KTY: jwkset.KtyOct}), bad},
		"private RSA":               {jwks(t, jwk(t, rsaPublic, "good"), jwk(t, privateKey("RS256"), "bad")), bad + "it is a private key"},
		"private EC":                {jwks(t, jwk(t, rsaPublic, "good"), jwk(t, privateKey("ES256"), "bad")), bad + "it is a private key"},
		"private Ed25519":           {jwks(t, jwk(t, rsaPublic, "good"), jwk(t, privateKey("EdDSA"), "bad")), bad + "it is a private key"},
		"same id and algorithm":     {jwks(t, jwk(t, foreign, "bad"), jwk(t, secret, "bad")), bad + "another key has the same kid"},
		"same key twice":            {jwks(t, jwk(t, rsaPublic, "bad"), jwk(t, rsaPublic, "bad")), bad + "another key has the same kid"},
		"nothing":                   {[]byte{}, "key set is not a JSON object"},
		"not JSON":                  {[]byte("keys"), "key set is not a JSON object"},
		"a list":                    {[]byte("[]"), "key set is not a JSON object"},
		"trailing data":             {[]byte(`{"keys":[]} {}`), "key set is not a JSON object"},
		"no keys":                   {[]byte(`{}`), "key set has no member keys"},
		"null keys":                 {[]byte(`{"keys":null}`), "key set has a null"},
		"keys in capitals":          {[]byte(`{"KEYS":[]}`), "key set has a known member in different case"},
		"keys twice":                {[]byte(`{"keys":[],"keys":[]}`), "key set gives a member twice"},
		"keys an object":            {[]byte(`{"keys":{}}`), "key set has a member of the wrong type"},
		"a key that is a text":      {[]byte(`{"keys":["k"]}`), "keys[0] is not a JSON object"},
		"a key with a member twice": {[]byte(`{"keys":[{"kty":"oct","kty":"RSA"}]}`), "gives a member twice"},
		"a key with K and k":        {[]byte(`{"keys":[{"kty":"oct","k":"","K":""}]}`), "keys[0] gives a member twice"},
		"a key with kid a number":   {[]byte(`{"keys":[{"kty":"oct","kid":1}]}`), "keys[0] has a member of the wrong type"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := auth.NewVerifier(auth.Config{Secrets: [][]byte{secret}, JWKS: c.set})
			complains(t, err, c.want)
			if v != nil {
				t.Error("a verifier came with the error")
			}
			quotesNoKey(t, err, c.set)
		})
	}
}

func TestAnyPrivateMemberMakesAKeyPrivate(t *testing.T) {
	for name, spill := range map[string]func(*jwkset.JWKMarshal){
		"d":   func(m *jwkset.JWKMarshal) { m.D = "AQ" },
		"p":   func(m *jwkset.JWKMarshal) { m.P = "AQ" },
		"q":   func(m *jwkset.JWKMarshal) { m.Q = "AQ" },
		"dp":  func(m *jwkset.JWKMarshal) { m.DP = "AQ" },
		"dq":  func(m *jwkset.JWKMarshal) { m.DQ = "AQ" },
		"qi":  func(m *jwkset.JWKMarshal) { m.QI = "AQ" },
		"oth": func(m *jwkset.JWKMarshal) { m.OTH = []jwkset.OtherPrimes{{R: "AQ"}} },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := auth.NewVerifier(auth.Config{JWKS: jwks(t, jwk(t, publicKey("RS256"), "k", spill))})
			complains(t, err, "it is a private key")
		})
	}
}

func TestAMissingOrShortSecretDoesNotStart(t *testing.T) {
	for name, c := range map[string]struct {
		secrets [][]byte
		want    string
	}{
		"no secret and no key set": {nil, "no key to verify credentials with"},
		"empty list":               {[][]byte{}, "no key to verify credentials with"},
		"nil secret":               {[][]byte{nil}, "secret 1 of 1: 0 bytes are too short"},
		"empty secret":             {[][]byte{{}}, "secret 1 of 1: 0 bytes are too short"},
		"31 bytes":                 {[][]byte{secret[:31]}, "secret 1 of 1: 31 bytes are too short"},
		"empty beside a good one":  {[][]byte{secret, {}}, "secret 2 of 2: 0 bytes are too short"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := auth.NewVerifier(auth.Config{Secrets: c.secrets})
			complains(t, err, c.want)
			if strings.Contains(err.Error(), "sss") {
				t.Errorf("%q quotes the secret", err)
			}
		})
	}
}

func TestAllComplaintsAreMadeAtOnce(t *testing.T) {
	_, err := auth.NewVerifier(auth.Config{
		Secrets: [][]byte{secret[:1], secret, secret[:2]},
		JWKS:    []byte(`{"keys":[{"kty":"a"},{"kty":"b","kid":"second"},1]}`),
	})
	for _, want := range []string{"secret 1 of 3", "secret 3 of 3", "keys[0]", `keys[1] (kid "second")`, "keys[2]"} {
		complains(t, err, want)
	}
}

func complains(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got the error %v, want %q", err, want)
	}
}

// quotesNoKey looks for the texts of a key set in an error.
func quotesNoKey(t *testing.T, err error, set []byte) {
	t.Helper()
	const longestWord = 16
	for text := range strings.SplitSeq(string(set), `"`) {
		if len(text) > longestWord && strings.Contains(err.Error(), text) {
			t.Errorf("%q quotes the key set: %q", err, text)
		}
	}
}
