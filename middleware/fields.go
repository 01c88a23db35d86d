package middleware

import "bytes"

// The syntax of HTTP headers, as far as net/http insists on it and fasthttp
// does not: what one accepts and the other refuses is the client's fault.

// validName accepts a token.
func validName(name []byte) bool {
	for _, b := range name {
		if !isAlphanumeric(b) && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) < 0 {
			return false
		}
	}
	return len(name) > 0
}

// validValue accepts everything but control characters; a tab is none.
func validValue(value []byte) bool {
	for _, b := range value {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// validHost accepts names and addresses with or without a port, and nothing,
// which HTTP/1.0 allows.
func validHost(host string) bool {
	for _, b := range []byte(host) {
		if !isAlphanumeric(b) && bytes.IndexByte([]byte(".-_:[]"), b) < 0 {
			return false
		}
	}
	return true
}

func isAlphanumeric(b byte) bool {
	return 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9'
}
