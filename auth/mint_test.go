package auth_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

func TestAMintedCredentialProvesWhatWasGranted(t *testing.T) {
	anHour := now.Add(time.Hour)
	for name, c := range map[string]struct {
		grant  auth.Grant
		prefix string
		want   auth.Principal
	}{
		"service-role key": {
			auth.Grant{Kind: auth.ServiceRole, Project: project}, "sk-ey",
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"*"}},
		},
		"service-role key for locks": {
			auth.Grant{Kind: auth.ServiceRole, Project: project, Permissions: []string{"locks.manage"}, KeyID: "key_1"}, "sk-ey",
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"locks.manage"}, KeyID: "key_1"},
		},
		"service-role key for nothing": {
			auth.Grant{Kind: auth.ServiceRole, Project: project, Permissions: []string{}}, "sk-ey",
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{}},
		},
		"service-role key that expires": {
			auth.Grant{Kind: auth.ServiceRole, Project: project, IssuedAt: now, ExpiresAt: anHour.Add(time.Millisecond)}, "sk-ey",
			auth.Principal{Kind: auth.ServiceRole, Project: project, Permissions: []string{"*"}, ExpiresAt: anHour},
		},
		"anon key": {
			auth.Grant{Kind: auth.Anon, Project: project, KeyID: "key_2"}, "ak-ey",
			auth.Principal{Kind: auth.Anon, Project: project, KeyID: "key_2"},
		},
		"auth-user access token": {
			auth.Grant{Kind: auth.AuthUser, Project: project, UserID: "user-7", ExpiresAt: anHour}, "ey",
			auth.Principal{Kind: auth.AuthUser, Project: project, UserID: "user-7", ExpiresAt: anHour},
		},
		"platform JWT": {
			auth.Grant{Kind: auth.Platform, KeyID: "key_3"}, "ey",
			auth.Principal{Kind: auth.Platform, KeyID: "key_3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			credential, err := auth.Mint(secret, c.grant)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(credential, c.prefix) {
				t.Errorf("%q does not start with %s", credential, c.prefix)
			}
			if got := accepted(t, newVerifier(t), credential); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %#v\nwant %#v", got, c.want)
			}
		})
	}
}

func TestMintWritesExactlyTheseClaims(t *testing.T) {
	for name, c := range map[string]struct {
		grant auth.Grant
		want  string
	}{
		"all": {
			auth.Grant{
				Kind: auth.ServiceRole, Project: project, Permissions: []string{"a", "b"}, KeyID: "key_1", UserID: "user-7",
				Issuer: "issuer", Audience: "locks", IssuedAt: now, ExpiresAt: now.Add(time.Hour),
			},
			`{"role":"service_role","project_id":"6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11","permissions":["a","b"],` +
				`"jti":"key_1","sub":"user-7","iss":"issuer","aud":["locks"],"exp":1784559600,"iat":1784556000}`,
		},
		"fewest":         {auth.Grant{Kind: auth.Platform}, `{"role":"platform"}`},
		"no permissions": {auth.Grant{Kind: auth.Platform, Permissions: []string{}}, `{"role":"platform","permissions":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			credential, err := auth.Mint(secret, c.grant)
			if err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(credential, ".")
			if got := decoded(parts[1]); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			var header map[string]any
			err = json.Unmarshal([]byte(decoded(strings.TrimPrefix(parts[0], "sk-"))), &header)
			if want := map[string]any{"alg": "HS256", "typ": "JWT"}; err != nil || !reflect.DeepEqual(header, want) {
				t.Errorf("got the header %v, %v", header, err)
			}
		})
	}
}

func TestAMintedCredentialNamesItsIssuerAndAudience(t *testing.T) {
	credential, err := auth.Mint(secret, auth.Grant{Kind: auth.Anon, Project: project, Issuer: "issuer", Audience: "locks"})
	if err != nil {
		t.Fatal(err)
	}
	accepted(t, newVerifier(t, func(c *auth.Config) { c.Issuer, c.Audience = "issuer", "locks" }), credential)
	refused(t, newVerifier(t, func(c *auth.Config) { c.Issuer = "someone" }), credential, "another issuer")
	refused(t, newVerifier(t, func(c *auth.Config) { c.Audience = "files" }), credential, "another audience")
}

func TestMintRefusesNonsense(t *testing.T) {
	good := auth.Grant{Kind: auth.AuthUser, Project: project, IssuedAt: now, ExpiresAt: now.Add(time.Hour)}
	for name, c := range map[string]struct {
		secret []byte
		spoil  func(*auth.Grant)
		want   string
	}{
		"no secret":                     {nil, func(*auth.Grant) {}, "too short"},
		"empty secret":                  {[]byte{}, func(*auth.Grant) {}, "too short"},
		"short secret":                  {secret[:31], func(*auth.Grant) {}, "31 bytes are too short"},
		"no kind":                       {secret, func(g *auth.Grant) { g.Kind = "" }, "role is none of"},
		"unknown kind":                  {secret, func(g *auth.Grant) { g.Kind = "admin" }, "role is none of"},
		"auth user without project":     {secret, func(g *auth.Grant) { g.Project = uuid.Nil }, "no project"},
		"anon without project":          {secret, func(g *auth.Grant) { g.Kind, g.Project = auth.Anon, uuid.Nil }, "no project"},
		"service role without project":  {secret, func(g *auth.Grant) { g.Kind, g.Project = auth.ServiceRole, uuid.Nil }, "no project"},
		"auth user without expiry":      {secret, func(g *auth.Grant) { g.ExpiresAt = time.Time{} }, "without an expiry"},
		"expired when issued":           {secret, func(g *auth.Grant) { g.ExpiresAt = now }, "expired"},
		"expired within the second":     {secret, func(g *auth.Grant) { g.ExpiresAt = now.Add(time.Millisecond) }, "expired"},
		"expiry in 1970, which is none": {secret, func(g *auth.Grant) { g.ExpiresAt = time.Unix(0, 0) }, "out of range"},
		"expiry before 1970":            {secret, func(g *auth.Grant) { g.ExpiresAt = time.Unix(-1, 0) }, "out of range"},
		"expiry after 9999":             {secret, func(g *auth.Grant) { g.ExpiresAt = time.Unix(253402300800, 0) }, "out of range"},
		"issued before 1970":            {secret, func(g *auth.Grant) { g.IssuedAt = time.Unix(-1, 0) }, "out of range"},
		"too much":                      {secret, func(g *auth.Grant) { g.KeyID = strings.Repeat("x", auth.MaxLength) }, "8 KiB"},
		"key id not in UTF-8":           {secret, func(g *auth.Grant) { g.KeyID = "key\xff" }, "UTF-8"},
		"user id not in UTF-8":          {secret, func(g *auth.Grant) { g.UserID = "user\xff" }, "UTF-8"},
		"permission not in UTF-8":       {secret, func(g *auth.Grant) { g.Permissions = []string{"\xc3", "\xa9"} }, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			g := good
			c.spoil(&g)
			credential, err := auth.Mint(c.secret, g)
			complains(t, err, c.want)
			if credential != "" {
				t.Error("a credential came with the error")
			}
		})
	}
	if _, err := auth.Mint(secret, good); err != nil {
		t.Errorf("the grant was nonsense before it was spoilt: %v", err)
	}
}
