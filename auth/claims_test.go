package auth_test

import (
	"strings"
	"testing"
	"time"
)

func TestClaimsAreReadStrictly(t *testing.T) {
	const (
		twice   = "claims gives a member twice"
		other   = "claims has a known member in different case"
		null    = "claims has a null"
		typ     = "claims has a member of the wrong type"
		object  = "claims is not a JSON object"
		malform = "neither a JSON Web Token nor"
	)
	for name, c := range map[string]struct{ payload, want string }{
		"role again in capitals":            {`{"role":"anon","ROLE":"service_role","project_id":"` + project.String() + `"}`, twice},
		"role again, capitals first":        {`{"ROLE":"service_role","role":"anon","project_id":"` + project.String() + `"}`, other},
		"role twice":                        {claimsOf("anon", `"role":"service_role"`), twice},
		"role twice, same":                  {serviceWith(`"role":"service_role"`), twice},
		"role twice, once escaped":          {claimsOf("anon", `"\u0072ole":"service_role"`), twice},
		"role in capitals alone":            {`{"Role":"service_role","project_id":"` + project.String() + `"}`, other},
		"project_id twice":                  {serviceWith(`"project_id":"` + project.String() + `"`), twice},
		"project_id again in capitals":      {serviceWith(`"Project_ID":"` + project.String() + `"`), twice},
		"permissions again in capitals":     {serviceWith(`"permissions":[]`, `"Permissions":["*"]`), twice},
		"permissions in capitals alone":     {serviceWith(`"Permissions":[]`), other},
		"permissions with the long s":       {serviceWith(`"permi\u017f\u017fions":[]`), other},
		"jti in capitals alone":             {serviceWith(`"JTI":"key_1"`), other},
		"sub with the long s":               {serviceWith(`"ſub":"user-7"`), other},
		"exp in capitals alone":             {serviceWith(`"EXP":1784559600`), other},
		"exp twice":                         {serviceWith(`"exp":1784559600`, `"exp":1784559600`), twice},
		"nbf in capitals alone":             {serviceWith(`"Nbf":1`), other},
		"iat in capitals alone":             {serviceWith(`"iAt":1`), other},
		"iss with the long s":               {serviceWith(`"iſs":"x"`), other},
		"aud in capitals alone":             {serviceWith(`"AUD":"x"`), other},
		"unknown member twice":              {serviceWith(`"x":1`, `"x":1`), twice},
		"unknown member in two cases":       {serviceWith(`"x":1`, `"X":1`), twice},
		"unknown member, Kelvin sign and k": {serviceWith(`"\u212a":1`, `"k":1`), twice},
		"inner member twice":                {serviceWith(`"x":{"y":1,"y":1}`), twice},
		"inner member twice, in a list":     {serviceWith(`"x":[1,{"y":{"z":1,"\u007a":1}}]`), twice},

		"null role":                    {`{"role":null}`, null},
		"null project_id":              {`{"role":"service_role","project_id":null}`, null},
		"null permissions":             {serviceWith(`"permissions":null`), null},
		"null permission":              {serviceWith(`"permissions":["files.read",null]`), null},
		"null jti":                     {serviceWith(`"jti":null`), null},
		"null sub":                     {serviceWith(`"sub":null`), null},
		"null exp":                     {serviceWith(`"exp":null`), null},
		"null nbf":                     {serviceWith(`"nbf":null`), null},
		"null iat":                     {serviceWith(`"iat":null`), null},
		"null iss":                     {serviceWith(`"iss":null`), null},
		"null aud":                     {serviceWith(`"aud":null`), null},
		"null among audiences":         {serviceWith(`"aud":["locks",null]`), null},
		"role a list":                  {`{"role":["service_role"]}`, typ},
		"project_id a number":          {`{"role":"service_role","project_id":1}`, typ},
		"permissions a text":           {serviceWith(`"permissions":"*"`), typ},
		"permissions an object":        {serviceWith(`"permissions":{"0":"*"}`), typ},
		"permission a number":          {serviceWith(`"permissions":["*",1]`), typ},
		"permission a list":            {serviceWith(`"permissions":[["*"]]`), typ},
		"jti a number":                 {serviceWith(`"jti":1`), typ},
		"sub an object":                {serviceWith(`"sub":{}`), typ},
		"exp a text":                   {serviceWith(`"exp":"1784559600"`), typ},
		"exp a word":                   {serviceWith(`"exp":"never"`), typ},
		"exp true":                     {serviceWith(`"exp":true`), typ},
		"exp a list":                   {serviceWith(`"exp":[1784559600]`), typ},
		"exp beyond a float64":         {serviceWith(`"exp":1e400`), typ},
		"nbf a text":                   {serviceWith(`"nbf":"1"`), typ},
		"iat a text":                   {serviceWith(`"iat":"1"`), typ},
		"iss a list":                   {serviceWith(`"iss":["x"]`), typ},
		"aud a number":                 {serviceWith(`"aud":1`), typ},
		"number among audiences":       {serviceWith(`"aud":["locks",1]`), typ},
		"a list":                       {`["service_role"]`, object},
		"a text":                       {`"service_role"`, object},
		"not UTF-8":                    {serviceWith("\"x\":\"\xff\""), object},
		"not UTF-8 in a name":          {serviceWith("\"\xc0\x80\":1"), object},
		"trailing data":                {serviceWith() + "{}", malform},
		"trailing comma":               {serviceWith(`"x":[1,]`), malform},
		"not JSON":                     {`role=service_role`, malform},
		"a byte order mark":            {"\ufeff" + serviceWith(), malform},
		"nothing":                      {``, malform},
		"too deep, lists":              {serviceWith(`"x":` + nested(40)), "nested too deeply"},
		"too deep, objects":            {serviceWith(`"x":` + strings.Repeat(`{"x":`, 40) + "1" + strings.Repeat("}", 40)), "nested too deeply"},
		"as deep as 8 KiB allow":       {serviceWith(`"x":` + nested(2900)), "nested too deeply"},
		"too deep in a known claim":    {serviceWith(`"permissions":` + nested(40)), "nested too deeply"},
		"null in place of all claims":  {`null`, "role is none of"},
		"no claims":                    {`{}`, "role is none of"},
		"role that nobody knows":       {claimsOf("admin"), "role is none of"},
		"role in capitals":             {claimsOf("SERVICE_ROLE"), "role is none of"},
		"role with a space":            {claimsOf("service_role "), "role is none of"},
		"empty role":                   {claimsOf(""), "role is none of"},
		"auth-user without an expiry":  {claimsOf("authenticated"), "without an expiry"},
		"service-role without project": {`{"role":"service_role"}`, "names no project"},
		"anon without project":         {`{"role":"anon"}`, "names no project"},
		"auth-user without project":    {`{"role":"authenticated",` + inAnHour + `}`, "names no project"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, newVerifier(t), hs256(t, c.payload), c.want) })
	}
}

