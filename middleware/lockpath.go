package middleware

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxDecodings is how often a path may be percent-encoded. Whoever encodes it
// more often wants to get past somebody.
const maxDecodings = 8

// mayBeLocks tells whether an upstream might take a path for /locks or for
// something below it. Upstreams differ in what they decode, how often and in
// which order, so the path is looked at after every decoding. In doubt the
// answer is yes.
func mayBeLocks(path string) bool {
	return anyReading(path, func(r reading) bool {
		first := 1
		if r.host {
			first = 2
		}
		if slices.Contains(r.segments, "..") { // what comes first depends on the order in which they are resolved
			first = len(r.segments)
		}
		return slices.ContainsFunc(r.segments[:min(first, len(r.segments))], func(s string) bool { return strings.EqualFold(s, "locks") })
	})
}

// mayClimb tells whether an upstream might find that a path leads out of the
// one that it is appended to.
func mayClimb(path string) bool {
	return anyReading(path, func(r reading) bool {
		depth := 0
		for _, s := range r.segments {
			if depth++; s == ".." {
				depth -= 2
			}
			if depth < 0 {
				return true
			}
		}
		return false
	})
}

// reading is what an upstream may make of a path.
type reading struct {
	segments []string
	host     bool // the first may be taken for a host, since two slashes are before it
}

// anyReading tells whether found is true of the path as it is, or after any
// number of decodings. It is taken to be true of a path with a NUL in it, which
// ends the path for some and is skipped by others.
func anyReading(path string, found func(reading) bool) bool {
	for range maxDecodings {
		path = plain(path)
		if strings.Contains(path, "\x00") || found(read(path)) {
			return true
		}
		decoded := decodeEscapes(path)
		if decoded == path {
			return false
		}
		path = decoded
	}
	return true
}

// read splits a plain path as the most lenient upstream would: without control
// characters, empty segments, parameters, and the dots and spaces at the end of
// a name.
func read(path string) (r reading) {
	path = strings.Map(dropControls, path)
	r.host = strings.HasPrefix(path, "//")
	for segment := range strings.SplitSeq(path, "/") {
		if end := strings.IndexAny(segment, ";?#"); end >= 0 {
			segment = segment[:end]
		}
		if segment != ".." {
			segment = strings.TrimRight(segment, ".")
		}
		if segment != "" {
			r.segments = append(r.segments, segment)
		}
	}
	return r
}

func dropControls(r rune) rune {
	if r <= ' ' || r == 0x7f {
		return -1
	}
	return r
}

// plain replaces what some decoders take for ASCII: backslashes, characters
// that only look otherwise, such as full-width ones, and UTF-8 in more bytes
// than it needs.
func plain(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r >= utf8.RuneSelf }) {
		return path
	}
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); {
		if c, size := overlong(path[i:]); size > 0 {
			b = append(b, c)
			i += size
		} else {
			b = append(b, path[i])
			i++
		}
	}
	return strings.ReplaceAll(norm.NFKC.String(string(b)), "\\", "/")
}

// overlong reads an ASCII character in two bytes or more, up to the six that
// UTF-8 once had; size is 0 if there is none.
func overlong(text string) (c byte, size int) {
	size = bits.LeadingZeros8(^text[0]) // as the first byte says
	if size < 2 || size > 6 || len(text) < size {
		return 0, 0
	}
	value := uint32(text[0]) & (0x7f >> size)
	for _, next := range []byte(text[1:size]) {
		if next&0xc0 != 0x80 {
			return 0, 0
		}
		value = value<<6 | uint32(next&0x3f)
	}
	if value >= utf8.RuneSelf {
		return 0, 0
	}
	return byte(value), size
}

// decodeEscapes decodes %XX and %uXXXX once and leaves alone what is neither.
func decodeEscapes(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); {
		if r, ok := unhex(path[i:], "%", 2); ok {
			b = append(b, byte(r)) //nolint:gosec // two digits are a byte
			i += len("%XX")
		} else if r, ok := unhex(path[i:], "%u", 4); ok {
			b = utf8.AppendRune(b, r)
			i += len("%uXXXX")
		} else {
			b = append(b, path[i])
			i++
		}
	}
	return string(b)
}

// unhex reads a prefix, in either case, and so many hexadecimal digits.
func unhex(text, prefix string, digits int) (value rune, ok bool) {
	end := len(prefix) + digits
	if len(text) < end || !strings.EqualFold(text[:len(prefix)], prefix) {
		return 0, false
	}
	for _, c := range []byte(text[len(prefix):end]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		value = value<<4 | rune(c)
	}
	return value, true
}
