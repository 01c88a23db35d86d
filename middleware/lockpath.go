package middleware

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDecodings is how often a path may be percent-encoded. Whoever encodes it
// more often wants to get past somebody.
const maxDecodings = 8

// mayBeLocks tells whether an upstream might take a path for /locks or for
// something below it. Upstreams differ in what they decode, how often and in
// which order, so the path is looked at after every decoding. In doubt the
// answer is yes.
func mayBeLocks(path string) bool {
	return anyReading(path, func(segments []string) bool {
		// Where dot segments are, what comes first depends on the order in which they are resolved.
		first := len(segments)
		if !slices.Contains(segments, "..") {
			first = min(1, first)
		}
		return slices.ContainsFunc(segments[:first], func(s string) bool { return strings.EqualFold(s, "locks") })
	})
}

// mayClimb tells whether an upstream might find that a path leads out of the
// one that it is appended to.
func mayClimb(path string) bool {
	return anyReading(path, func(segments []string) bool {
		depth := 0
		for _, s := range segments {
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

// anyReading tells whether found is true of the path as it is, or after any
// number of decodings. It is taken to be true of a path with a NUL in it, which
// ends the path for some and is skipped by others.
func anyReading(path string, found func(segments []string) bool) bool {
	for range maxDecodings {
		if strings.Contains(path, "\x00") || found(segmentsOf(path)) {
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

// segmentsOf splits a path as the most lenient upstream would: at backslashes
// too, without control characters, empty segments, parameters, and the dots
// and spaces at the end of a name.
func segmentsOf(path string) []string {
	var segments []string
	for segment := range strings.SplitSeq(plain(path), "/") {
		if end := strings.IndexAny(segment, ";?#"); end >= 0 {
			segment = segment[:end]
		}
		segment = strings.Map(dropControls, segment)
		if segment != ".." {
			segment = strings.TrimRight(segment, ".")
		}
		if segment != "" {
			segments = append(segments, segment)
		}
	}
	return segments
}

func dropControls(r rune) rune {
	if r <= ' ' || r == 0x7f {
		return -1
	}
	return r
}

// plain replaces what some decoders take for ASCII: backslashes, full-width
// characters and UTF-8 in two bytes where one would do.
func plain(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r >= utf8.RuneSelf }) {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); {
		r, size := utf8.DecodeRuneInString(path[i:])
		switch {
		case r >= 0xff01 && r <= 0xff5e:
			r -= 0xff01 - '!'
		case r == utf8.RuneError && i+1 < len(path) && path[i]&^1 == 0xc0 && path[i+1]&0xc0 == 0x80:
			r, size = rune(path[i]&1)<<6|rune(path[i+1]&0x3f), 2
		}
		if r == '\\' {
			r = '/'
		}
		b.WriteRune(r)
		i += size
	}
	return b.String()
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
