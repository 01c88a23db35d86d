package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/project-locks/gateway/internal/httperr"
)

const (
	maxSetBytes    = 1 << 20  // of a key set, unpacked
	maxHeaderBytes = 64 << 10 // of the answer that has it
	maxRedirects   = 3
)

// ParseKeyURL accepts the URLs that a key set may be fetched from: https, or
// http to this machine. Who can change the answer decides which credentials
// are accepted. The error never quotes the URL, which may hold a token.
func ParseKeyURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("is not the URL of a key set; write https://HOST/PATH")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("is not safe: whoever can change the answer on its way could sign credentials; " +
			"write https:// (http:// is for localhost and loopback addresses)")
	case u.User != nil:
		return nil, errors.New("has a user name in it; remove it")
	case strings.Contains(address, "#"):
		return nil, errors.New("has a fragment, which no server would see; remove it")
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// CheckKeyURL fetches the key set once and tells what is wrong with it.
func CheckKeyURL(ctx context.Context, address string) error {
	u, err := ParseKeyURL(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, usualKeyPace.timeout)
	defer cancel()
	client := newKeyClient()
	defer client.CloseIdleConnections()
	_, err = fetchSet(ctx, client, u)
	return err
}

// newKeyClient makes a client that keeps no connection: the next fetch is far.
func newKeyClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: checkRedirect,
	}
}

var errRedirect = errors.New("it redirects")

// checkRedirect follows few redirects, and only to where the set could be
// configured to come from, by the same scheme.
func checkRedirect(to *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w too often", errRedirect)
	}
	if to.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("%w to another scheme", errRedirect)
	}
	if _, err := ParseKeyURL(to.URL.String()); err != nil {
		return fmt.Errorf("%w to a URL that %w", errRedirect, err)
	}
	to.Header.Del("Referer") // the query may hold a token
	return nil
}

// publishedSet is a key set from a URL.
type publishedSet struct {
	keys keyring
	hash [sha256.Size]byte
}

// version is how people tell sets apart.
func (s *publishedSet) version() string { return hex.EncodeToString(s.hash[:6]) }

func (s *publishedSet) size() (keys int) {
	for _, named := range s.keys {
		keys += len(named)
	}
	return keys
}

// named are the keys of a name; a nil set has none.
func (s *publishedSet) named(name keyName) []verificationKey {
	if s == nil {
		return nil
	}
	return s.keys[name]
}

// fetchSet never says in its error what the URL is. The HTTP storage of jwkset
// cannot stand in for it: that decodes leniently, with duplicates and private
// keys, and takes {} for a set that has become empty.
func fetchSet(ctx context.Context, client *http.Client, from *url.URL) (*publishedSet, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, withoutURL(err)
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has the status %d instead of 200", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxSetBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", withoutURL(err))
	}
	if len(text) > maxSetBytes {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxSetBytes)
	}
	keys, err := newPublishedKeyring(text)
	if err != nil {
		return nil, err
	}
	return &publishedSet{keys: keys, hash: sha256.Sum256(text)}, nil
}

// withoutURL keeps what went wrong, but no word of an answer that cannot be
// read: it may repeat the URL. A time-out has the same words each time.
func withoutURL(err error) error {
	if with, ok := errors.AsType[*url.Error](err); ok {
		err = with.Err
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errors.New("there was no complete answer in time")
	}
	return fmt.Errorf("%.200s", httperr.WithoutAnswer(err, errRedirect).Error())
}

// newPublishedKeyring applies the rules for a file, but for two: the set serves
// others too, so keys of kinds that we do not know are passed over (RFC 7517,
// section 5), and it holds no secrets.
func newPublishedKeyring(jwks []byte) (keyring, error) {
	r := keyring{}
	errs := slices.DeleteFunc(r.addSet(jwks), func(err error) bool {
		_, other := errors.AsType[otherKind](err)
		return other
	})
	if len(errs) > 0 {
		return nil, firstOf(errs)
	}
	if len(r) == 0 {
		return nil, errors.New("key set: no key in it is for checking signatures with RS256, ES256 or EdDSA")
	}
	for name := range r {
		if name.algorithm == hs256 {
			return nil, fmt.Errorf("key set: the key with the kid %.64q is a secret (kty oct), and a secret that is published "+
				"is none; GATEWAY_JWKS_FILE is the place for it", name.id)
		}
	}
	return r, nil
}

// firstOf bounds what somebody else can make us say.
func firstOf(errs []error) error {
	const most = 3
	if more := len(errs) - most; more > 0 {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}
