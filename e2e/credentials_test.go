package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// credentialCase is a credential, and what must be seen of it on lock endpoints.
type credentialCase struct {
	name       string
	credential string
	status     int
	says       []string // in the text of the error
}

const needed = "service-role key" // what every 403 names

func (c credentialCase) check(t *testing.T, g *gateway) {
	t.Helper()
	a := g.clientWith(t, c.credential).read("key")
	switch c.status {
	case http.StatusOK:
		a.free()
	case http.StatusUnauthorized:
		wantUnauthorized(a, c.says...)
	default:
		a.want(c.status, "forbidden").says(append(c.says, needed)...).uncounted()
	}
}

func wantUnauthorized(a answer, says ...string) {
	a.t.Helper()
	a.want(http.StatusUnauthorized, "unauthorized").says(says...).uncounted()
	if got := a.header.Values("WWW-Authenticate"); len(got) != 1 || got[0] != "Bearer" {
		a.t.Errorf("%v has WWW-Authenticate %q, want Bearer", a, got)
	}
}

// bare is a key without its prefix.
func bare(key string) string { return key[len("sk-"):] }

func TestCredentials(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	g := start(t, settings{"GATEWAY_JWKS_FILE": writeFile(t, "jwks.json", keySet(t, keys))})
	cases := grantedCases(t, g)
	cases = append(cases, forgedCases(t, g, keys)...)
	cases = append(cases, claimCases(t, g)...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.check(t, g) })
	}
}

// grantedCases are credentials as they are handed out.
func grantedCases(t *testing.T, g *gateway) []credentialCase {
	project := uuid.New()
	mint := func(kind auth.Kind, permissions ...string) string {
		return g.mint(t, auth.Grant{Kind: kind, Project: project, Permissions: permissions})
	}
	service, anon := mint(auth.ServiceRole), mint(auth.Anon, "*")
	inAnHour := time.Now().Add(time.Hour)
	user := g.mint(t, auth.Grant{Kind: auth.AuthUser, Project: project, UserID: "user-7", ExpiresAt: inAnHour, Permissions: []string{"*"}})
	hex := strings.Repeat("0123456789abcdef", 4)
	return []credentialCase{
		{"service key", service, 200, nil},
		{"service key without its prefix", bare(service), 200, nil},
		{"service key that expires", g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: project, ExpiresAt: inAnHour}), 200, nil},
		{"service key with permission *", mint(auth.ServiceRole, "*"), 200, nil},
		{"service key with permission locks.manage", mint(auth.ServiceRole, "locks.manage"), 200, nil},
		{"service key with that and another", mint(auth.ServiceRole, "files.read", "locks.manage"), 200, nil},
		{"service key with another permission", mint(auth.ServiceRole, "locks.read"), 403, []string{"locks.manage"}},
		{"service key with a permission in other letters", mint(auth.ServiceRole, "Locks.Manage"), 403, []string{"locks.manage"}},
		{"service key with empty permissions", g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: project, Permissions: []string{}}), 403, []string{"locks.manage"}},
		{"anon key", anon, 403, []string{"anon key"}},
		{"anon key without its prefix", bare(anon), 403, []string{"anon key"}},
		{"user token", user, 403, []string{"auth-user access token"}},
		{"platform token", hex, 403, []string{"platform token"}},
		{"platform token in upper case", strings.ToUpper(hex), 403, []string{"platform token"}},
		{"platform JWT", g.mint(t, auth.Grant{Kind: auth.Platform, Permissions: []string{"*"}}), 403, []string{"platform token"}},
		{"platform token too short", hex[1:], 401, nil},
		{"platform token too long", hex + "0", 401, nil},
		{"platform token with a letter", hex[1:] + "g", 401, nil},
		{"service key with the prefix of an anon key", "ak-" + bare(service), 401, []string{"prefix"}},
		{"anon key with the prefix of a service key", "sk-" + bare(anon), 401, []string{"prefix"}},
		{"user token with the prefix of a service key", "sk-" + user, 401, []string{"prefix"}},
		{"prefix in upper case", "SK-" + bare(service), 401, nil},
		{"prefix alone", "sk-", 401, nil},
		{"text", "let-me-in", 401, nil},
	}
}

