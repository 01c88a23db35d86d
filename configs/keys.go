package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// minSecretBytes is what HS256 needs: a key as long as its hash.
const minSecretBytes = 32

// maxKeyFileBytes bounds the secret file, the key set, a certificate and its key.
const maxKeyFileBytes = 1 << 20

// generator is a command that prints a good secret.
const generator = "openssl rand -base64 48"

// checkKeys reads the secrets and the key set; at least one of them, or a URL for a set, must be there.
func (c *complaints) checkKeys(s *Settings) {
	switch {
	case s.JWTSecret.IsSet() && s.JWTSecretFile != "":
		c.add("GATEWAY_JWT_SECRET", "is set beside GATEWAY_JWT_SECRET_FILE; keep one of the two")
	case s.JWTSecret.IsSet():
		c.takeSecret(s)
	case s.JWTSecretFile != "":
		c.readSecrets(s)
	case s.JWKSFile == "" && !s.JWKSURL.IsSet() && !c.about["GATEWAY_JWKS_URL"]:
		c.add("GATEWAY_JWT_SECRET", "there is no key to verify credentials with; set it to the output of: %s "+
			"(or set GATEWAY_JWT_SECRET_FILE, GATEWAY_JWKS_FILE or GATEWAY_JWKS_URL, or start with gateway dev, which makes its own)", generator)
	}
	if s.JWKSFile != "" {
		c.readJWKS(s)
	}
}

func (c *complaints) takeSecret(s *Settings) {
	const name = "GATEWAY_JWT_SECRET"
	secret := s.JWTSecret.Bytes()
	if strings.ContainsAny(string(secret), "\r\n") {
		c.add(name, "has a line break; remove it, or put several secrets into GATEWAY_JWT_SECRET_FILE")
	}
	if len(secret) < minSecretBytes {
		c.add(name, "has %d bytes; write at least %d, for example the output of: %s", len(secret), minSecretBytes, generator)
	}
	s.Secrets = []Secret{s.JWTSecret}
}

func (c *complaints) readSecrets(s *Settings) {
	const name = "GATEWAY_JWT_SECRET_FILE"
	data, err := readKeyFile(s.JWTSecretFile, os.Open)
	if err != nil {
		// Somebody may have set this variable to the secret itself.
		c.add(name, "cannot read it: %w; write the path of a readable file", withoutPath(err))
		return
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		if len(line) < minSecretBytes {
			c.add(name, "line %d has %d bytes; write at least %d, for example the output of: %s", number, len(line), minSecretBytes, generator)
		}
		s.Secrets = append(s.Secrets, conceal(line))
	}
	if len(s.Secrets) == 0 {
		c.add(name, "the file holds no secret; write one per line, for example the output of: %s", generator)
	}
}

// withoutPath is an error of the file system that does not name the file.
func withoutPath(err error) error {
	if withPath := (*fs.PathError)(nil); errors.As(err, &withPath) {
		return withPath.Err
	}
	return err
}

// readJWKS checks the outline only; the keys themselves belong to whoever verifies with them.
func (c *complaints) readJWKS(s *Settings) {
	const name = "GATEWAY_JWKS_FILE"
	data, err := readKeyFile(s.JWKSFile, os.Open)
	if err != nil {
		// Somebody may have set this variable to the key set itself.
		c.add(name, "cannot read it: %w; write the path of a readable file", withoutPath(err))
		return
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	// The error of the decoder is left out: it quotes the file, which may hold HS256 keys.
	if json.Unmarshal(data, &set) != nil || len(set.Keys) == 0 {
		c.add(name, `%s is not a JSON Web Key Set; write {"keys":[…]} with at least one key`, s.JWKSFile)
		return
	}
	s.JWKS = conceal(string(data))
}

// readKeyFile reads a whole file, unless it is too large for what it should hold.
func readKeyFile(path string, open func(string) (*os.File, error)) ([]byte, error) {
	var data bytes.Buffer
	if err := copyFile(&data, path, maxKeyFileBytes, open); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// openRegular opens a file that is read again and again: a pipe would give its content once, and
// hold up who reads it.
func openRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes opens at once
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	if err != nil {
		_ = file.Close() // nothing was read
		return nil, err
	}
	return file, nil
}

var errNotRegular = errors.New("not a regular file")

// copyFile copies a file, unless it is larger than limit bytes.
func copyFile(to io.Writer, path string, limit int64, open func(string) (*os.File, error)) error {
	file, err := open(path)
	if err != nil {
		return err
	}
	copied, err := io.Copy(to, io.LimitReader(file, limit+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if copied > limit {
		return fmt.Errorf("the file is larger than %d bytes", limit)
	}
	return nil
}
