package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/lockcore"
)

// HeaderLockToken carries the secret that proves ownership of a lease.
const HeaderLockToken = "X-Volcano-Lock-Token" //nolint:gosec // a name

// The bounds of a request.
const (
	MaxKey    = 128        // characters of a lock key
	MaxBody   = 4 << 10    // bytes of a lock request's body
	MaxHeader = 16 << 10   // bytes of a request line with all headers
	maxRawKey = 3 * MaxKey // a key with every character percent-encoded
)

const (
	minTTL = int64(lockcore.MinTTL / time.Second)
	maxTTL = int64(lockcore.MaxTTL / time.Second)
)

// parse reads the command of a request. Key is set as soon as it is known.
func parse(c *fiber.Ctx, op lockcore.Op) (command lockcore.Command, err error) {
	command.Op = op
	if command.Key, err = decodeKey(c.Params("key")); err != nil {
		return command, err
	}
	switch op {
	case lockcore.Acquire, lockcore.Renew, lockcore.Release:
		if command.Owner, err = lockToken(c.Request().Header.PeekAll(HeaderLockToken)); err != nil {
			return command, err
		}
	case lockcore.Read, lockcore.ForceRelease, lockcore.None:
	}
	switch op {
	case lockcore.Acquire, lockcore.Renew:
		command.TTL, err = readTTL(c)
	case lockcore.Release, lockcore.Read, lockcore.ForceRelease, lockcore.None:
	}
	return command, err
}

// decodeKey decodes a path segment once and checks the key. The result shares
// no memory with the request.
func decodeKey(raw string) (string, error) {
	if len(raw) > maxRawKey {
		return "", invalid(fmt.Sprintf("The lock key is longer than %d characters.", MaxKey))
	}
	key, err := url.PathUnescape(raw)
	if err != nil {
		return "", invalid("The lock key's percent-encoding is broken.")
	}
	if len(key) < 1 || len(key) > MaxKey {
		return "", invalid(fmt.Sprintf("The lock key must have 1 to %d characters.", MaxKey))
	}
	for i := range len(key) {
		if !isKeyByte(key[i]) {
			return "", invalid("The lock key may have only A-Z a-z 0-9 . _ : - in it.")
		}
	}
	if key == "." || key == ".." {
		return "", invalid("The lock key cannot be . or .. since a URL cannot carry them.")
	}
	return string([]byte(key)), nil
}

func isKeyByte(b byte) bool {
	switch {
	case 'A' <= b && b <= 'Z', 'a' <= b && b <= 'z', '0' <= b && b <= '9':
		return true
	}
	return b == '.' || b == '_' || b == ':' || b == '-'
}

func lockToken(values [][]byte) (uuid.UUID, error) {
	if len(values) == 0 {
		return uuid.Nil, invalid("The " + HeaderLockToken + " header is missing; send a UUID of your own making.")
	}
	if len(values) == 1 && isUUID(values[0]) {
		if token, err := uuid.ParseBytes(values[0]); err == nil && token != uuid.Nil {
			return token, nil
		}
	}
	return uuid.Nil, invalid("The " + HeaderLockToken + " header must be exactly one UUID in its 36-character form, not the nil UUID.")
}

func readTTL(c *fiber.Ctx) (time.Duration, error) {
	body, err := readBody(c)
	if err != nil {
		return 0, err
	}
	seconds, err := decodeTTL(body)
	if err != nil {
		return 0, invalid("The body must be " + err.Error() + `, like {"ttl_seconds": 30}.`)
	}
	if seconds < minTTL || seconds > maxTTL {
		return 0, invalid(fmt.Sprintf("ttl_seconds must be from %d to %d.", minTTL, maxTTL))
	}
	return time.Duration(seconds) * time.Second, nil
}

// readBody reads no further than one byte past the limit.
func readBody(c *fiber.Ctx) ([]byte, error) {
	header := &c.Request().Header
	if len(header.Peek(fiber.HeaderContentEncoding)) > 0 {
		return nil, invalid("The body must not be encoded: remove the Content-Encoding header.")
	}
	if header.ContentLength() > MaxBody {
		return nil, payloadTooLarge()
	}
	stream := c.Context().RequestBodyStream()
	if stream == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(stream, MaxBody+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.Context().SetConnectionClose()
		return nil, fiber.ErrRequestTimeout
	case err != nil:
		c.Context().SetConnectionClose()
		return nil, invalid("The body could not be read to its end.")
	case len(body) > MaxBody:
		c.Context().SetConnectionClose()
		return nil, payloadTooLarge()
	}
	return body, nil
}

var (
	errShape  = errors.New("one JSON object with exactly the member ttl_seconds")
	errNumber = errors.New("one JSON object whose ttl_seconds is a whole number, written as digits")
)

// decodeTTL reads {"ttl_seconds": N} and nothing more or less. Its error says
// what the body should be.
func decodeTTL(body []byte) (int64, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value json.Token
	for _, want := range []json.Token{json.Delim('{'), "ttl_seconds", nil, json.Delim('}')} {
		token, err := d.Token()
		if err != nil || (want != nil && token != want) {
			return 0, errShape
		}
		if want == nil {
			value = token
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return 0, errShape
	}
	number, ok := value.(json.Number)
	if !ok {
		return 0, errNumber
	}
	seconds, err := strconv.ParseInt(number.String(), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return maxTTL + 1, nil // out of range, whatever it is exactly
	}
	if err != nil {
		return 0, errNumber
	}
	return seconds, nil
}
