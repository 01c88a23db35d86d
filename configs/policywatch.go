package configs

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

// pace is how soon a policy file is looked at, and believed.
type pace struct {
	quiet    time.Duration // without a sign of change before a look, and between two looks
	bound    time.Duration // on waiting for quiet
	blank    time.Duration // that a blank file must remain so before it is refused
	patience time.Duration // with a file that is different at each look
	poll     time.Duration // between looks without a sign of change
}

var usualPace = pace{
	quiet:    200 * time.Millisecond,
	bound:    time.Second,
	blank:    time.Second,
	patience: 10 * time.Second,
	poll:     1500 * time.Millisecond,
}

// policyWatch decides when a PolicyFile reads its file. A sign of change, from the system or from
// a poll, is followed by a look once the signs have ceased; what is new must be the same at the
// next look before it counts. However many signs come, looks are apart by the time of quiet.
type policyWatch struct {
	file  *PolicyFile
	pace  pace
	trail *trail

	timer  *time.Timer // of the next look
	lookBy time.Time   // that look at the latest; zero when there is none to come
	since  time.Time   // of the first sign that no look has answered; zero when there is none
	seen   string      // id of the news of the last look
	seenAt time.Time   // when that was new
}

func newPolicyWatch(file *PolicyFile, pace pace, notifier newNotifier) *policyWatch {
	return &policyWatch{
		file: file, pace: pace, trail: openTrail(file.path, notifier),
		timer: time.NewTimer(pace.quiet), since: time.Now(), // the file may have changed since it was read
	}
}

func (w *policyWatch) run(ctx context.Context) {
	defer w.trail.close()
	defer w.timer.Stop()
	poll := time.NewTicker(w.pace.poll)
	defer poll.Stop()
	events, lost := w.trail.signs()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-events:
			w.event(event)
		case err := <-lost:
			w.trail.complain(err)
			w.sign()
		case <-poll.C:
			w.pollFile()
		case <-w.timer.C:
			w.look()
		}
	}
}

func (w *policyWatch) event(event fsnotify.Event) {
	if w.trail.concerns(event.Name) {
		w.sign()
	}
}

// pollFile finds what no event told: on file systems without events, on a file that is mounted
// alone, and when a directory was replaced.
func (w *policyWatch) pollFile() {
	w.trail.follow()
	if w.since.IsZero() && w.file.isNews(fingerprint(w.file.path)) {
		w.sign()
	}
}

// sign puts the next look off until there is quiet, within bounds.
func (w *policyWatch) sign() {
	now := time.Now()
	if w.since.IsZero() {
		w.since = now
	}
	if w.lookBy.IsZero() {
		w.lookBy = now.Add(w.pace.bound)
	}
	w.timer.Reset(min(w.pace.quiet, w.lookBy.Sub(now)))
}

func (w *policyWatch) look() {
	w.trail.follow()
	w.lookBy = time.Time{}
	if w.file.tryWhen(w.ready) {
		w.since, w.seen = time.Time{}, ""
		return
	}
	w.lookBy = time.Now().Add(w.pace.quiet)
	w.timer.Reset(w.pace.quiet)
}

// ready reports whether what was read can be believed.
func (w *policyWatch) ready(r reading) bool {
	now := time.Now()
	if r.id != w.seen {
		w.seen, w.seenAt = r.id, now
	}
	same := now.Sub(w.seenAt)
	if r.blank() {
		return same >= w.pace.blank
	}
	return same >= w.pace.quiet || now.Sub(w.since) >= w.pace.patience
}
