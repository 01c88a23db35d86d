package e2e

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func testKeys(t *testing.T, c *client) {
	longest := strings.Repeat("k", 128)
	everyCharacter := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	for _, row := range []struct {
		path string // segment
		key  string // that it means, in its plainest spelling; none: refused
	}{
		{"a", "a"},
		{longest, longest},
		{everyCharacter, everyCharacter},
		{"...", "..."},
		{".a", ".a"},
		{"-", "-"},
		{"lease", "lease"},
		{"%41%62c", "Abc"},
		{"a%3Ab%3a", "a:b:"},
		{"%2E%2e%2E%2E", "...."},
		{strings.Repeat("%6B", 127), longest[1:]},
		{longest + "k", ""},
		{strings.Repeat("%6B", 129), ""},
		{strings.Repeat("k", 1000), ""},
		{".", ""},
		{"..", ""},
		{"%2e", ""},
		{"%2E%2e", ""},
		{".%2e", ""},
		{"a%2Fb", ""},
		{"a%2flease", ""},
		{"a%252Fb", ""},
		{"%2561", ""},
		{"a%5Cb", ""},
		{"a%20b", ""},
		{"a+b", ""},
		{"a%00", ""},
		{"a%0D%0Ab", ""},
		{"a%7F", ""},
		{"caf%C3%A9", ""},
		{"caf\u00e9", ""},
		{"\uff41", ""},
		{"%ff", ""},
		{"a*", ""},
		{"{a}", ""},
		{"a~", ""},
		{"a%", ""},
		{"a%4", ""},
		{"a%zz", ""},
		{"a;b", ""},
		{"a,b", ""},
		{"@", ""},
	} {
		owner := uuid.New()
		if row.key == "" {
			for _, r := range []request{acquire(row.path, owner, 60), release(row.path, owner), read(row.path), forceRelease(row.path)} {
				if err := c.do(r).check(400, "invalid_request"); err != nil {
					t.Error(err)
				}
			}
			continue
		}
		l := c.acquire(row.path, owner, 60).granted(201)
		if got := c.read(row.key).held(); got.Fence != l.Fence {
			t.Errorf("acquired as %s, read as %s: %+v, want %+v", row.path, row.key, got, l)
		}
		c.release(row.path, owner).want(204, "")
	}
	// A key of nothing is no key; what is left may be another path.
	for _, r := range []request{read(""), forceRelease(""), acquire("", uuid.New(), 60)} {
		if a := c.do(r); a.status != 400 && a.status != 404 {
			t.Errorf("an empty key: %v", a)
		}
	}
	c.acquire("Case", uuid.New(), 60).granted(201)
	c.read("case").free()
	c.do(read("case?x=/lease")).free()
}

