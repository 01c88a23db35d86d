package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// answer is what came back, and between which moments the gateway decided it.
type answer struct {
	t              testing.TB
	request        request
	status         int
	header         http.Header
	body           string
	sent, received time.Time
}

func (a answer) String() string {
	return fmt.Sprintf("%s %s: %d %s", a.request.method, a.request.path, a.status, a.body)
}

// problem is the body of an error.
type problem struct {
	Error       string    `json:"error"`
	Code        string    `json:"code"`
	AvailableAt time.Time `json:"available_at"`
	Outcome     string    `json:"outcome"`
}

func (a answer) problem() (p problem) {
	_ = json.Unmarshal([]byte(a.body), &p) // then the code is missing
	return p
}

// want fails the test unless the answer has this status and, being an error,
// this code, beside what every answer must have.
func (a answer) want(status int, code string) answer {
	a.t.Helper()
	if err := a.check(status, code); err != nil {
		a.t.Fatal(err)
	}
	return a
}

// check is want for any goroutine.
func (a answer) check(status int, code string) error {
	p := a.problem()
	switch {
	case a.status != status || p.Code != code:
		return fmt.Errorf("%v, want %d %s", a, status, code)
	case uuid.Validate(a.header.Get(requestIDHeader)) != nil:
		return fmt.Errorf("%v has the request id %q", a, a.header.Values(requestIDHeader))
	case a.body != "" && a.header.Get("Content-Type") != "application/json":
		return fmt.Errorf("%v is of type %q", a, a.header.Get("Content-Type"))
	case status >= http.StatusBadRequest && p.Error == "":
		return fmt.Errorf("%v has no text for a person", a)
	}
	return nil
}

// lease is the body of a granted acquire or renewal, and of a read.
type lease struct {
	Held      bool      `json:"held"` // of a read only
	ExpiresAt time.Time `json:"expires_at"`
	Fence     int64     `json:"fencing_token"`
}

// freeBody is the answer to a read of a free lock.
const freeBody = `{"held":false}`

// The members of an answer that shows a lease, and of a read of a held lock.
var (
	leaseMembers = []string{"expires_at", "fencing_token"}
	stateMembers = []string{"held", "expires_at", "fencing_token"}
)

// parse reads the body of an answer that must have exactly these members.
func (a answer) parse(members ...string) (l lease, err error) {
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		return l, fmt.Errorf("%v: %w", a, err)
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(slices.Values(members))) {
		return l, fmt.Errorf("%v has the members %v, want %v", a, names, members)
	}
	if err := json.Unmarshal([]byte(a.body), &l); err != nil {
		return l, fmt.Errorf("%v: %w", a, err)
	}
	return l, nil
}

// lease is parse for the goroutine of the test.
func (a answer) lease(members []string) lease {
	a.t.Helper()
	l, err := a.parse(members...)
	if err != nil {
		a.t.Fatal(err)
	}
	return l
}

// granted is the lease of an acquire (201) or a renewal (200).
func (a answer) granted(status int) lease {
	a.t.Helper()
	return a.want(status, "").lease(leaseMembers)
}

// held is the lease that a read shows.
func (a answer) held() lease {
	a.t.Helper()
	l := a.want(http.StatusOK, "").lease(stateMembers)
	if !l.Held {
		a.t.Fatalf("%v, want a lock that is held", a)
	}
	return l
}

// free fails the test unless the answer is that of a read of a free lock.
func (a answer) free() {
	a.t.Helper()
	if a.want(http.StatusOK, ""); a.body != freeBody {
		a.t.Fatalf("%v, want %s", a, freeBody)
	}
}

// says fails the test unless the error's text has these words.
func (a answer) says(words ...string) answer {
	a.t.Helper()
	for _, word := range words {
		if !strings.Contains(a.problem().Error, word) {
			a.t.Fatalf("%v does not say %q", a, word)
		}
	}
	return a
}

// number is a header that must be there once, as digits.
func (a answer) number(name string) int {
	a.t.Helper()
	values := a.header.Values(name)
	if len(values) != 1 {
		a.t.Fatalf("%v has the header %s %d times", a, name, len(values))
	}
	n, err := strconv.ParseUint(values[0], 10, 31)
	if err != nil {
		a.t.Fatalf("%v has the header %s: %s", a, name, values[0])
	}
	return int(n)
}
