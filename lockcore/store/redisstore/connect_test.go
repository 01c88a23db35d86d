package redisstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
)

func TestAnUnusableURLIsRefusedWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		url  string
		mode Mode
	}{
		"not a URL":                      {"redis://:s3cret@host:port", Single},
		"another scheme":                 {"http://:s3cret@host", Single},
		"a password with a slash":        {"redis://:12/s3cret@host", Single},
		"a password with a question":     {"redis://:12?s3cret@host", Single},
		"an option that nobody knows":    {"redis://:s3cret@host?pasword=s3cret", Single},
		"an option of the wrong kind":    {"redis://:s3cret@host?db=s3cret", Single},
		"several nodes of a single one":  {"redis://:s3cret@host?addr=other:6379", Single},
		"a name of a primary, unwatched": {"redis://:s3cret@host?master_name=locks", Cluster},
		"sentinels of what?":             {"redis://:s3cret@host?sentinel_password=s3cret", Sentinel},
	} {
		s, err := Open(test.url, test.mode, timeout)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: %s opened", name, test.url)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error quotes what may be secret: %v", name, err)
		}
	}
}

func TestAUnixSocketServes(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "redis") // t.TempDir is too long for a socket
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	redistest.Start(t, "--unixsocket", socket)
	newCaller(t, openWith(t, "unix://"+socket, Single, timeout)).mustDecide(lockcore.Acquire, "key")
}
