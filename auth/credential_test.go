package auth_test

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

const inAnHour = `"exp":1784559600`

func TestACredentialProvesItsKind(t *testing.T) {
	anHour := now.Add(time.Hour)
	upper := strings.ToUpper(project.String())
	for name, c := range map[string]struct {
		prefix, payload string
		want            auth.Principal
		managesLocks    bool
	}{
		"service-role key": {
			"sk-", serviceWith(`"jti":"key_1"`),
			auth.Principal{Kind: auth.ServiceRole, Project: project, KeyID: "key_1", Permissions: []string{"*"}}, true,
		},
		"service-role key without its prefix": {
			"", serviceWith(),
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"*"}}, true,
		},
		"service-role key for locks": {
			"sk-", serviceWith(`"permissions":["locks.manage"]`),
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"locks.manage"}}, true,
		},
		"service-role key for something else": {
			"sk-", serviceWith(`"permissions":["files.read"]`),
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"files.read"}}, false,
		},
		"service-role key for nothing": {
			"sk-", serviceWith(`"permissions":[]`),
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{}}, false,
		},
		"service-role key that expires": {
			"sk-", serviceWith(inAnHour),
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"*"}, ExpiresAt: anHour}, true,
		},
		"anon key": {
			"ak-", claimsOf("anon", `"jti":"key_2"`),
			auth.Principal{Kind: auth.Anon, Project: project, KeyID: "key_2"}, false,
		},
		"anon key without its prefix": {
			"", claimsOf("anon"),
			auth.Principal{Kind: auth.Anon, Project: project}, false,
		},
		"anon key with permissions": {
			"ak-", claimsOf("anon", `"permissions":["*","locks.manage"]`),
			auth.Principal{Kind: auth.Anon, Project: project, Permissions: []string{"*", "locks.manage"}}, false,
		},
		"auth-user access token": {
			"", claimsOf("authenticated", inAnHour, `"sub":"user-7"`),
			auth.Principal{Kind: auth.AuthUser, Project: project, UserID: "user-7", ExpiresAt: anHour}, false,
		},
		"platform JWT": {
			"", `{"role":"platform","jti":"key_3"}`,
			auth.Principal{Kind: auth.Platform, KeyID: "key_3"}, false,
		},
		"unknown claims": {
			"sk-", serviceWith(`"session":{"a":1,"A":[null,1e400]},"roles":null`),
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"*"}}, true,
		},
		"project in capitals": {
			"sk-", `{"role":"service_role","project_id":"` + upper + `"}`,
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"*"}}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(t, newVerifier(t), c.prefix+hs256(t, c.payload))
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %#v\nwant %#v", got, c.want)
			}
			if got.CanManageLocks() != c.managesLocks {
				t.Errorf("manages locks: %v", got.CanManageLocks())
			}
		})
	}
}

func Test64HexDigitsAreAPlatformTokenWithoutAProject(t *testing.T) {
	for _, credential := range []string{
		strings.Repeat("0a", 32), strings.Repeat("F9", 32), strings.Repeat("cD", 32),
	} {
		got := accepted(t, newVerifier(t), credential)
		if !reflect.DeepEqual(got, auth.Principal{Kind: auth.Platform}) {
			t.Errorf("got %#v", got)
		}
	}
}

func TestAPrefixThatContradictsTheRoleIsRefused(t *testing.T) {
	for name, credential := range map[string]string{
		"ak- service-role key":       "ak-" + hs256(t, serviceWith()),
		"sk- anon key":               "sk-" + hs256(t, claimsOf("anon")),
		"sk- auth-user access token": "sk-" + hs256(t, claimsOf("authenticated", inAnHour)),
		"ak- auth-user access token": "ak-" + hs256(t, claimsOf("authenticated", inAnHour)),
		"sk- platform JWT":           "sk-" + hs256(t, `{"role":"platform"}`),
		"ak- platform JWT":           "ak-" + hs256(t, `{"role":"platform"}`),
	} {
		t.Run(name, func(t *testing.T) { refused(t, newVerifier(t), credential, "prefix contradicts its role") })
	}
}

