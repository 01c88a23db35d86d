package configs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

const maxPolicyBytes = 64 << 20

// ReadPolicy reads a policy file of at most 64 MiB, once. Its errors are those of [ParsePolicy],
// and those of reading the file.
func ReadPolicy(path string) (*Policy, error) { return readPolicy(path).policy(path) }

// reading is what the policy file was at one moment.
type reading struct {
	id   string // tells contents apart: their SHA-256, or why there are none
	data []byte
	err  error // of reading
}

func readPolicy(path string) reading {
	var data bytes.Buffer
	id, err := scan(&data, path)
	return reading{id: id, data: data.Bytes(), err: err}
}

// fingerprint is the id that a reading would have, without its memory.
func fingerprint(path string) string {
	id, _ := scan(io.Discard, path) // the id says why
	return id
}

// scan copies the file to out.
func scan(out io.Writer, path string) (id string, err error) {
	hash := sha256.New()
	if err := copyFile(io.MultiWriter(hash, out), path, maxPolicyBytes, openRegular); err != nil {
		return "none: " + err.Error(), err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func (r reading) policy(path string) (*Policy, error) {
	if r.err != nil {
		return nil, r.err
	}
	return ParsePolicy(path, r.data)
}

// version is what people see of the id.
func (r reading) version() string {
	if r.err != nil {
		return ""
	}
	return r.id[:12]
}

// blank reports whether the file says nothing: its lines are empty or comments. That is what a
// file looks like in the moment before it is written, so it is no fault before it lasts.
func (r reading) blank() bool {
	if r.err != nil {
		return false
	}
	for line := range bytes.Lines(r.data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}
