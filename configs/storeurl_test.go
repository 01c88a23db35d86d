package configs

import "testing"

func TestStoreURLAccepts(t *testing.T) {
	tests := map[string]struct{ scheme, path, shown string }{
		"bolt://gateway-data/locks.db":     {SchemeBolt, "gateway-data/locks.db", "bolt://gateway-data/locks.db"},
		"bolt:///var/lib/locks.db":         {SchemeBolt, "/var/lib/locks.db", "bolt:///var/lib/locks.db"},
		"bolt://./50% full@home.db":        {SchemeBolt, "./50% full@home.db", "bolt://./50% full@home.db"},
		"redis://redis.example:6379":       {SchemeRedis, "", "redis://redis.example:6379"},
		"redis://[::1]:6379/15":            {SchemeRedis, "", "redis://[::1]:6379/15"},
		"rediss://user:p%40ss@example/":    {SchemeRediss, "", "rediss://example/"},
		"redis://:pass@a:1/0?addr=b:1":     {SchemeRedis, "", "redis://a:1/0"},
		"unix:///run/redis.sock?db=2":      {SchemeUnix, "", "unix:///run/redis.sock"},
		"unix://user:pass@/run/redis.sock": {SchemeUnix, "", "unix:///run/redis.sock"},
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			var u StoreURL
			if err := u.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if u.Scheme != want.scheme || u.Path != want.path || u.String() != want.shown {
				t.Errorf("got scheme %q, path %q, shown as %q; want %+v", u.Scheme, u.Path, u, want)
			}
			if kept := string(u.URL.Bytes()); u.Redis() && kept != text {
				t.Errorf("the URL became %q", kept)
			}
			if u.Redis() != (want.path == "") || u.Redis() != u.URL.IsSet() {
				t.Errorf("Redis() is %v", u.Redis())
			}
		})
	}
}

func TestStoreURLRefuses(t *testing.T) {
	const (
		notAStore = "is not a store; write bolt://PATH, redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH"
		noFile    = "does not name a file; write for example bolt://gateway-data/locks.db, without options"
		notAURL   = "is not a URL; write redis://USER:PASSWORD@HOST:PORT with user name and password percent-encoded"
		noHost    = "does not name one host; write redis://HOST:PORT, and further nodes as addr=HOST:PORT in the query"
		noSocket  = "needs the absolute path of a socket; write unix:///PATH"
		noNumber  = "has a path that is not a database number; write for example redis://HOST:PORT/0"
	)
	tests := map[string]string{
		"":                            notAStore,
		"locks.db":                    notAStore,
		"bolt:locks.db":               notAStore,
		"file:///locks.db":            notAStore,
		"bolt://":                     noFile,
		"bolt://gateway-data/":        noFile,
		"bolt://locks.db?timeout=1s":  noFile,
		"redis://":                    noHost,
		"redis://:6379":               noHost,
		"redis://user:pass@":          noHost,
		"redis://a:port":              notAURL,
		"redis://user:pa/ss@a:1":      notAURL,
		"redis://user:12/ss@a:1":      notAURL,
		"redis://user:12#ss@a:1":      notAURL,
		"redis://user:12?ss@a:1":      notAURL,
		"redis://a:1/locks":           noNumber,
		"unix://redis.sock":           noSocket,
		"unix://run/redis.sock":       noSocket,
		"unix://":                     noSocket,
		"redis://a,b:1":               noHost,
		"redis://user:pass:6379":      noHost,
		"rediss://user:100%@host:123": notAURL,
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			var u StoreURL
			err := u.UnmarshalText([]byte(text))
			if err == nil || err.Error() != want {
				t.Errorf("got:  %v\nwant: %s", err, want)
			}
		})
	}
}
