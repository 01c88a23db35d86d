package configs

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// UpstreamURL says where the requests go that are not for lock endpoints. The zero value: nowhere.
type UpstreamURL struct {
	Scheme string // http or https
	Host   string // HOST or HOST:PORT
	Path   string // put before the path of every request; as written, without a slash at its end
}

// IsSet reports whether there is an upstream.
func (u UpstreamURL) IsSet() bool { return u.Host != "" }

// String is the URL.
func (u UpstreamURL) String() string {
	if !u.IsSet() {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// MarshalText is String, for JSON and for both handlers of slog.
func (u UpstreamURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses an upstream. Its errors never quote the text, for it may hold a password.
func (u *UpstreamURL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	switch {
	case err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || !oneHost.MatchString(parsed.Host):
		return errors.New("is not an upstream; write http://HOST:PORT or https://HOST, and a base path if there is one")
	case !validPort(parsed.Port()):
		return errors.New("has a port that does not exist; write one from 1 to 65535")
	case parsed.User != nil:
		return errors.New("has a user name in it, which would be sent to nobody; remove it")
	case strings.ContainsAny(string(text), "?#"):
		return errors.New("has a query or a fragment, which cannot stand before the path of a request; remove it")
	}
	path := strings.TrimRight(parsed.EscapedPath(), "/")
	if !plainPath(path) {
		return errors.New("has a base path with empty or dot segments, percent-encoding or a first segment locks; write a plain one")
	}
	*u = UpstreamURL{Scheme: parsed.Scheme, Host: parsed.Host, Path: path}
	return nil
}

// validPort accepts no port too: the scheme has one.
func validPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}

// plainPath accepts what every server reads in the same way. Below /locks each request would be one
// for the upstream's own lock routes.
func plainPath(path string) bool {
	if path == "" {
		return true
	}
	segments := strings.Split(path, "/")[1:]
	for _, segment := range segments {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsAny(segment, `%;\`) {
			return false
		}
	}
	return !strings.EqualFold(segments[0], "locks")
}
