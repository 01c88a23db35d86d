package configs

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestPolicyFileWithoutAPathIsTheDefaultPolicy(t *testing.T) {
	leavesNothing(t)
	f, err := OpenPolicyFile("", nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Reload()
	if got := f.Current().Project(billing).LocksPerMinute; got != DefaultLocksPerMinute {
		t.Errorf("%d a minute", got)
	}
	if got := f.Status(); got != (PolicyStatus{}) {
		t.Errorf("status %+v", got)
	}
	must(t, f.Close())
}

func newPipe(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	return path
}

func TestOpenPolicyFileRefuses(t *testing.T) {
	leavesNothing(t)
	wrong := file(t, "policy.yaml", "x: 1")
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	pipe := newPipe(t)
	for path, want := range map[string]string{
		wrong:      wrong + ":1: x: unknown field; correct its name or remove it",
		missing:    "open " + missing + ": no such file or directory",
		os.DevNull: "open " + os.DevNull + ": not a regular file",
		pipe:       "open " + pipe + ": not a regular file", // nobody writes it: who waited for that would wait for ever
	} {
		if f, err := OpenPolicyFile(path, nil); err == nil || err.Error() != want || f != nil {
			t.Errorf("got:  %v\nwant: %s", err, want)
		}
	}
}

func TestStatusTellsWhereTheFileStands(t *testing.T) {
	text := "projects: {" + billing.String() + ": {}, " + other.String() + ": {}}"
	version := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:12]
	path := file(t, "policy.yaml", text)
	f := follow(t, path, asleep, fsnotify.NewWatcher)
	opened := f.Status()
	want := PolicyStatus{Path: path, Version: version, Projects: 2, LoadedAt: opened.LoadedAt, LastAttemptAt: opened.LastAttemptAt}
	if opened != want || opened.LoadedAt.IsZero() || opened.LastAttemptAt.Before(opened.LoadedAt) {
		t.Errorf("after the start: %+v", opened)
	}

	write(t, path, limited(7))
	f.Reload()
	reloaded := f.Status()
	if reloaded.Version == opened.Version || reloaded.Projects != 0 || reloaded.Reloads != 1 || reloaded.LoadedAt.Before(opened.LoadedAt) {
		t.Errorf("after a reload: %+v", reloaded)
	}

	write(t, path, "x: 1")
	f.Reload()
	refused := f.Status()
	want = reloaded
	want.Failures, want.LastAttemptAt = 1, refused.LastAttemptAt
	want.LastError = path + ":1: x: unknown field; correct its name or remove it"
	if refused != want {
		t.Errorf("after a bad file: %+v", refused)
	}

	write(t, path, limited(7))
	f.Reload()
	if got := f.Status(); got.LastError != "" || got.Failures != 1 || got.Reloads != 1 || got.LoadedAt != reloaded.LoadedAt {
		t.Errorf("after the same file as before the bad one: %+v", got)
	}
}

func TestStatusIsWrittenInSnakeCase(t *testing.T) {
	at := time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC)
	text, err := json.Marshal([]PolicyStatus{{}, {"p", "v", at, 1, 2, 3, "e", at}})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"path":"","version":"","projects":0,"reloads":0,"failures":0,"last_error":""},` +
		`{"path":"p","version":"v","loaded_at":"2026-11-02T03:04:05Z","projects":1,"reloads":2,"failures":3,"last_error":"e","last_attempt_at":"2026-11-02T03:04:05Z"}]`
	if string(text) != want {
		t.Errorf("got:  %s\nwant: %s", text, want)
	}
}

func TestReloadReadsAtOnce(t *testing.T) {
	log := captureLog(t)
	path := file(t, "policy.yaml", limited(1))
	f := follow(t, path, asleep, noEvents)
	steps := []struct {
		text              string
		limit, changes    int64
		failures          int
		inForce, rejected int // records
	}{
		{limited(2), 2, 1, 0, 0, 0},
		{limited(2), 2, 1, 0, 1, 0}, // asked for, so answered
		{"default: 3", 2, 1, 1, 1, 1},
		{"default: 3", 2, 1, 2, 1, 2},
		{"default: 4", 2, 1, 3, 1, 3},
		{limited(2), 2, 1, 3, 2, 3},
		{limited(5), 5, 2, 3, 2, 3},
		{"# blank\n\n", 5, 2, 4, 2, 4},
	}
	for _, step := range steps {
		write(t, path, step.text)
		f.Reload()
		if f.limit() != step.limit || f.changes.Load() != step.changes || f.Status().Failures != step.failures {
			t.Errorf("%q: %d a minute, %d changes, %d failures", step.text, f.limit(), f.changes.Load(), f.Status().Failures)
		}
		same, rejected := log.with("holds the policy in force"), log.with("level=ERROR")
		if same != step.inForce || rejected != step.rejected {
			t.Errorf("%q: %d records of the same policy, %d of a refusal", step.text, same, rejected)
		}
	}
}

func TestCloseStopsEverything(t *testing.T) {
	leavesNothing(t)
	for name, notifier := range map[string]newNotifier{"events": fsnotify.NewWatcher, "polls alone": noEvents} {
		t.Run(name, func(t *testing.T) {
			path := file(t, "policy.yaml", limited(1))
			f := follow(t, path, quick, notifier)
			write(t, path, limited(2))
			must(t, f.Close(), f.Close())
			before, changes := f.limit(), f.changes.Load()
			write(t, path, limited(3))
			f.Reload()
			if f.limit() != before || f.changes.Load() != changes {
				t.Error("it reloads after Close")
			}
		})
	}
}

func TestCurrentIsNeverTornAndTheLastWriteWins(t *testing.T) {
	leavesNothing(t)
	path := file(t, "policy.yaml", "")
	pair := func(n int) string {
		return fmt.Sprintf("projects:\n  %s: {locks_per_minute: %d}\n  %s: {locks_per_minute: %d}\n", billing, n, other, n)
	}
	write(t, path, pair(1))
	f := follow(t, path, quick, fsnotify.NewWatcher)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 2 {
		busy.Go(func() {
			for last := int64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				policy := f.Current()
				a, b := policy.Project(billing).LocksPerMinute, policy.Project(other).LocksPerMinute
				if a != b || a < last {
					t.Errorf("limits %d and %d after %d", a, b, last)
				}
				last = a
				_ = f.Status()
			}
		})
		busy.Go(func() {
			for range 50 {
				f.Reload()
			}
		})
	}
	const last = 100
	for n := 2; n <= last; n++ {
		replace(t, path, pair(n))
		time.Sleep(time.Millisecond)
	}
	f.awaitLimit(last)
	close(stop)
	busy.Wait()
	if s := f.Status(); f.changes.Load() != int64(s.Reloads) || s.Failures != 0 {
		t.Errorf("changed was called %d times: %+v", f.changes.Load(), s)
	}
}
