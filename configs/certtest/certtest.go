// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"
)

// Pair is a certificate that signs itself, and its key, both as PEM.
type Pair struct {
	Cert, Key string
	Serial    string // in hex, tells pairs apart
}

// New makes a pair for 127.0.0.1 that is valid until then.
func New(t testing.TB, until time.Time) Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    until.AddDate(-1, 0, 0),
		NotAfter:     until,
		DNSNames:     []string{"gateway.example"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true, // its own root
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{
		Cert:   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
		Key:    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		Serial: Serial(template),
	}
}

// Serial is the serial number of a certificate, as [Pair] has it.
func Serial(certificate *x509.Certificate) string {
	return fmt.Sprintf("%X", certificate.SerialNumber.Bytes())
}

// Valid makes a pair that is valid for a day.
func Valid(t testing.TB) Pair {
	t.Helper()
	return New(t, time.Now().AddDate(0, 0, 1))
}
