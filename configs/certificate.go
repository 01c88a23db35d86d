package configs

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// certificatePoll is the time between two looks at the files of a certificate.
const certificatePoll = time.Second

// Certificate is the certificate of the public listener. It follows its two files until Close. All
// methods are safe for concurrent use.
//
// Whichever way the files are renewed, the new pair is in force for the handshakes that begin two
// seconds later. Files that do not fit together are news of a renewal that goes on: only when the
// next look finds them unchanged are they refused, and logged, once. The last good pair stays in
// force until there is another. A certificate that has expired is no fault of the files: it is
// served, with a warning.
type Certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]

	mu      sync.Mutex // held from reading the files to deciding, so that the last to read decides last
	judged  string     // id of what was put into force or refused last
	suspect string     // id of news that were wrong at one look

	stop    context.CancelFunc
	running sync.WaitGroup
}

// OpenCertificate reads the files, with the complaints of [Load], and follows them until Close.
func OpenCertificate(certFile, keyFile string) (*Certificate, error) {
	return openCertificate(certFile, keyFile, certificatePoll)
}

func openCertificate(certFile, keyFile string, poll time.Duration) (*Certificate, error) {
	p := readPair(certFile, keyFile)
	certificate, err := p.parse()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Certificate{certFile: certFile, keyFile: keyFile, stop: stop}
	c.enforce(p, certificate)
	c.running.Go(func() { c.follow(ctx, poll) })
	return c, nil
}

// Get is the certificate in force, for [tls.Config].
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

// Reload reads the files now, whether they have changed or not, and believes that they are
// complete; the outcome is logged.
func (c *Certificate) Reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := readPair(c.certFile, c.keyFile)
	if certificate, err := p.parse(); err != nil {
		c.refuse(p, err)
	} else {
		c.enforce(p, certificate)
	}
}

// Close stops following the files. The last certificate remains in force.
func (c *Certificate) Close() error {
	c.stop()
	c.running.Wait()
	return nil
}

func (c *Certificate) follow(ctx context.Context, poll time.Duration) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.look()
		}
	}
}

// look puts news into force. News that are wrong have to be so at two looks.
func (c *Certificate) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := readPair(c.certFile, c.keyFile)
	if p.id == c.judged {
		c.suspect = ""
		return
	}
	certificate, err := p.parse()
	switch {
	case err == nil:
		c.enforce(p, certificate)
	case p.id == c.suspect:
		c.refuse(p, err)
	default:
		c.suspect = p.id
	}
}

func (c *Certificate) enforce(p pair, certificate *tls.Certificate) {
	c.judged = p.id
	c.current.Store(certificate)
	leaf, level, message := certificate.Leaf, slog.LevelInfo, "certificate in force"
	if time.Now().After(leaf.NotAfter) {
		level, message = slog.LevelWarn, "certificate in force, though it has expired: renew it"
	}
	serial := fmt.Sprintf("%X", leaf.SerialNumber.Bytes()) // as openssl prints it
	slog.Log(context.Background(), level, message,
		"file", c.certFile, "names", leaf.DNSNames, "serial", serial, "not_after", leaf.NotAfter)
}

func (c *Certificate) refuse(p pair, err error) {
	c.judged = p.id
	slog.Error("certificate refused: the last good one stays in force",
		"file", c.certFile, "error", err, "not_after", c.current.Load().Leaf.NotAfter)
}

// pair is what the two files were at one moment.
type pair struct {
	id        string // tells contents apart: their SHA-256, or why there are none
	cert, key []byte
	err       error // of reading
}

// readPair reads both files. Its errors name the variable, as those of parse do; neither quote the key.
func readPair(certFile, keyFile string) (p pair) {
	const unreadable = "%s: cannot read it: %w; write the path of a readable file"
	var err error
	if p.cert, err = readKeyFile(certFile, openRegular); err != nil {
		err = fmt.Errorf(unreadable, "GATEWAY_TLS_CERT", err)
		return pair{id: "none: " + err.Error(), err: err}
	}
	if p.key, err = readKeyFile(keyFile, openRegular); err != nil {
		err = fmt.Errorf(unreadable, "GATEWAY_TLS_KEY", withoutPath(err)) // which may be the key itself, by mistake
		return pair{id: "none: " + err.Error(), err: err}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%d\n%s%s", len(p.cert), p.cert, p.key)
	p.id = hex.EncodeToString(hash.Sum(nil))
	return p
}

func (p pair) parse() (*tls.Certificate, error) {
	if p.err != nil {
		return nil, p.err
	}
	certificate, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("GATEWAY_TLS_CERT: it does not work with GATEWAY_TLS_KEY: %w; "+
			"write a certificate with its chain into the one and its private key into the other, both as PEM", err)
	}
	return &certificate, nil
}

// checkTLS reads the certificate and the key; both are there or none.
func (c *complaints) checkTLS(s *Settings) {
	switch {
	case s.TLSCert == "" && s.TLSKey == "":
	case s.TLSKey == "":
		c.add("GATEWAY_TLS_KEY", "is missing beside GATEWAY_TLS_CERT; set both, or none for plain HTTP")
	case s.TLSCert == "":
		c.add("GATEWAY_TLS_CERT", "is missing beside GATEWAY_TLS_KEY; set both, or none for plain HTTP")
	default:
		if _, err := readPair(s.TLSCert, s.TLSKey).parse(); err != nil {
			c.list = append(c.list, err)
		}
	}
}
