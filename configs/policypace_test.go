package configs

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The tests in this file have a clock of their own, so that they can be exact about time. Events
// come from outside of it: what happens here is found by polls.

func TestAFileIsReadOnceItsWriterHasFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := file(t, "policy.yaml", limited(1))
		f := follow(t, path, usualPace, noEvents)
		text := ""
		for _, piece := range []string{"default:\n", "  locks_per_minute: 7\n", "projects:\n", "  ", other.String() + ":", "\n", "    name: other\n", "  ", billing.String(), ":", "\n", "    ", "name: billing\n", "    locks_per_minute:", " 8"} {
			text += piece
			replace(t, path, text) // in one step, for a look may come at this very moment
			time.Sleep(usualPace.quiet / 2)
			if f.limit() != 1 || f.Status().Failures != 0 {
				t.Errorf("a piece was taken for the whole: %q", text)
			}
		}
		time.Sleep(2 * time.Second)
		if f.limit() != 8 || f.changes.Load() != 1 {
			t.Errorf("%d a minute after %d changes", f.limit(), f.changes.Load())
		}
	})
}

func TestAFileThatNeverStopsChangingIsTakenAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := file(t, "policy.yaml", limited(1))
		f := follow(t, path, usualPace, noEvents)
		begin, n := time.Now(), 0
		for f.limit() == 1 {
			n++
			replace(t, path, limited(2)+"# "+strconv.Itoa(n))
			time.Sleep(usualPace.quiet / 2)
		}
		if took := time.Since(begin); took < usualPace.patience || took > usualPace.patience+2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestABlankFileIsRefusedAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := file(t, "policy.yaml", limited(1))
		f := follow(t, path, usualPace, noEvents)
		time.Sleep(usualPace.poll - 1) // the next poll is now
		write(t, path, "# Limits of our projects.\n")
		time.Sleep(time.Second)
		if f.Status().Failures != 0 {
			t.Error("it is refused at once")
		}
		time.Sleep(time.Second)
		if f.limit() != 1 || f.changes.Load() != 0 || f.Status().Failures != 1 {
			t.Errorf("%d a minute after %d changes, %+v", f.limit(), f.changes.Load(), f.Status())
		}
	})
}

func TestAChangeRightAfterTheStartIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := file(t, "policy.yaml", limited(1))
		f := follow(t, path, usualPace, noEvents)
		write(t, path, limited(2))
		time.Sleep(usualPace.quiet + 1)
		if f.limit() != 1 {
			t.Error("one look is enough")
		}
		time.Sleep(usualPace.quiet)
		if f.limit() != 2 {
			t.Error("it waits for a poll")
		}
	})
}

func TestManySignsCauseFewLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, file(t, "policy.yaml", limited(1)), asleep, noEvents)
		w := newPolicyWatch(f.PolicyFile, usualPace, noEvents)
		looks := 0
		for range 10_000 {
			w.sign()
			time.Sleep(time.Millisecond)
			select {
			case <-w.timer.C:
				looks++
				w.look()
			default:
			}
		}
		if looks < 9 || looks > 11 {
			t.Errorf("%d looks in 10 s, want one a second", looks)
		}
	})
}

func TestOnlyEventsOnTheWayToTheFileAreSigns(t *testing.T) {
	path := file(t, "policy.yaml", limited(1))
	f := follow(t, path, asleep, noEvents)
	w := newPolicyWatch(f.PolicyFile, asleep, fsnotify.NewWatcher)
	defer w.trail.close()
	for name, want := range map[string]bool{path + ".swp": false, "": false, path: true} {
		w.since = time.Time{}
		w.event(fsnotify.Event{Name: name, Op: fsnotify.Write})
		if w.since.IsZero() == want {
			t.Errorf("an event on %q counts: %v", name, !want)
		}
	}
}