// forgedCases are about signatures.
func forgedCases(t *testing.T, g *gateway, keys map[string]keyPair) []credentialCase {
	claims := claimsOf(`"role":"service_role"`, fmt.Sprintf(`"project_id":%q`, uuid.New()))
	good := g.sign(t, claims)
	hs256, secret := jwt.SigningMethodHS256, []byte(g.settings["GATEWAY_JWT_SECRET"])
	rs, es, ed, hs := keys["RS256"], keys["ES256"], keys["EdDSA"], keys["HS256"]
	signed := func(k keyPair, header string) string { return signToken(t, k.method, k.private, header, claims) }
	cases := []credentialCase{
		{"signed with the secret", good, 200, nil},
		{"signed by a stranger", signToken(t, hs256, []byte(newSecret()), plainHeader, claims), 401, []string{"signature"}},
		{"signature cut short", good[:len(good)-4], 401, nil},
		{"signature missing", good[:strings.LastIndexByte(good, '.')+1], 401, nil},
		{"no algorithm", signToken(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, `{"alg":"none"}`, claims), 401, []string{"alg"}},
		{"algorithm that nobody configured", signToken(t, jwt.SigningMethodHS512, secret, `{"alg":"HS512"}`, claims), 401, []string{"alg"}},
		{"unknown key id", signed(rs, `{"alg":"RS256","kid":"kid-of-nobody"}`), 401, []string{"kid"}},
		{"key id of a key of another type", signed(rs, `{"alg":"RS256","kid":"kid-ES256"}`), 401, []string{"kid"}},
		{"key id of another secret", signToken(t, hs256, secret, hs.header(), claims), 401, []string{"signature"}},
		{"public key as a secret", signToken(t, hs256, []byte(rs.public["n"]), `{"alg":"HS256","kid":"kid-RS256"}`, claims), 401, []string{"kid"}},
		{"private key without its key id", signed(ed, `{"alg":"EdDSA"}`), 401, []string{"kid"}},
	}
	for _, k := range []keyPair{rs, es, ed, hs} {
		cases = append(cases, credentialCase{"signed with the key set's " + k.method.Alg(), signed(k, k.header()), 200, nil})
	}
	return cases
}

// claimCases are about what a token with a good signature says.
func claimCases(t *testing.T, g *gateway) []credentialCase {
	now := time.Now().Unix()
	service, project := `"role":"service_role"`, fmt.Sprintf(`"project_id":%q`, uuid.New())
	at := func(name string, distance int64) string { return fmt.Sprintf("%q:%d", name, now+distance) }
	with := func(members ...string) string {
		return g.sign(t, claimsOf(append([]string{service, project}, members...)...))
	}
	return []credentialCase{
		{"expires in the future", with(at("exp", 600)), 200, nil},
		{"expired", with(at("exp", -1)), 401, []string{"expired"}},
		{"exp is 0", with(`"exp":0`), 401, nil},
		{"exp is null", with(`"exp":null`), 401, nil},
		{"exp is text", with(fmt.Sprintf(`"exp":"%d"`, now+600)), 401, nil},
		{"exp is 1e300", with(`"exp":1e300`), 401, nil},
		{"valid since", with(at("nbf", -1)), 200, nil},
		{"not yet valid", with(at("nbf", 600)), 401, []string{"not valid yet"}},
		{"user token without expiry", g.sign(t, claimsOf(`"role":"authenticated"`, project)), 401, []string{"exp"}},
		{"no project", g.sign(t, claimsOf(service)), 401, []string{"project"}},
		{"anon key without project", g.sign(t, claimsOf(`"role":"anon"`)), 401, []string{"project"}},
		{"project is not a UUID", g.sign(t, claimsOf(service, `"project_id":"billing"`)), 401, []string{"project"}},
		{"project is the nil UUID", g.sign(t, claimsOf(service, fmt.Sprintf(`"project_id":%q`, uuid.Nil))), 401, []string{"project"}},
		{"no role", g.sign(t, claimsOf(project)), 401, []string{"role"}},
		{"unknown role", g.sign(t, claimsOf(`"role":"root"`, project)), 401, []string{"role"}},
		{"role in upper case", g.sign(t, claimsOf(`"role":"SERVICE_ROLE"`, project)), 401, []string{"role"}},
		{"role twice", g.sign(t, claimsOf(`"role":"anon"`, service, project)), 401, []string{"twice"}},
		{"role twice in different case", g.sign(t, claimsOf(`"role":"anon"`, `"ROLE":"service_role"`, project)), 401, []string{"twice"}},
		{"project twice", with(project), 401, []string{"twice"}},
		{"exp twice", with(at("exp", 600), at("exp", 700)), 401, []string{"twice"}},
		{"permissions twice", with(`"permissions":[]`, `"Permissions":["*"]`), 401, []string{"twice"}},
		{"permissions in upper case", with(`"PERMISSIONS":["*"]`), 401, []string{"case"}},
		{"permissions are text", with(`"permissions":"locks.manage"`), 401, nil},
		{"permissions are null", with(`"permissions":null`), 401, nil},
		{"claims are a list", g.sign(t, `["service_role"]`), 401, nil},
		{"more claims", with(`"team":"billing"`), 200, nil},
	}
}

