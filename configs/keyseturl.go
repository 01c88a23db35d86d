package configs

import "github.com/project-locks/gateway/auth"

// KeySetURL is where verification keys are fetched from. The zero value: nowhere. Printed, it shows
// neither path nor query, for there may be a token in them.
type KeySetURL struct {
	URL Secret // as written

	shown string
}

// IsSet reports whether there is a URL.
func (u KeySetURL) IsSet() bool { return u.URL.IsSet() }

// String shows the scheme and the host.
func (u KeySetURL) String() string { return u.shown }

// MarshalText is String, for JSON and for both handlers of slog.
func (u KeySetURL) MarshalText() ([]byte, error) { return []byte(u.shown), nil }

// UnmarshalText parses the URL of a key set. Its errors never quote the text.
func (u *KeySetURL) UnmarshalText(text []byte) error {
	parsed, err := auth.ParseKeyURL(string(text))
	if err != nil {
		return err
	}
	*u = KeySetURL{URL: conceal(string(text)), shown: parsed.Scheme + "://" + parsed.Host}
	return nil
}
