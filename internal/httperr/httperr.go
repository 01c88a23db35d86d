// Package httperr makes errors of net/http fit for logs: some quote what the
// other side has sent, with passwords and cookies in it.
package httperr

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
)

var (
	errUnreadable = errors.New("there was no answer in HTTP that can be read, or its headers were too large")

	harmless = []error{io.EOF, io.ErrUnexpectedEOF, context.Canceled, http.ErrSchemeMismatch}
)

// WithoutAnswer is err, if it is known to quote nothing: an error of the
// network or of TLS, one of those that are known, or one of few others.
func WithoutAnswer(err error, known ...error) error {
	_, network := errors.AsType[net.Error](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	is := func(target error) bool { return errors.Is(err, target) }
	if network || untrusted || slices.ContainsFunc(known, is) || slices.ContainsFunc(harmless, is) {
		return err
	}
	return errUnreadable
}
