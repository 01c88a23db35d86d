package configs

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// replace renames a complete file over another one.
func replace(t *testing.T, path, text string) {
	t.Helper()
	next := path + ".next"
	write(t, next, text)
	must(t, os.Rename(next, path))
}

// relink points a symbolic link at something else in one step, as Kubernetes does.
func relink(t *testing.T, target, link string) {
	t.Helper()
	must(t, os.Symlink(target, link+"_tmp"), os.Rename(link+"_tmp", link))
}

// publish puts a file into a new directory below dir.
func publish(t *testing.T, dir, text string) (name string) {
	t.Helper()
	made, err := os.MkdirTemp(dir, "..2026_")
	must(t, err)
	write(t, filepath.Join(made, "policy.yaml"), text)
	return filepath.Base(made)
}

// waysToChange are what people and programs do to a file. Each makes a policy file in an empty
// directory, and says how its text changes.
var waysToChange = map[string]func(t *testing.T, dir, text string) (path string, change func(text string)){
	"written in place": func(t *testing.T, dir, text string) (string, func(string)) {
		path := filepath.Join(dir, "policy.yaml")
		write(t, path, text)
		return path, func(text string) { write(t, path, text) }
	},
	"renamed over": func(t *testing.T, dir, text string) (string, func(string)) {
		path := filepath.Join(dir, "policy.yaml")
		write(t, path, text)
		return path, func(text string) { replace(t, path, text) }
	},
	"removed and made again": func(t *testing.T, dir, text string) (string, func(string)) {
		path := filepath.Join(dir, "policy.yaml")
		write(t, path, text)
		return path, func(text string) {
			must(t, os.Remove(path))
			write(t, path, text)
		}
	},
	"mounted by Kubernetes": func(t *testing.T, dir, text string) (string, func(string)) {
		old := publish(t, dir, text)
		must(t, os.Symlink(old, filepath.Join(dir, "..data")),
			os.Symlink(filepath.Join("..data", "policy.yaml"), filepath.Join(dir, "policy.yaml")))
		return filepath.Join(dir, "policy.yaml"), func(text string) {
			next := publish(t, dir, text)
			relink(t, next, filepath.Join(dir, "..data"))
			must(t, os.RemoveAll(filepath.Join(dir, old)))
			old = next
		}
	},
	"in a directory that is a link": func(t *testing.T, dir, text string) (string, func(string)) {
		link := filepath.Join(dir, "current")
		must(t, os.Symlink(publish(t, dir, text), link))
		return filepath.Join(link, "policy.yaml"), func(text string) { relink(t, publish(t, dir, text), link) }
	},
	"written behind a link": func(t *testing.T, dir, text string) (string, func(string)) {
		target, link := filepath.Join(dir, publish(t, dir, text), "policy.yaml"), filepath.Join(dir, "policy.yaml")
		must(t, os.Symlink(target, link))
		return link, func(text string) { write(t, target, text) }
	},
	"with its directory replaced": func(t *testing.T, dir, text string) (string, func(string)) {
		path := filepath.Join(dir, "etc", "policy.yaml")
		fill := func(text string) {
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			write(t, path, text)
		}
		fill(text)
		return path, func(text string) {
			old := filepath.Join(dir, "old")
			must(t, os.Rename(filepath.Dir(path), old), os.RemoveAll(old))
			fill(text)
		}
	},
}

func TestEveryChangeIsSeenAgainAndAgain(t *testing.T) {
	leavesNothing(t)
	means := map[string]struct {
		notifier newNotifier
		pace     pace
	}{
		"by events alone": {fsnotify.NewWatcher, pace{quiet: usualPace.quiet, bound: usualPace.bound, blank: usualPace.blank, patience: never, poll: never}},
		"by polls alone":  {noEvents, usualPace},
		"by both":         {fsnotify.NewWatcher, usualPace},
	}
	for name, mean := range means {
		t.Run(name, func(t *testing.T) {
			changes := map[*followed]func(string){}
			for way, prepare := range waysToChange {
				path, change := prepare(t, t.TempDir(), limited(1))
				f := follow(t, path, mean.pace, mean.notifier)
				f.name = way
				changes[f] = change
			}
			for limit := 2; limit <= 4; limit++ {
				seeAll(t, changes, limit)
			}
		})
	}
}

// seeAll changes every file and waits until every change is in force.
func seeAll(t *testing.T, changes map[*followed]func(string), limit int) {
	t.Helper()
	begin := time.Now()
	for _, change := range changes {
		change(limited(limit))
	}
	for f := range changes {
		f.awaitLimit(limit)
		if f.Status().Reloads != limit-1 || f.changes.Load() != int64(limit-1) {
			t.Errorf("%s: changed was called %d times, %+v", f.name, f.changes.Load(), f.Status())
		}
	}
	t.Logf("all in force after %v", time.Since(begin).Round(time.Millisecond))
}

