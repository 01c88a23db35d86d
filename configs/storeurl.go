package configs

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// Schemes of a store.
const (
	SchemeBolt   = "bolt"
	SchemeRedis  = "redis"
	SchemeRediss = "rediss"
	SchemeUnix   = "unix"
)

// StoreURL says which store to use. Printed, it shows neither user, password nor query.
type StoreURL struct {
	Scheme string // one of the Scheme constants
	Path   string // bolt: the database file, relative or absolute
	URL    Secret // the others: the URL as written, which may hold a password

	shown string
}

// Redis reports whether the store is a Redis server, by whichever transport.
func (u StoreURL) Redis() bool { return u.Scheme != SchemeBolt }

// String shows where the store is, without user, password and query.
func (u StoreURL) String() string { return u.shown }

// MarshalText is String, for JSON and for both handlers of slog.
func (u StoreURL) MarshalText() ([]byte, error) { return []byte(u.shown), nil }

// UnmarshalText parses a store URL. Its errors never quote the text, for it may hold a password.
func (u *StoreURL) UnmarshalText(text []byte) (err error) {
	scheme, rest, _ := strings.Cut(string(text), "://")
	switch scheme {
	case SchemeBolt:
		*u, err = parseBolt(rest)
	case SchemeRedis, SchemeRediss, SchemeUnix:
		*u, err = parseRedis(string(text))
	default:
		err = errors.New("is not a store; write bolt://PATH, redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH")
	}
	return err
}

// parseBolt takes the path literally: a file name is not percent-encoded.
func parseBolt(path string) (StoreURL, error) {
	if path == "" || strings.HasSuffix(path, "/") || strings.Contains(path, "?") {
		return StoreURL{}, errors.New("does not name a file; write for example bolt://gateway-data/locks.db, without options")
	}
	return StoreURL{Scheme: SchemeBolt, Path: path, shown: SchemeBolt + "://" + path}, nil
}

// The host of a Redis server, and what may follow it: the number of a database.
var (
	oneHost      = regexp.MustCompile(`^(\[[0-9a-fA-F:.%]+\]|[\w.-]+)(:[0-9]+)?$`)
	databasePath = regexp.MustCompile(`^(/[0-9]*)?$`)
)

// parseRedis checks the shape only; the options in the query belong to the Redis client.
func parseRedis(text string) (StoreURL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@"):
		// The usual reason: a password with a "/", "#", "?" or "@" in it.
		return StoreURL{}, errors.New("is not a URL; write redis://USER:PASSWORD@HOST:PORT with user name and password percent-encoded")
	case u.Scheme == SchemeUnix && (u.Host != "" || u.Path == ""):
		return StoreURL{}, errors.New("needs the absolute path of a socket; write unix:///PATH")
	case u.Scheme != SchemeUnix && !oneHost.MatchString(u.Host):
		return StoreURL{}, errors.New("does not name one host; write redis://HOST:PORT, and further nodes as addr=HOST:PORT in the query")
	case u.Scheme != SchemeUnix && !databasePath.MatchString(u.EscapedPath()):
		return StoreURL{}, errors.New("has a path that is not a database number; write for example redis://HOST:PORT/0")
	}
	return StoreURL{Scheme: u.Scheme, URL: conceal(text), shown: u.Scheme + "://" + u.Host + u.EscapedPath()}, nil
}

// option is one option in the query of the URL.
func (u StoreURL) option(name string) string {
	parsed, err := url.Parse(string(u.URL.Bytes()))
	if err != nil {
		return ""
	}
	return parsed.Query().Get(name)
}
