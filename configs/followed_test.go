package configs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

// never is longer than any test.
const never = time.Hour

var (
	// quick is a pace for tests that wait for several looks. No pause in a test makes a blank file count.
	quick = pace{quiet: 20 * time.Millisecond, bound: 100 * time.Millisecond, blank: never, patience: never, poll: 50 * time.Millisecond}
	// asleep leaves everything to Reload.
	asleep = pace{never, never, never, never, never}
)

// limited is a policy file in which every project has this number.
func limited(limit int) string { return fmt.Sprintf("default: {locks_per_minute: %d}\n", limit) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// must stops the test at the first step that failed.
func must(t *testing.T, steps ...error) {
	t.Helper()
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for something that takes a moment, and returns how long it took.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	begin := time.Now()
	for !holds() {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// followed is a policy file under test.
type followed struct {
	*PolicyFile
	t       *testing.T
	name    string       // in failures
	changes atomic.Int64 // calls of changed
}

// follow opens a policy file with a pace, and closes it at the end.
func follow(t *testing.T, path string, pace pace, notifier newNotifier) *followed {
	t.Helper()
	f := &followed{t: t, name: path}
	var err error
	if f.PolicyFile, err = openPolicyFile(path, func() { f.changes.Add(1) }, pace, notifier); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *followed) limit() int64 { return f.Current().Project(billing).LocksPerMinute }

// await waits until something holds, and until all that comes with it is done.
func (f *followed) await(what string, holds func() bool) {
	f.t.Helper()
	eventually(f.t, f.name+": "+what, holds)
	f.isNews("") // waits for an attempt that goes on
}

func (f *followed) awaitLimit(limit int) {
	f.t.Helper()
	f.await(fmt.Sprintf("%d a minute", limit), func() bool { return f.limit() == int64(limit) })
}

func (f *followed) awaitFailures(failures int) {
	f.t.Helper()
	f.await(fmt.Sprintf("%d failures", failures), func() bool { return f.Status().Failures == failures })
}

// awaitLooks waits until the file was looked at several times more.
func (f *followed) awaitLooks(pace pace) { time.Sleep(10*pace.quiet + 2*pace.poll) }

// noEvents is a system out of notifiers.
func noEvents() (*fsnotify.Watcher, error) { return nil, errors.New("too many open files") }

// leavesNothing fails the test if it leaves a goroutine behind. To be called first.
func leavesNothing(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// records is a service log that a test can read while it is written.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// with counts the records that contain all of the texts.
func (r *records) with(texts ...string) (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for record := range strings.Lines(r.text.String()) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(record, text)
		}
		if all {
			count++
		}
	}
	return count
}

func captureLog(t *testing.T) *records {
	t.Helper()
	r := &records{}
	previous := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(r, nil)))
	t.Cleanup(func() { slog.SetDefault(previous) })
	return r
}
