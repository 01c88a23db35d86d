package configs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// PolicyFile holds the policy of a file and follows the file until Close. All methods are safe
// for concurrent use.
//
// Whichever way the file changes (written in place, replaced by a rename or through a symbolic
// link, removed and made again), its new content is in force two seconds later, give or take the
// time to read it: about a second for a hundred thousand projects. A file that is wrong or not
// there is logged and counted once, however often it is looked at; the last good policy stays in
// force until there is another good one. The same content again changes nothing.
//
// A file may be read while somebody writes it in place. So news must have been the same for a
// fraction of a second, and a file that has turned blank (no line but empty ones and comments, the
// first moment of most writing) is refused only if it remains so for a second. A file that never
// stops changing is taken as it is after ten seconds. Still, a writer that pauses for long in the
// middle of valid YAML is believed to have finished: it is safer to write another file and rename
// it.
type PolicyFile struct {
	path    string
	changed func()
	current atomic.Pointer[Policy]
	status  atomic.Pointer[PolicyStatus]

	mu      sync.Mutex // held from reading the file to deciding, so that the last to read decides last
	inForce string     // id of the content in force
	judged  string     // id of what was tried last
	closed  bool

	stop    context.CancelFunc
	running sync.WaitGroup
}

// PolicyStatus says where a policy file stands. Times are those of this process, in UTC.
type PolicyStatus struct {
	Path          string    `json:"path"`                     // empty without a file
	Version       string    `json:"version"`                  // of what is in force: the start of the SHA-256 of the file, in hex
	LoadedAt      time.Time `json:"loaded_at,omitzero"`       // when that came into force
	Projects      int       `json:"projects"`                 // that it names
	Reloads       int       `json:"reloads"`                  // policies that came into force after the first
	Failures      int       `json:"failures"`                 // attempts that were refused
	LastError     string    `json:"last_error"`               // empty when the last attempt succeeded
	LastAttemptAt time.Time `json:"last_attempt_at,omitzero"` // of trying news from the file, or of Reload
}

// OpenPolicyFile reads the file, with the errors of [ReadPolicy], and follows it until Close.
// Without a path the default policy is in force for ever.
//
// After each time that another policy has come into force, changed is called, if it is not nil:
// never twice at a time, never after Close. It may ask Current and Status, and must not call
// Reload or Close, which wait for it.
func OpenPolicyFile(path string, changed func()) (*PolicyFile, error) {
	return openPolicyFile(path, changed, usualPace, fsnotify.NewWatcher)
}

func openPolicyFile(path string, changed func(), pace pace, notifier newNotifier) (*PolicyFile, error) {
	ctx, stop := context.WithCancel(context.Background())
	f := &PolicyFile{path: path, changed: func() {}, stop: stop}
	f.status.Store(&PolicyStatus{Path: path})
	if path == "" {
		return f, nil
	}
	r := readPolicy(path)
	policy, err := r.policy(path)
	if err != nil {
		stop()
		return nil, err
	}
	f.judged = r.id
	f.enforce(r, policy)
	if changed != nil {
		f.changed = changed
	}
	w := newPolicyWatch(f, pace, notifier)
	f.running.Go(func() { w.run(ctx) })
	return f, nil
}

// Current is the policy in force; nil, the default policy, without a file. It costs one atomic
// load. What belongs together, such as the decisions on one request, should ask once.
func (f *PolicyFile) Current() *Policy { return f.current.Load() }

// Status says where the file stands.
func (f *PolicyFile) Status() PolicyStatus { return *f.status.Load() }

// Reload reads the file now, whether it has changed or not, and returns when the result is in
// force or was refused; either is logged. It believes that the file is complete.
func (f *PolicyFile) Reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.path == "" {
		return
	}
	f.try(readPolicy(f.path))
}

// Close stops following the file and waits until everything has ended. The last policy remains
// in force.
func (f *PolicyFile) Close() error {
	f.stop()
	f.running.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// isNews reports whether id is another one than was tried last.
func (f *PolicyFile) isNews(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return id != f.judged
}

// tryWhen reads the file and tries what is there if it is news and ready. It reports false if it
// is news that is not ready.
func (f *PolicyFile) tryWhen(ready func(reading) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := readPolicy(f.path)
	if r.id == f.judged {
		return true
	}
	if !ready(r) {
		return false
	}
	f.try(r)
	return true
}

// try puts what was read into force, or says why not.
func (f *PolicyFile) try(r reading) {
	f.judged = r.id
	if r.id == f.inForce {
		f.attempted(func(s *PolicyStatus) { s.LastError = "" })
		slog.Info("the policy file holds the policy in force", "file", f.path, "version", r.version())
		return
	}
	policy, err := r.policy(f.path)
	if err != nil {
		f.refuse(r, err)
		return
	}
	f.enforce(r, policy)
	f.changed()
}

func (f *PolicyFile) enforce(r reading, policy *Policy) {
	first := f.inForce == ""
	f.inForce = r.id
	f.current.Store(policy)
	f.attempted(func(s *PolicyStatus) {
		s.Version, s.Projects, s.LoadedAt, s.LastError = r.version(), policy.Projects(), time.Now().UTC(), ""
		if !first {
			s.Reloads++
		}
	})
	slog.Info("policy in force", "file", f.path, "version", r.version(), "projects", policy.Projects())
}

func (f *PolicyFile) refuse(r reading, err error) {
	f.attempted(func(s *PolicyStatus) { s.Failures, s.LastError = s.Failures+1, err.Error() })
	slog.Error("policy file refused: the last good policy stays in force",
		"file", f.path, "error", err, "refused", r.version(), "version", f.Status().Version)
}

// attempted notes what an attempt has changed.
func (f *PolicyFile) attempted(note func(*PolicyStatus)) {
	s := f.Status()
	note(&s)
	s.LastAttemptAt = time.Now().UTC()
	f.status.Store(&s)
}