func TestWhatHasNoShapeOfACredentialIsRefused(t *testing.T) {
	token := hs256(t, serviceWith())
	parts := strings.Split(token, ".")
	lineBreak := func(part int) string {
		broken := append([]string(nil), parts...)
		broken[part] = broken[part][:8] + "\n" + broken[part][8:]
		return strings.Join(broken, ".")
	}
	for name, credential := range map[string]string{
		"nothing":                      "",
		"a word":                       "password",
		"two segments":                 parts[0] + "." + parts[1],
		"four segments":                token + ".e30",
		"63 hex digits":                strings.Repeat("a", 63),
		"65 hex digits":                strings.Repeat("a", 65),
		"66 hex digits":                strings.Repeat("a", 66),
		"64 letters, not all hex":      strings.Repeat("a", 63) + "g",
		"sk- and 64 hex digits":        "sk-" + strings.Repeat("a", 64),
		"ak- and 64 hex digits":        "ak-" + strings.Repeat("a", 64),
		"64 hex digits and a space":    strings.Repeat("a", 64) + " ",
		"prefix in capitals":           "SK-" + token,
		"prefix twice":                 "sk-sk-" + token,
		"two prefixes":                 "ak-sk-" + token,
		"prefix alone":                 "sk-",
		"space before":                 " " + token,
		"space after":                  token + " ",
		"line break in the header":     lineBreak(0),
		"line break in the claims":     lineBreak(1),
		"line break in the signature":  lineBreak(2),
		"carriage return at the end":   token + "\r",
		"NUL at the end":               token + "\x00",
		"padding":                      token + "=",
		"the other base64 alphabet":    parts[0] + "." + parts[1] + "+/." + parts[2],
		"header that is not base64":    "a." + parts[1] + "." + parts[2],
		"claims that are not base64":   parts[0] + ".a." + parts[2],
		"signature that is not base64": parts[0] + "." + parts[1] + ".a",
		"letters beyond ASCII":         parts[0] + "." + parts[1] + "é." + parts[2],
		"bytes that are not UTF-8":     parts[0] + "." + parts[1] + "\xff." + parts[2],
	} {
		t.Run(name, func(t *testing.T) { refused(t, newVerifier(t), credential, "neither a JSON Web Token nor") })
	}
}

func TestACredentialIsReadUpTo8KiB(t *testing.T) {
	// The JWT's three segments and two dots are to reach the bound exactly.
	fits := func(length int) string {
		for padding := length / 2; padding < length; padding++ {
			if token := hs256(t, serviceWith(`"x":"`+strings.Repeat("x", padding)+`"`)); len(token) == length {
				return token
			}
		}
		t.Fatalf("no token of %d bytes", length)
		return ""
	}
	longest := fits(auth.MaxLength)
	accepted(t, newVerifier(t), longest)
	refused(t, newVerifier(t), "sk-"+longest, "longer than 8 KiB")
	refused(t, newVerifier(t), strings.Repeat("a", auth.MaxLength+1), "longer than 8 KiB")
}

func TestATokenThatNoConfiguredKeySignedIsRefused(t *testing.T) {
	token := hs256(t, serviceWith())
	parts := strings.Split(token, ".")
	other := strings.Split(hs256(t, claimsOf("anon")), ".")
	for name, credential := range map[string]string{
		"foreign secret":        sign(t, jwt.SigningMethodHS256, foreign, hs256Header, serviceWith()),
		"empty secret":          sign(t, jwt.SigningMethodHS256, []byte{}, hs256Header, serviceWith()),
		"zero secret":           sign(t, jwt.SigningMethodHS256, make([]byte, auth.MinSecretBytes), hs256Header, serviceWith()),
		"part of the secret":    sign(t, jwt.SigningMethodHS256, secret[:31], hs256Header, serviceWith()),
		"no signature":          parts[0] + "." + parts[1] + ".",
		"part of the signature": parts[0] + "." + parts[1] + "." + parts[2][:len(parts[2])-3],
		"more signature":        parts[0] + "." + parts[1] + "." + parts[2] + "AAAA",
		"another's signature":   parts[0] + "." + parts[1] + "." + other[2],
		"another's claims":      parts[0] + "." + other[1] + "." + parts[2],
		"another header":        encode(`{"alg":"HS256"}`) + "." + parts[1] + "." + parts[2],
		"HS512 under the name of HS256": sign(t, jwt.SigningMethodHS512, secret,
			hs256Header, serviceWith()),
	} {
		t.Run(name, func(t *testing.T) { refused(t, newVerifier(t), credential, "signature is not valid") })
	}
}

func TestOneSignatureHasOneText(t *testing.T) {
	// 32 bytes leave two bits of the last character unused: three other
	// characters decode to the same signature for a lenient decoder.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	token := hs256(t, serviceWith())
	accepted(t, newVerifier(t), token)
	last := strings.IndexByte(alphabet, token[len(token)-1])
	for bits := 1; bits < 4; bits++ {
		refused(t, newVerifier(t), token[:len(token)-1]+string(alphabet[last^bits]), "neither a JSON Web Token nor")
	}
}

