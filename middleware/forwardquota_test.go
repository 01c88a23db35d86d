package middleware

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/ratelimit"
)

func TestForwardedRequestsAreCountedWhereThePolicyLimitsThem(t *testing.T) {
	limited, free := uuid.New(), uuid.New()
	at := time.Unix(1_800_000_000, 0)
	refusal := func() (store.Decision, error) { return store.Decision{}, store.ErrDown }
	used := func(admitted bool, n int64) func() (store.Decision, error) {
		return func() (store.Decision, error) {
			return store.Decision{At: at, Quota: ratelimit.NewResult(admitted, 2, n, at)}, nil
		}
	}
	for name, c := range map[string]struct {
		project   uuid.UUID
		policy    string
		answer    func() (store.Decision, error)
		status    int
		remaining string // X-RateLimit-Remaining; empty: whatever the upstream says
		counted   int    // calls of the store
		uncounted int64
	}{
		"within the limit":                {limited, "", used(true, 1), 200, "1", 1, 0},
		"past the limit":                  {limited, "", used(false, 2), 429, "0", 1, 0},
		"no limit":                        {free, "", used(true, 1), 200, "of the upstream", 0, 0},
		"the store cannot count":          {limited, "", refusal, 200, "of the upstream", 1, 1},
		"the store cannot count, refused": {limited, ", when_store_unavailable: refuse", refusal, 503, "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			reached := 0
			upstream := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				reached++
				w.Header().Set(HeaderRateRemaining, "of the upstream")
			})
			policy, err := configs.ParsePolicy("policy.yaml", []byte("projects: {"+limited.String()+": {requests_per_minute: 2"+c.policy+"}}"))
			if err != nil {
				t.Fatal(err)
			}
			s := &stub{answer: c.answer}
			f := newFront(t, upstream, func(settings *configs.Settings) { settings.Policy = policy })
			f.forward.locks.Store, f.forward.locks.Timeout = s, time.Second
			credential, err := auth.Mint(forwardSecret, auth.Grant{Kind: auth.Anon, Project: c.project, IssuedAt: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+"/orders", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+credential)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != c.status || len(s.asked) != c.counted || f.forward.Uncounted() != c.uncounted {
				t.Errorf("status %d, counted %d, uncounted %d", response.StatusCode, len(s.asked), f.forward.Uncounted())
			}
			if got := response.Header.Values(HeaderRateRemaining); c.remaining != "" && (len(got) != 1 || got[0] != c.remaining) {
				t.Errorf("remaining %q, want %q", got, c.remaining)
			}
			if (reached == 1) != (c.status == http.StatusOK) {
				t.Errorf("the upstream was reached %d times", reached)
			}
			for _, command := range s.asked {
				if command != (lockcore.Command{}) {
					t.Errorf("the store was asked for %+v", command)
				}
			}
		})
	}
}