func TestAnOrdinaryDepthIsFine(t *testing.T) {
	accepted(t, newVerifier(t), hs256(t, serviceWith(`"x":`+nested(16))))
}

func TestATimeOutOfRangeIsRefused(t *testing.T) {
	for _, claim := range []string{"exp", "nbf", "iat"} {
		for _, number := range []string{"0", "-0", "0.0", "-1", "-1e300", "1e300", "1.7e308", "253402300800", "1784559600000", "9223372036854775808"} {
			t.Run(claim+" "+number, func(t *testing.T) {
				refused(t, newVerifier(t), hs256(t, serviceWith(`"`+claim+`":`+number)), "out of range")
			})
		}
	}
}

func TestAProjectIsAUUIDOf36CharactersAndNotNil(t *testing.T) {
	id := project.String()
	for name, text := range map[string]string{
		"nil":         "00000000-0000-0000-0000-000000000000",
		"empty":       "",
		"no dashes":   strings.ReplaceAll(id, "-", ""),
		"braces":      "{" + id + "}",
		"URN":         "urn:uuid:" + id,
		"space":       id + " ",
		"not hex":     "g" + id[1:],
		"dash moved":  id[:7] + "-" + id[7:8] + id[9:],
		"a name":      "billing",
		"another end": id[:35],
	} {
		for _, role := range []string{"service_role", "anon", "authenticated", "platform"} {
			t.Run(name+" "+role, func(t *testing.T) {
				payload := `{"role":"` + role + `",` + inAnHour + `,"project_id":"` + text + `"}`
				refused(t, newVerifier(t), hs256(t, payload), "not a UUID")
			})
		}
	}
}

func TestTheExpiryIsKeptWithItsFraction(t *testing.T) {
	p := accepted(t, newVerifier(t), hs256(t, serviceWith(`"exp":1784556000.5`)))
	if want := now.Add(500 * time.Millisecond); !p.ExpiresAt.Equal(want) {
		t.Errorf("got %v, want %v", p.ExpiresAt, want)
	}
}
