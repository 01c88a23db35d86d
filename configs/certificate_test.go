package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/project-locks/gateway/configs/certtest"
)

// certified is a certificate under test, in a folder of its own.
type certified struct {
	*Certificate
	t         *testing.T
	cert, key string // paths
	log       *records
}

func certify(t *testing.T, pair certtest.Pair, poll time.Duration) *certified {
	t.Helper()
	leavesNothing(t)
	dir := t.TempDir()
	c := &certified{t: t, cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), log: captureLog(t)}
	write(t, c.cert, pair.Cert)
	write(t, c.key, pair.Key)
	var err error
	if c.Certificate, err = openCertificate(c.cert, c.key, poll); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func (c *certified) serial() string {
	got, err := c.Get(nil)
	must(c.t, err)
	return certtest.Serial(got.Leaf)
}

func (c *certified) await(pair certtest.Pair) {
	c.t.Helper()
	eventually(c.t, "the renewed certificate", func() bool { return c.serial() == pair.Serial })
}

const (
	quickPoll  = 10 * time.Millisecond
	severalOfQ = 20 * quickPoll
)

func TestEveryRenewalIsSeen(t *testing.T) {
	// Each puts a new pair in the place of the old one, whose paths are symbolic links in the end.
	rename := func(path, text string) error {
		return os.Rename(file(t, "new", text), path)
	}
	link := func(path, text string) error {
		target := file(t, "target", text)
		if err := os.Symlink(target, path+".link"); err != nil {
			return err
		}
		return os.Rename(path+".link", path)
	}
	inPlace := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	c := certify(t, certtest.Valid(t), quickPoll)
	for _, replace := range []func(path, text string) error{inPlace, rename, link, inPlace, link, link} {
		next := certtest.Valid(t)
		must(t, replace(c.cert, next.Cert), replace(c.key, next.Key))
		c.await(next)
	}
}

func TestARenewalThatTakesAMomentIsNoFault(t *testing.T) {
	c := certify(t, certtest.Valid(t), never)
	next := certtest.Valid(t)
	write(t, c.cert, next.Cert)
	c.look() // between the two files
	write(t, c.key, next.Key)
	c.look()
	if c.serial() != next.Serial || c.log.with("level=ERROR") != 0 {
		t.Errorf("serial %s, want %s; log %s", c.serial(), next.Serial, &c.log.text)
	}
}

func TestABadRenewalKeepsTheLastGoodCertificate(t *testing.T) {
	first := certtest.Valid(t)
	c := certify(t, first, quickPoll)
	for i, spoil := range []func() error{
		func() error { return os.WriteFile(c.cert, []byte(certtest.Valid(t).Cert), 0o600) },
		func() error { return os.WriteFile(c.cert, []byte("no PEM"), 0o600) },
		func() error { return os.WriteFile(c.cert, nil, 0o600) },
		func() error { return os.Remove(c.key) },
	} {
		must(t, spoil())
		eventually(t, "the complaint", func() bool { return c.log.with("level=ERROR", "certificate refused") == i+1 })
		time.Sleep(severalOfQ) // and no second one
		if got := c.log.with("level=ERROR"); got != i+1 || c.serial() != first.Serial {
			t.Fatalf("%d complaints about %d bad renewals, serial %s, want %s", got, i+1, c.serial(), first.Serial)
		}
	}
	next := certtest.Valid(t)
	write(t, c.cert, next.Cert)
	write(t, c.key, next.Key)
	c.await(next)
	if c.log.with("PRIVATE KEY") != 0 || c.log.with(strings.Split(next.Key, "\n")[1]) != 0 {
		t.Errorf("the log shows a key: %s", &c.log.text)
	}
}

func TestReloadLooksAtTheCertificateAtOnce(t *testing.T) {
	first := certtest.Valid(t)
	c := certify(t, first, never)
	must(t, os.Rename(c.key, c.key+".away"))
	c.Reload()
	if c.serial() != first.Serial || c.log.with("level=ERROR", "GATEWAY_TLS_KEY") != 1 {
		t.Errorf("serial %s, log %s", c.serial(), &c.log.text)
	}
	next := certtest.Valid(t)
	write(t, c.cert, next.Cert)
	write(t, c.key, next.Key)
	c.Reload()
	if c.serial() != next.Serial || c.log.with("certificate in force", next.Serial) != 1 {
		t.Errorf("serial %s, want %s; log %s", c.serial(), next.Serial, &c.log.text)
	}
}

func TestAnExpiredCertificateIsServedWithAWarning(t *testing.T) {
	expired := certtest.New(t, time.Now().Add(-time.Minute))
	c := certify(t, expired, never)
	if c.serial() != expired.Serial || c.log.with("level=WARN", "expired") != 1 {
		t.Errorf("serial %s, log %s", c.serial(), &c.log.text)
	}
}

func TestLoadChecksTheCertificate(t *testing.T) {
	pair, another := certtest.Valid(t), certtest.Valid(t)
	cert, key := file(t, "tls.crt", pair.Cert), file(t, "tls.key", pair.Key)
	const switched = "may have been switched"
	for name, c := range map[string]struct{ cert, key, complaint, says string }{
		"both":                    {cert, key, "", ""},
		"none":                    {"", "", "", ""},
		"no key":                  {cert, "", "GATEWAY_TLS_KEY", "set both"},
		"no certificate":          {"", key, "GATEWAY_TLS_CERT", "set both"},
		"certificate is missing":  {"missing.crt", key, "GATEWAY_TLS_CERT", "missing.crt"},
		"key is missing":          {cert, "missing.key", "GATEWAY_TLS_KEY", "no such file"},
		"certificate is a pipe":   {newPipe(t), key, "GATEWAY_TLS_CERT", "not a regular file"},
		"key is a pipe":           {cert, newPipe(t), "GATEWAY_TLS_KEY", "not a regular file"},
		"key instead of its path": {cert, pair.Key, "GATEWAY_TLS_KEY", "write the path"},
		"of different pairs":      {file(t, "other.crt", another.Cert), key, "GATEWAY_TLS_CERT", "does not match"},
		"switched":                {key, cert, "GATEWAY_TLS_CERT", switched},
		"not PEM":                 {cert, file(t, "empty.key", ""), "GATEWAY_TLS_CERT", "GATEWAY_TLS_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Load(environ("GATEWAY_TLS_CERT", c.cert, "GATEWAY_TLS_KEY", c.key))
			if c.complaint == "" {
				if err != nil || s.TLSCert != c.cert || s.TLSKey != c.key {
					t.Errorf("settings %+v, error %v", s, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.complaint+": ") || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want one about %s with %q", err, c.complaint, c.says)
			}
			if strings.Contains(err.Error(), "BEGIN") {
				t.Errorf("the error shows a key: %v", err)
			}
		})
	}
}
