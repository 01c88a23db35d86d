package configs

// Secret is text that must not be shown. Printing, logging and encoding give "[redacted]", or
// nothing when there is no secret.
type Secret struct {
	// A pointer, because fmt calls no method on a field that is not exported: a Secret inside
	// such a field is printed as an address, not as text.
	text *string
}

// conceal makes a Secret of text.
func conceal(text string) Secret { return Secret{text: &text} }

// Bytes is a copy of the secret itself; nil when there is none.
func (s Secret) Bytes() []byte {
	if s.text == nil {
		return nil
	}
	return []byte(*s.text)
}

// IsSet reports whether there is a secret.
func (s Secret) IsSet() bool { return s.text != nil }

// UnmarshalText takes the secret from the environment.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = conceal(string(text))
	return nil
}

// MarshalText redacts the secret for JSON and for both handlers of slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// GoString redacts the secret for %#v.
func (s Secret) GoString() string { return "configs.Secret(" + s.String() + ")" }

// String redacts the secret.
func (s Secret) String() string {
	if !s.IsSet() {
		return ""
	}
	return "[redacted]"
}
