package auth

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// MaxLength of a credential in bytes. It bounds what a stranger can make us read.
const MaxLength = 8 << 10

// prefixes say what a key is before anybody decodes it.
var prefixes = map[Kind]string{ServiceRole: "sk-", Anon: "ak-"}

// Config says what a Verifier accepts.
type Config struct {
	Secrets  [][]byte         // HS256 secrets, each at least MinSecretBytes long; a token may be signed with any of them
	JWKS     []byte           // JSON Web Key Set with further keys; nil for none
	KeyURL   *KeyURL          // further keys that come and go; nil for none
	Issuer   string           // required value of iss; empty: not checked
	Audience string           // required among the values of aud; empty: not checked
	Now      func() time.Time // clock for exp and nbf; nil: time.Now
}

// Verifier tells what a credential proves. It is safe for concurrent use.
type Verifier struct {
	keys   keyring // of the configuration
	keyURL *KeyURL
	parser *jwt.Parser
}

// NewVerifier builds the table of keys. It names everything that is wrong with
// the secrets and the key set at once, and refuses to do without any key; a
// KeyURL counts as one, even while it has none.
func NewVerifier(cfg Config) (*Verifier, error) {
	keys, err := newKeyring(cfg.Secrets, cfg.JWKS)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 && cfg.KeyURL == nil {
		return nil, errors.New("no key to verify credentials with: neither a secret nor a key set with a key for signatures")
	}
	return &Verifier{keys: keys, keyURL: cfg.KeyURL, parser: newParser(cfg)}, nil
}

func newParser(cfg Config) *jwt.Parser {
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods(algorithms),
		jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(now),
	}
	if cfg.Issuer != "" {
		options = append(options, jwt.WithIssuer(cfg.Issuer))
	}
	if cfg.Audience != "" {
		options = append(options, jwt.WithAudience(cfg.Audience))
	}
	return jwt.NewParser(options...)
}

// Verify tells who the credential proves its bearer to be. The error is always
// a *Refusal, and then the Principal is empty.
func (v *Verifier) Verify(credential string) (Principal, error) {
	if len(credential) > MaxLength {
		return Principal{}, refuse(tooLong)
	}
	if looksLikePlatformToken(credential) {
		return Principal{Kind: Platform}, nil
	}
	token, prefixed := cutPrefix(credential)
	if !isCompact(token) {
		return Principal{}, refuse(malformed)
	}
	c, err := v.verifyToken(token)
	if err != nil {
		return Principal{}, err
	}
	return c.principal(prefixed)
}

// verifyToken picks the keys first: a token that no key can verify is not
// worth reading any further.
func (v *Verifier) verifyToken(token string) (*claims, error) {
	h, err := v.readHeader(token)
	if err != nil {
		return nil, err
	}
	keys, err := v.choose(h)
	if err != nil {
		return nil, err
	}
	c := new(claims)
	if _, err := v.parser.ParseWithClaims(token, c, func(*jwt.Token) (any, error) { return keys, nil }); err != nil {
		return nil, refusalFor(err)
	}
	return c, nil
}

// choose returns the keys that may have signed a token with this header. A key
// id that nobody knows may be that of a new key at the URL, which never has
// secrets.
func (v *Verifier) choose(h header) (jwt.VerificationKeySet, error) {
	name, unknown := keyName{algorithm: h.Algorithm}, noKeyID
	if h.KeyID != nil {
		name.id, unknown = *h.KeyID, unknownKeyID
	}
	switch {
	case !slices.Contains(algorithms, h.Algorithm):
		return jwt.VerificationKeySet{}, refuse(algorithm)
	case h.KeyID != nil && name.id == "":
		return jwt.VerificationKeySet{}, refuse(unknown)
	}
	keys := v.named(name)
	if len(keys) == 0 && v.keyURL != nil && name.id != "" && name.algorithm != hs256 {
		v.keyURL.seek()
		keys = v.named(name)
	}
	if len(keys) == 0 {
		return jwt.VerificationKeySet{}, refuse(unknown)
	}
	return jwt.VerificationKeySet{Keys: keys}, nil
}

// named are the keys of a name. The URL cannot add to an id that the
// configuration has; keys without an id stand side by side.
func (v *Verifier) named(name keyName) []verificationKey {
	configured := v.keys[name]
	if len(configured) > 0 && name.id != "" {
		return configured
	}
	return append(slices.Clip(configured), v.keyURL.set().named(name)...)
}

// header is what a token says about its signature.
type header struct {
	Algorithm string          `json:"alg"`
	KeyID     *string         `json:"kid"` // nil: none
	Type      string          `json:"typ"` // any text will do
	Critical  json.RawMessage `json:"crit"`
}

var headerMembers = membersOf[header]()

// readHeader reads the first segment strictly. The library reads it again, by
// the same rules as far as such a header can tell.
func (v *Verifier) readHeader(token string) (header, error) {
	segment, _, _ := strings.Cut(token, ".")
	data, err := v.parser.DecodeSegment(segment)
	if err != nil {
		return header{}, refuse(malformed)
	}
	var h header
	if err := strict(data, headerMembers, &h); err != nil {
		return header{}, refuse(inHeader + err.Error())
	}
	if h.Critical != nil {
		return header{}, refuse(critical)
	}
	return h, nil
}

func looksLikePlatformToken(credential string) bool {
	_, err := hex.DecodeString(credential)
	return err == nil && len(credential) == 64
}

// cutPrefix returns the kind that the credential's prefix stands for, if any.
// No JWT begins with a prefix by chance: what base64url has there is not JSON.
func cutPrefix(credential string) (token string, prefixed Kind) {
	for kind, prefix := range prefixes {
		if token, ok := strings.CutPrefix(credential, prefix); ok {
			return token, kind
		}
	}
	return credential, ""
}

// isCompact checks every character, because base64 decoders skip line breaks
// and one signature would cover many texts.
func isCompact(token string) bool {
	return strings.Count(token, ".") == 2 && !strings.ContainsFunc(token, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	})
}