func TestAuthorizationHeaders(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	c := g.client(t, uuid.New())
	good := "Bearer " + c.credential
	for name, values := range map[string][]string{
		"missing":                    {},
		"empty":                      {""},
		"twice":                      {good, good},
		"twice, the first wrong":     {"Bearer x", good},
		"twice, the second wrong":    {good, "Bearer x"},
		"no scheme":                  {c.credential},
		"scheme alone":               {"Bearer"},
		"scheme and space alone":     {"Bearer "},
		"another scheme":             {"Basic " + c.credential},
		"scheme without a space":     {"Bearer" + c.credential},
		"two spaces":                 {"Bearer  " + c.credential},
		"two credentials in one":     {good + ", " + good},
		"something after":            {good + " x"},
		"something before":           {"x " + good},
		"longer than any credential": {"Bearer " + strings.Repeat("a", 9000)},
	} {
		t.Run(name, func(t *testing.T) {
			c := g.clientWith(t, "")
			wantUnauthorized(c.do(read("key").with(authorization, values...)))
		})
	}
	c.do(read("key").with(authorization, good)).free()
}

func TestEveryLockEndpointAsksForTheSameCredential(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	project, owner := uuid.New(), uuid.New()
	service := g.client(t, project)
	service.acquire("key", owner, 60).granted(http.StatusCreated)
	anonKey := g.mint(t, auth.Grant{Kind: auth.Anon, Project: project})
	for _, r := range []request{
		acquire("key", owner, 60), renew("key", owner, 60), read("key"), release("key", owner), forceRelease("key"),
	} {
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			anon := g.clientWith(t, anonKey)
			anon.do(r).want(http.StatusForbidden, "forbidden").says("anon key", needed)
			wantUnauthorized(anon.do(r.with(authorization)))
		})
	}
	service.read("key").held()
}

func TestIssuerAndAudienceMustMatchWhenSet(t *testing.T) {
	t.Parallel()
	g := start(t, settings{"GATEWAY_JWT_ISSUER": "https://issuer.example", "GATEWAY_JWT_AUDIENCE": "locks"})
	project := uuid.New()
	from := func(issuer, audience string) string {
		return g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: project, Issuer: issuer, Audience: audience})
	}
	several := g.sign(t, claimsOf(`"role":"service_role"`, fmt.Sprintf(`"project_id":%q`, project),
		`"iss":"https://issuer.example"`, `"aud":["files","locks"]`))
	for _, c := range []credentialCase{
		{"both match", from("https://issuer.example", "locks"), 200, nil},
		{"one audience of several", several, 200, nil},
		{"another issuer", from("https://issuer.example/", "locks"), 401, []string{"issuer"}},
		{"another audience", from("https://issuer.example", "files"), 401, []string{"audience"}},
		{"no issuer", from("", "locks"), 401, []string{"issuer"}},
		{"no audience", from("https://issuer.example", ""), 401, []string{"audience"}},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, g) })
	}
}

func TestThePolicyFileShutsOutProjectsAndKeys(t *testing.T) {
	t.Parallel()
	suspended, revoking := uuid.New(), uuid.New()
	g := start(t, settings{"GATEWAY_POLICY_FILE": writeFile(t, "policy.yaml", fmt.Sprintf(
		"projects:\n  %s:\n    suspended: true\n  %s:\n    revoked_keys: [key_old]\n", suspended, revoking))})
	for _, c := range []struct {
		name    string
		project uuid.UUID
		keyID   string
		status  int
		code    string
		says    string
	}{
		{"suspended project", suspended, "key_new", 403, "forbidden", "suspended"},
		{"revoked key", revoking, "key_old", 401, "unauthorized", "revoked"},
		{"another key of that project", revoking, "key_new", 200, "", ""},
		{"a key without an id", revoking, "", 200, "", ""},
		{"that id in another project", uuid.New(), "key_old", 200, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := g.mint(t, auth.Grant{Kind: auth.ServiceRole, Project: c.project, KeyID: c.keyID})
			a := g.clientWith(t, key).read("key").want(c.status, c.code).says(c.says)
			if c.status != http.StatusOK {
				a.uncounted()
			}
		})
	}
}