func testLockTokens(t *testing.T, c *client) {
	token := uuid.NewString()
	for name, values := range map[string][]string{
		"missing":          {},
		"empty":            {""},
		"twice":            {token, token},
		"two":              {token, uuid.NewString()},
		"two in one":       {token + "," + token},
		"nil UUID":         {uuid.Nil.String()},
		"text":             {"my-token"},
		"braces":           {"{" + token + "}"},
		"urn":              {"urn:uuid:" + token},
		"without dashes":   {strings.ReplaceAll(token, "-", "")},
		"a digit too few":  {token[1:]},
		"a digit too many": {token + "0"},
		"not hexadecimal":  {"g" + token[1:]},
		"dashes elsewhere": {strings.Replace(token, "-", "", 1) + "-"},
		"quotes":           {`"` + token + `"`},
	} {
		for _, r := range []request{acquire("key", uuid.New(), 60), renew("key", uuid.New(), 60), release("key", uuid.New())} {
			a := c.do(r.with(lockTokenHeader, values...))
			if err := a.check(400, "invalid_request"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			a.says(lockTokenHeader)
			if len(values) > 0 && values[0] != "" && strings.Contains(a.body, values[0]) {
				t.Errorf("%s: %v quotes what was sent", name, a)
			}
		}
		// Read and force release do not look at it.
		c.do(read("key").with(lockTokenHeader, values...)).free()
		c.do(forceRelease("key").with(lockTokenHeader, values...)).want(204, "")
	}
	c.read("key").free()
}

func testLockTokenCase(t *testing.T, c *client) {
	const lower, upper, mixed = "abcdef01-2345-4789-abcd-ef0123456789", "ABCDEF01-2345-4789-ABCD-EF0123456789", "aBcDeF01-2345-4789-AbCd-Ef0123456789"
	owner := uuid.MustParse(lower)
	first := c.do(acquire("key", owner, 60).with(lockTokenHeader, upper)).granted(201)
	if got := c.do(renew("key", owner, 60).with(lockTokenHeader, mixed)).granted(200); got.Fence != first.Fence {
		t.Errorf("renewed %+v to %+v", first, got)
	}
	if got := c.do(acquire("key", owner, 60).with(lockTokenHeader, lower)).granted(201); got.Fence != first.Fence {
		t.Errorf("acquired again: %+v, want the fencing token of %+v", got, first)
	}
	c.do(release("key", owner).with(lockTokenHeader, upper)).want(204, "")
	c.read("key").free()
	// The last of all UUIDs is one.
	c.acquire("key", uuid.Max, 60).granted(201)
	c.release("key", uuid.Max).want(204, "")
}

func testRequestIDs(t *testing.T, c *client) {
	given := uuid.NewString()
	for name, id := range map[string]string{"lower case": given, "upper case": strings.ToUpper(given), "nil UUID": uuid.Nil.String()} {
		a := c.do(read("key").with(requestIDHeader, id)).want(200, "")
		if got := a.header.Values(requestIDHeader); len(got) != 1 || got[0] != id {
			t.Errorf("%s: sent %s, got %q", name, id, got)
		}
	}
	first, second := c.read("key").header.Get(requestIDHeader), c.read("key").header.Get(requestIDHeader)
	if first == second {
		t.Errorf("two requests without an id were both called %s", first)
	}
	for _, row := range []struct {
		send   request
		status int
		code   string
	}{
		{renew("key", uuid.New(), 60), 409, "lock_ownership_lost"},
		{acquire("key", uuid.Nil, 60), 400, "invalid_request"},
		{read("key").with(authorization), 401, "unauthorized"},
		{request{method: "PUT", path: "/locks/key"}, 405, "method_not_allowed"},
		{request{method: "GET", path: "/somewhere"}, 404, "not_found"},
	} {
		a := c.do(row.send.with(requestIDHeader, given)).want(row.status, row.code)
		if got := a.header.Values(requestIDHeader); len(got) != 1 || got[0] != given {
			t.Errorf("%v: sent the request id %s, got %q", a, given, got)
		}
	}
	for name, values := range map[string][]string{
		"text": {"request-7"}, "empty": {""}, "twice": {given, given}, "two": {given, uuid.NewString()},
		"braces": {"{" + given + "}"}, "urn": {"urn:uuid:" + given}, "without dashes": {strings.ReplaceAll(given, "-", "")},
		"a digit too few": {given[1:]}, "a digit too many": {given + "0"},
	} {
		a := c.do(read("key").with(requestIDHeader, values...)).want(400, "invalid_request").says(requestIDHeader)
		for _, sent := range values {
			if sent != "" && strings.Contains(a.header.Get(requestIDHeader)+a.body, sent) {
				t.Errorf("%s: %v echoes what was sent, %q", name, a, sent)
			}
		}
	}
}

func testBodies(t *testing.T, c *client) {
	padded := func(size int) string {
		body := ttlBody(60)
		return body + strings.Repeat(" ", size-len(body))
	}
	for _, row := range []struct {
		name, body string
		status     int // of a renewal of a free lock, 409 if the body is good
		code       string
	}{
		{"least", ttlBody(5), 409, "lock_ownership_lost"},
		{"most", ttlBody(7776000), 409, "lock_ownership_lost"},
		{"spaces and line breaks", " {\r\n\t\"ttl_seconds\" : 60 } \n", 409, "lock_ownership_lost"},
		{"4 KiB", padded(4096), 409, "lock_ownership_lost"},
		{"too little", ttlBody(4), 400, "invalid_request"},
		{"too much", ttlBody(7776001), 400, "invalid_request"},
		{"nothing", ttlBody(0), 400, "invalid_request"},
		{"negative", ttlBody(-60), 400, "invalid_request"},
		{"milliseconds of 90 days", ttlBody(7776000000), 400, "invalid_request"},
		{"2^63", `{"ttl_seconds":9223372036854775808}`, 400, "invalid_request"},
		{"2^64 + 60", `{"ttl_seconds":18446744073709551676}`, 400, "invalid_request"},
		{"decimal point", `{"ttl_seconds":5.0}`, 400, "invalid_request"},
		{"fraction", `{"ttl_seconds":5.5}`, 400, "invalid_request"},
		{"exponent", `{"ttl_seconds":1e1}`, 400, "invalid_request"},
		{"leading zero", `{"ttl_seconds":060}`, 400, "invalid_request"},
		{"plus", `{"ttl_seconds":+60}`, 400, "invalid_request"},
		{"hexadecimal", `{"ttl_seconds":0x3c}`, 400, "invalid_request"},
		{"text", `{"ttl_seconds":"60"}`, 400, "invalid_request"},
		{"null", `{"ttl_seconds":null}`, 400, "invalid_request"},
		{"true", `{"ttl_seconds":true}`, 400, "invalid_request"},
		{"list", `{"ttl_seconds":[60]}`, 400, "invalid_request"},
		{"object", `{"ttl_seconds":{"ttl_seconds":60}}`, 400, "invalid_request"},
		{"not a number", `{"ttl_seconds":NaN}`, 400, "invalid_request"},
		{"member twice", `{"ttl_seconds":60,"ttl_seconds":60}`, 400, "invalid_request"},
		{"unknown member", `{"ttl_seconds":60,"owner":"me"}`, 400, "invalid_request"},
		{"member in upper case", `{"TTL_SECONDS":60}`, 400, "invalid_request"},
		{"another member", `{"ttl":60}`, 400, "invalid_request"},
		{"no member", `{}`, 400, "invalid_request"},
		{"no body", ``, 400, "invalid_request"},
		{"spaces", `   `, 400, "invalid_request"},
		{"a number", `60`, 400, "invalid_request"},
		{"a list", `[{"ttl_seconds":60}]`, 400, "invalid_request"},
		{"null alone", `null`, 400, "invalid_request"},
		{"a form", `ttl_seconds=60`, 400, "invalid_request"},
		{"a second object", ttlBody(60) + ttlBody(60), 400, "invalid_request"},
		{"trailing text", ttlBody(60) + "x", 400, "invalid_request"},
		{"trailing NUL", ttlBody(60) + "\x00", 400, "invalid_request"},
		{"cut short", `{"ttl_seconds":60`, 400, "invalid_request"},
		{"comma at the end", `{"ttl_seconds":60,}`, 400, "invalid_request"},
		{"no colon", `{"ttl_seconds" 60}`, 400, "invalid_request"},
		{"single quotes", `{'ttl_seconds':60}`, 400, "invalid_request"},
		{"comment", `{"ttl_seconds":60/* s */}`, 400, "invalid_request"},
		{"byte order mark", "\ufeff" + ttlBody(60), 400, "invalid_request"},
		{"4 KiB and a byte", padded(4097), 413, "payload_too_large"},
		{"5 KiB of nothing", strings.Repeat("x", 5<<10), 413, "payload_too_large"},
		{"32 KiB", padded(32 << 10), 413, "payload_too_large"},
	} {
		owner := uuid.New()
		r := renew("key", owner, 0)
		r.body = row.body
		if err := c.do(r).check(row.status, row.code); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if r = acquire("key", owner, 0); row.status != 409 {
			r.body = row.body
			if err := c.do(r).check(row.status, row.code); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
		}
	}
	c.read("key").free()
}
