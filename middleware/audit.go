package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
)

// Record is one audit line: what a request to a lock endpoint asked and got.
// It holds no secret: the lock token is there as a fingerprint only.
type Record struct {
	RequestID  string    `json:"request_id"`
	Time       time.Time `json:"time"` // of arrival, the gateway's clock
	ProjectID  string    `json:"project_id,omitempty"`
	KeyID      string    `json:"key_id,omitempty"`
	Kind       auth.Kind `json:"credential_kind,omitempty"`
	Operation  string    `json:"operation"`
	LockKey    string    `json:"lock_key"` // as sent when it is not a valid key, shortened
	Owner      string    `json:"owner,omitempty"`
	TTLSeconds int64     `json:"ttl_seconds,omitempty"`
	Status     int       `json:"status"`
	Code       string    `json:"code,omitempty"` // of the error
	Fence      int64     `json:"fencing_token,omitempty"`
	ExpiresAt  string    `json:"expires_at,omitempty"`
	TakenOver  bool      `json:"taken_over,omitempty"` // from an owner that let its lease expire
	QuotaUsed  int64     `json:"quota_used,omitempty"`
	QuotaLimit int64     `json:"quota_limit,omitempty"`
	DurationMS float64   `json:"duration_ms"`
	Client     string    `json:"client"`
	Gateway    string    `json:"gateway"`
}

func (r *Record) operation(op lockcore.Op, rawKey string) {
	r.Operation = op.String()
	r.LockKey = strings.Clone(rawKey[:min(len(rawKey), MaxKey)])
}

func (r *Record) principal(p auth.Principal) {
	r.Kind, r.KeyID = p.Kind, p.KeyID
	if p.Project != uuid.Nil {
		r.ProjectID = p.Project.String()
	}
}

func (r *Record) command(c lockcore.Command) {
	if c.Key != "" {
		r.LockKey = c.Key
	}
	if c.Owner != uuid.Nil {
		r.Owner = Fingerprint(c.Owner)
	}
	r.TTLSeconds = int64(c.TTL / time.Second)
}

func (r *Record) decision(d store.Decision) {
	r.QuotaUsed, r.QuotaLimit = d.Quota.Used, d.Quota.Limit
	if o := d.Outcome; o.Held() {
		r.Fence, r.ExpiresAt = o.Fence, timestamp(o.ExpiresAt)
		r.TakenOver = o.Verdict == lockcore.TakenOver
	}
}

// Fingerprint stands for a lock token where the token itself must not appear:
// the first 16 hex digits of the SHA-256 of its lower-case text.
func Fingerprint(token uuid.UUID) string {
	sum := sha256.Sum256([]byte(token.String()))
	return hex.EncodeToString(sum[:8])
}

// Audit writes records, one JSON line each, before the request is answered. It
// remembers the last of them.
type Audit struct {
	Trusted configs.Networks // proxies that may say who the client is; set before use

	gateway string
	recent  *recent
	mu      sync.Mutex
	out     io.Writer
	torn    bool // the last line was written in part
	lost    atomic.Uint64
}

// NewAudit writes to out. gateway names this instance in every line.
func NewAudit(out io.Writer, gateway string) *Audit {
	return &Audit{out: out, gateway: gateway, recent: newRecent(recentLines, recentBytes)}
}

// write completes the record of a request that is about to be answered.
func (a *Audit) write(c *fiber.Ctx, r *Record) {
	r.RequestID, _ = RequestID(c)
	r.Status = c.Response().StatusCode()
	r.DurationMS = float64(time.Since(r.Time).Microseconds()) / 1000
	r.Client = clientAddress(c.Context(), a.Trusted).String()
	r.Gateway = a.gateway
	line, err := json.Marshal(r)
	if err == nil {
		line = append(line, '\n')
		a.recent.add(line)
		err = a.put(line)
	}
	if err != nil {
		a.lost.Add(1)
		slog.Error("an audit line was lost", "request_id", r.RequestID, "error", err)
	}
}

func (a *Audit) put(line []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.torn {
		line = append([]byte{'\n'}, line...) // so that only the torn one is lost
	}
	n, err := a.out.Write(line)
	a.torn = err != nil && (a.torn || n > 0)
	return err
}

// Lost is how many lines could not be written.
func (a *Audit) Lost() uint64 { return a.lost.Load() }