func TestAnAlgorithmOutsideTheFourIsRefused(t *testing.T) {
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "HS384", "HS512", "RS512", "PS256", "ES384", "hs256", "Ed25519", "dir"} {
		t.Run(alg, func(t *testing.T) {
			header := `{"alg":"` + alg + `"}`
			signed := sign(t, jwt.SigningMethodHS256, secret, header, serviceWith())
			unsigned := sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, header, serviceWith())
			for _, credential := range []string{signed, unsigned, "sk-" + unsigned} {
				refused(t, newVerifier(t), credential, "algorithm (alg) is none of")
			}
		})
	}
	t.Run("no alg", func(t *testing.T) {
		refused(t, newVerifier(t), sign(t, jwt.SigningMethodHS256, secret, `{"typ":"JWT"}`, serviceWith()), "algorithm (alg) is none of")
	})
	t.Run("HS512, really signed so", func(t *testing.T) {
		refused(t, newVerifier(t), sign(t, jwt.SigningMethodHS512, secret, `{"alg":"HS512"}`, serviceWith()), "algorithm (alg) is none of")
	})
}

func TestAHeaderIsReadStrictly(t *testing.T) {
	for name, c := range map[string]struct{ header, want string }{
		"crit":                        {`{"alg":"HS256","crit":["exp"]}`, "extension (crit)"},
		"empty crit":                  {`{"alg":"HS256","crit":[]}`, "extension (crit)"},
		"crit that is no list":        {`{"alg":"HS256","crit":false}`, "extension (crit)"},
		"null crit":                   {`{"alg":"HS256","crit":null}`, "header has a null"},
		"crit in capitals":            {`{"alg":"HS256","CRIT":["exp"]}`, "header has a known member in different case"},
		"alg twice":                   {`{"alg":"none","alg":"HS256"}`, "header gives a member twice"},
		"alg twice, same":             {`{"alg":"HS256","alg":"HS256"}`, "header gives a member twice"},
		"alg again in capitals":       {`{"alg":"HS256","ALG":"none"}`, "header gives a member twice"},
		"alg in capitals":             {`{"ALG":"HS256"}`, "header has a known member in different case"},
		"alg escaped, twice":          {`{"alg":"HS256","\u0061lg":"none"}`, "header gives a member twice"},
		"kid with the Kelvin sign":    {`{"alg":"HS256","\u212aid":"key-HS256"}`, "header has a known member in different case"},
		"null alg":                    {`{"alg":null}`, "header has a null"},
		"null kid":                    {`{"alg":"HS256","kid":null}`, "header has a null"},
		"null typ":                    {`{"alg":"HS256","typ":null}`, "header has a null"},
		"alg a list":                  {`{"alg":["HS256"]}`, "header has a member of the wrong type"},
		"kid a number":                {`{"alg":"HS256","kid":1}`, "header has a member of the wrong type"},
		"typ a number":                {`{"alg":"HS256","typ":1}`, "header has a member of the wrong type"},
		"unknown member twice":        {`{"alg":"HS256","x":1,"x":1}`, "header gives a member twice"},
		"unknown member in two cases": {`{"alg":"HS256","x":1,"X":1}`, "header gives a member twice"},
		"inner member twice":          {`{"alg":"HS256","x":{"y":1,"y":2}}`, "header gives a member twice"},
		"trailing data":               {`{"alg":"HS256"}{}`, "header is not a JSON object"},
		"trailing comma":              {`{"alg":"HS256",}`, "header is not a JSON object"},
		"a list":                      {`["HS256"]`, "header is not a JSON object"},
		"null":                        {`null`, "header is not a JSON object"},
		"nothing":                     {``, "header is not a JSON object"},
		"not UTF-8":                   {"{\"alg\":\"HS256\",\"x\":\"\xff\"}", "header is not a JSON object"},
		"too deep":                    {`{"alg":"HS256","x":` + nested(40) + `}`, "header is nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, newVerifier(t), sign(t, jwt.SigningMethodHS256, secret, c.header, serviceWith()), c.want)
		})
	}
}

func TestAHeaderMayHaveOtherMembers(t *testing.T) {
	for _, header := range []string{
		`{"alg":"HS256"}`,
		`{"alg":"HS256","typ":"at+jwt"}`,
		`{"typ":"JWT","alg":"HS256","cty":"x","algorithm":"none"}`,
		` {"alg" : "HS256", "jku":"https://keys.example.invalid/", "jwk":{"kty":"oct","k":""}, "x5u":null} `,
	} {
		accepted(t, newVerifier(t), sign(t, jwt.SigningMethodHS256, secret, header, serviceWith()))
	}
}

