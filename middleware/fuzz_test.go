package middleware

import (
	"encoding/json"
	"net/url"
	"testing"
)

func FuzzDecodeKey(f *testing.F) {
	for _, seed := range []string{"a", "%61", "a%2Fb", "%252F", "..", "%2e", "%", "a%zz", "\xff", "a\x00", "k\u00e9", "+"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		key, err := decodeKey(raw)
		if err != nil {
			if key != "" {
				t.Fatalf("%q: refused, yet it gave the key %q", raw, key)
			}
			return
		}
		if len(key) < 1 || len(key) > MaxKey || key == "." || key == ".." {
			t.Fatalf("%q: key %q", raw, key)
		}
		for i := range len(key) {
			if !isKeyByte(key[i]) {
				t.Fatalf("%q: key %q", raw, key)
			}
		}
		if decoded, err := url.PathUnescape(raw); err != nil || decoded != key {
			t.Fatalf("%q: key %q is not what the path says, %q", raw, key, decoded)
		}
		if again, err := decodeKey(key); err != nil || again != key {
			t.Fatalf("%q: the key %q reads as %q, %v: there is a second way to name it", raw, key, again, err)
		}
	})
}

func FuzzDecodeTTL(f *testing.F) {
	for _, seed := range []string{
		`{"ttl_seconds":5}`, ` { "ttl_seconds" : 7776000 } `, `{"ttl_seconds":5.0}`, `{"ttl_seconds":"5"}`,
		`{"ttl_seconds":5,"ttl_seconds":6}`, `{"ttl_seconds":5}x`, `[]`, `{"ttl_seconds":-0}`, `{"ttl_seconds":1e9}`,
		`{"\u0074tl_seconds":5}`, `{"ttl_seconds":99999999999999999999}`, "{\"ttl_seconds\":5}\x00", ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		seconds, err := decodeTTL(body)
		if err != nil {
			return
		}
		var object map[string]json.Number
		if err := json.Unmarshal(body, &object); err != nil || len(object) != 1 {
			t.Fatalf("%q was read as %d, but is %v, %v", body, seconds, object, err)
		}
		if n, err := object["ttl_seconds"].Int64(); err == nil && n != seconds {
			t.Fatalf("%q was read as %d instead of %d", body, seconds, n)
		}
	})
}