func TestABadFileLeavesTheLastGoodOneInForce(t *testing.T) {
	for name, notifier := range map[string]newNotifier{"by events": fsnotify.NewWatcher, "by polls": noEvents} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			log := captureLog(t)
			path := file(t, "policy.yaml", limited(1))
			f := follow(t, path, quick, notifier)
			good := f.Status().Version

			write(t, path, "default: {locks_per_minute: 0}")
			f.awaitFailures(1)
			f.awaitLooks(quick)
			if log.with("level=ERROR", path+":1: default.locks_per_minute: must be", "version="+good) != 1 || f.Status().Failures != 1 {
				t.Errorf("%d records, %+v", log.with("level=ERROR"), f.Status())
			}
			write(t, path, "default: {locks_per_minute: -1}")
			f.awaitFailures(2)
			if log.with("level=ERROR") != 2 || f.limit() != 1 || f.changes.Load() != 0 {
				t.Errorf("%d records, %d a minute, %d changes", log.with("level=ERROR"), f.limit(), f.changes.Load())
			}
			write(t, path, limited(3))
			f.awaitLimit(3)
			if f.Status().LastError != "" || f.Status().Version == good {
				t.Errorf("%+v", f.Status())
			}
			if log.with("level=INFO", "policy in force", "version="+f.Status().Version, "projects=0") != 1 {
				t.Error("nobody learns that the good file is in force")
			}
		})
	}
}

func TestAMissingFileIsToldOnceAndFoundAgain(t *testing.T) {
	leavesNothing(t)
	log := captureLog(t)
	path := file(t, "policy.yaml", limited(1))
	f := follow(t, path, quick, fsnotify.NewWatcher)
	for round := 1; round <= 3; round++ {
		must(t, os.Remove(path))
		f.awaitFailures(round)
		f.awaitLooks(quick)
		if f.Status().Failures != round || log.with("level=ERROR", "no such file") != round || f.limit() != int64(round) {
			t.Fatalf("round %d: %d records, %d a minute, %+v", round, log.with("level=ERROR"), f.limit(), f.Status())
		}
		write(t, path, limited(round+1))
		f.awaitLimit(round + 1)
	}

	must(t, os.Remove(path))
	f.awaitFailures(4)
	write(t, path, limited(4))
	f.await("the file as before", func() bool { return f.Status().LastError == "" })
	if f.Status().Reloads != 3 || f.changes.Load() != 3 {
		t.Errorf("the same content was reloaded: %+v", f.Status())
	}
}

func TestTheSameContentChangesNothing(t *testing.T) {
	leavesNothing(t)
	log := captureLog(t)
	path := file(t, "policy.yaml", limited(1))
	f := follow(t, path, quick, fsnotify.NewWatcher)
	before, records := f.Status(), log.with()
	for range 3 {
		write(t, path, limited(1))
		replace(t, path, limited(1))
		must(t, os.Chtimes(path, time.Time{}, time.Now()))
		f.awaitLooks(quick)
	}
	if f.Status() != before || f.changes.Load() != 0 || log.with() != records {
		t.Errorf("%d changes, %d records more, %+v", f.changes.Load(), log.with()-records, f.Status())
	}
}

func TestAFileThatWasEmptiedLeavesThePolicyInForce(t *testing.T) {
	leavesNothing(t)
	path := file(t, "policy.yaml", limited(1))
	impatient := quick
	impatient.blank = quick.quiet
	f := follow(t, path, impatient, fsnotify.NewWatcher)
	for failures, blank := range []string{"", "\n", "# Limits of our projects.\n\n  # Ask Ada.\n"} {
		replace(t, path, blank)
		f.awaitFailures(failures + 1)
		if f.limit() != 1 {
			t.Errorf("after %q: %d a minute, %+v", blank, f.limit(), f.Status())
		}
	}
	replace(t, path, "# Limits of our projects.\n"+limited(2))
	f.awaitLimit(2)
	if f.changes.Load() != 1 {
		t.Errorf("%d changes", f.changes.Load())
	}
}

// TestEndlessEventsDelayNothingForEver keeps something going on until the test has seen enough.
func TestEndlessEventsDelayNothingForEver(t *testing.T) {
	tests := map[string]struct {
		patience time.Duration
		disturb  func(t *testing.T, path string, n int)
	}{
		"the same content again and again": {never, func(t *testing.T, path string, _ int) {
			t.Helper()
			replace(t, path, limited(2))
		}},
		"another content each time": {time.Second, func(t *testing.T, path string, n int) {
			t.Helper()
			replace(t, path, limited(2)+"# "+strconv.Itoa(n))
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			busy := quick
			busy.quiet, busy.patience = 100*time.Millisecond, test.patience
			path := file(t, "policy.yaml", limited(1))
			f := follow(t, path, busy, fsnotify.NewWatcher)
			n := 0
			eventually(t, "2 a minute", func() bool {
				n++
				test.disturb(t, path, n)
				return f.limit() == 2
			})
		})
	}
}

func TestTheFileIsPolledWhenTheSystemGivesNoEvents(t *testing.T) {
	leavesNothing(t)
	log := captureLog(t)
	path := file(t, "policy.yaml", limited(1))
	f := follow(t, path, quick, noEvents)
	write(t, path, limited(2))
	f.awaitLimit(2)
	f.awaitLooks(quick)
	if log.with("level=WARN", "relying on polls", "too many open files") != 1 || log.with("level=WARN") != 1 {
		t.Errorf("%d warnings", log.with("level=WARN"))
	}
}