func TestIssuerAndAudienceAreRequiredWhenConfigured(t *testing.T) {
	issuer := func(c *auth.Config) { c.Issuer = "https://issuer.example" }
	audience := func(c *auth.Config) { c.Audience = "locks" }
	for name, c := range map[string]struct {
		config func(*auth.Config)
		claim  string
		want   string // empty: accepted
	}{
		"issuer":                        {issuer, `"iss":"https://issuer.example"`, ""},
		"another issuer":                {issuer, `"iss":"https://issuer.example.org"`, "another issuer"},
		"issuer in capitals":            {issuer, `"iss":"HTTPS://ISSUER.EXAMPLE"`, "another issuer"},
		"no issuer":                     {issuer, `"x":1`, "lacks the issuer"},
		"empty issuer":                  {issuer, `"iss":""`, "lacks the issuer"},
		"issuer, none configured":       {audience, `"iss":"anyone","aud":"locks"`, ""},
		"audience":                      {audience, `"aud":"locks"`, ""},
		"audience in a list":            {audience, `"aud":["files","locks"]`, ""},
		"another audience":              {audience, `"aud":"files"`, "another audience"},
		"other audiences":               {audience, `"aud":["files","lock","locks2","LOCKS"]`, "another audience"},
		"no audience":                   {audience, `"x":1`, "lacks the issuer (iss) or the audience"},
		"empty list of audiences":       {audience, `"aud":[]`, "lacks the issuer (iss) or the audience"},
		"audience, none configured":     {issuer, `"aud":"anyone","iss":"https://issuer.example"`, ""},
		"issuer and audience exchanged": {issuer, `"aud":"https://issuer.example"`, "lacks the issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			credential := hs256(t, serviceWith(c.claim))
			if c.want == "" {
				accepted(t, newVerifier(t, c.config), credential)
			} else {
				refused(t, newVerifier(t, c.config), credential, c.want)
			}
		})
	}
}

func TestTimesGetNoLeeway(t *testing.T) {
	for name, c := range map[string]struct {
		claim string
		want  string // empty: accepted
	}{
		"expires in a second":               {`"exp":1784556001`, ""},
		"expires now":                       {`"exp":1784556000`, "expired"},
		"expires half a second ago":         {`"exp":1784555999.5`, "expired"},
		"expires in half a second":          {`"exp":1784556000.5`, ""},
		"expires in another form of number": {`"exp":17845560.01e2`, ""},
		"expired a second ago":              {`"exp":1784555999`, "expired"},
		"expired half a century ago":        {`"exp":1`, "expired"},
		"valid from now":                    {`"nbf":1784556000`, ""},
		"valid in half a second":            {`"nbf":1784556000.5`, "not valid yet"},
		"valid in a second":                 {`"nbf":1784556001`, "not valid yet"},
		"valid for a second":                {`"nbf":1784555999`, ""},
		"valid and expired":                 {`"nbf":1784555000,"exp":1784555001`, "expired"},
		"made in a clock's future":          {`"iat":1784556001`, ""},
		"expires at the end of 9999":        {`"exp":253402300799`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			credential := hs256(t, serviceWith(c.claim))
			if c.want == "" {
				accepted(t, newVerifier(t), credential)
			} else {
				refused(t, newVerifier(t), credential, c.want)
			}
		})
	}
}

func TestASecondSecretServesDuringARotation(t *testing.T) {
	both := newVerifier(t, func(c *auth.Config) { c.Secrets = [][]byte{foreign, secret} })
	accepted(t, both, hs256(t, serviceWith()))
	accepted(t, both, sign(t, jwt.SigningMethodHS256, foreign, hs256Header, serviceWith()))
	third := []byte(strings.Repeat("t", auth.MinSecretBytes))
	refused(t, both, sign(t, jwt.SigningMethodHS256, third, hs256Header, serviceWith()), "signature is not valid")
}

func TestTheVerifierKeepsItsOwnCopyOfASecret(t *testing.T) {
	mine := append([]byte(nil), secret...)
	v := newVerifier(t, func(c *auth.Config) { c.Secrets = [][]byte{mine} })
	clear(mine)
	accepted(t, v, hs256(t, serviceWith()))
}

func TestTheClockIsTheSystemsByDefault(t *testing.T) {
	v := newVerifier(t, func(c *auth.Config) { c.Now = nil })
	accepted(t, v, hs256(t, serviceWith(`"nbf":946684800,"exp":253402300799`)))
	refused(t, v, hs256(t, serviceWith(`"exp":946684800`)), "expired")
}

func TestManyMayVerifyAtOnce(t *testing.T) {
	v := newVerifier(t, withSet(signersSet(t)))
	var group sync.WaitGroup
	for alg, s := range signers() {
		credential := s.sign(t, "key-"+alg, serviceWith())
		for range 4 {
			group.Go(func() {
				if p, err := v.Verify(credential); err != nil || p.Project == uuid.Nil {
					t.Errorf("%s: got %+v, %v", alg, p, err)
				}
			})
		}
	}
	group.Wait()
}

func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}
