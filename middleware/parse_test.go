package middleware

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestDecodeKey(t *testing.T) {
	for _, c := range []struct{ raw, want string }{ // want "": refused
		{"a", "a"},
		{"A-z.0_9:b", "A-z.0_9:b"},
		{"%61", "a"},
		{"...", "..."},
		{strings.Repeat("k", MaxKey), strings.Repeat("k", MaxKey)},
		{strings.Repeat("%6B", MaxKey), strings.Repeat("k", MaxKey)},
		{strings.Repeat("k", MaxKey+1), ""},
		{strings.Repeat("%6B", MaxKey) + "k", ""},
		{"", ""},
		{".", ""},
		{"..", ""},
		{"%2e%2E", ""},
		{"a%2Fb", ""},
		{"a%252Fb", ""},
		{"a%00", ""},
		{"a%", ""},
		{"a%4", ""},
		{"a%zz", ""},
		{"a+b", ""},
		{"a b", ""},
		{"a%0D%0Ab", ""},
		{"k\u00e9", ""},
		{"%C3%A9", ""},
		{"a;b", ""},
	} {
		got, err := decodeKey(c.raw)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: key %q, error %v; want %q", c.raw, got, err, c.want)
		}
	}
}

func TestLockToken(t *testing.T) {
	const upper = "6BA7B810-9DAD-41D1-80B4-00C04FD430C8"
	valid := uuid.MustParse(lockTokenText)
	for name, c := range map[string]struct {
		values []string
		want   uuid.UUID // nil: refused
	}{
		"36 characters":         {[]string{lockTokenText}, valid},
		"upper case is equal":   {[]string{upper}, valid},
		"missing":               {nil, uuid.Nil},
		"empty":                 {[]string{""}, uuid.Nil},
		"two, though equal":     {[]string{lockTokenText, lockTokenText}, uuid.Nil},
		"the nil UUID":          {[]string{uuid.Nil.String()}, uuid.Nil},
		"32 digits":             {[]string{strings.ReplaceAll(lockTokenText, "-", "")}, uuid.Nil},
		"in braces":             {[]string{"{" + lockTokenText + "}"}, uuid.Nil},
		"a URN":                 {[]string{"urn:uuid:" + lockTokenText}, uuid.Nil},
		"spaces around":         {[]string{" " + lockTokenText}, uuid.Nil},
		"36 characters, no hex": {[]string{strings.Repeat("z", 36)}, uuid.Nil},
	} {
		t.Run(name, func(t *testing.T) {
			var values [][]byte
			for _, v := range c.values {
				values = append(values, []byte(v))
			}
			got, err := lockToken(values)
			if got != c.want || (err == nil) != (c.want != uuid.Nil) {
				t.Errorf("token %v, error %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestDecodeTTL(t *testing.T) {
	for _, body := range []string{`{"ttl_seconds":30}`, " {\n\"ttl_seconds\" : 30 }\r\n"} {
		if got, err := decodeTTL([]byte(body)); got != 30 || err != nil {
			t.Errorf("%s: %d, %v", body, got, err)
		}
	}
	for _, body := range []string{
		``, ` `, `null`, `30`, `"30"`, `[]`, `[30]`, `{}`, `{"ttl_seconds"}`, `{"ttl_seconds":}`,
		`{"ttl_seconds":"30"}`, `{"ttl_seconds":30.0}`, `{"ttl_seconds":3e1}`, `{"ttl_seconds":030}`, `{"ttl_seconds":+30}`,
		`{"ttl_seconds":null}`, `{"ttl_seconds":true}`, `{"ttl_seconds":[30]}`, `{"ttl_seconds":{}}`, `{"ttl_seconds":NaN}`,
		`{"ttl_seconds":30,"ttl_seconds":30}`, `{"ttl_seconds":30,"x":1}`, `{"x":1,"ttl_seconds":30}`, `{"TTL_seconds":30}`,
		`{"ttl_seconds":30}{}`, `{"ttl_seconds":30} x`, `{"ttl_seconds":30},`, `{"ttl_seconds":30`, `{'ttl_seconds':30}`,
		"{\"ttl_seconds\":30}\x00", "\xef\xbb\xbf{\"ttl_seconds\":30}", `{"ttl_seconds":30,}`, `{,"ttl_seconds":30}`,
	} {
		if got, err := decodeTTL([]byte(body)); err == nil {
			t.Errorf("%q was read as %d", body, got)
		}
	}
	if got, err := decodeTTL([]byte(`{"ttl_seconds":99999999999999999999}`)); err != nil || got <= maxTTL {
		t.Errorf("a number past 64 bits: %d, %v; want one out of range", got, err)
	}
	if got, err := decodeTTL([]byte(`{"ttl_seconds":-99999999999999999999}`)); err != nil || (got >= minTTL && got <= maxTTL) {
		t.Errorf("a number below 64 bits: %d, %v; want one out of range", got, err)
	}
}

func TestFingerprintsIgnoreLetterCase(t *testing.T) {
	lower, upper := uuid.MustParse(lockTokenText), uuid.MustParse(strings.ToUpper(lockTokenText))
	if a, b := Fingerprint(lower), Fingerprint(upper); a != b || len(a) != 16 || strings.Contains(lockTokenText, a) {
		t.Errorf("fingerprints %q and %q", a, b)
	}
}
