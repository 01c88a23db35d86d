package configs

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

type newNotifier func() (*fsnotify.Watcher, error)

// trail is the way through the file system to one file: the directory entries that decide what
// its path means. The last is the file itself; those before it are symbolic links, such as the
// ..data of a Kubernetes mount. Their directories are watched, for a watch on a file ends when
// the file is replaced.
type trail struct {
	path       string
	notifier   *fsnotify.Watcher // nil when the system gives none
	entries    []string
	dirs       []string // of the entries
	complained string
}

func openTrail(path string, notifier newNotifier) *trail {
	t := &trail{path: path}
	var err error
	if t.notifier, err = notifier(); err != nil {
		t.complain(err)
	}
	t.follow()
	return t
}

// signs are the events of the notifier, and why some were lost. Both block without a notifier.
func (t *trail) signs() (<-chan fsnotify.Event, <-chan error) {
	if t.notifier == nil {
		return nil, nil
	}
	return t.notifier.Events, t.notifier.Errors
}

func (t *trail) close() {
	if t.notifier != nil {
		_ = t.notifier.Close() // nothing is lost with it
	}
}

// follow walks the path again and watches the directories that it leads through now. To fail is
// no error: the file is polled as well.
func (t *trail) follow() {
	if t.notifier == nil {
		return
	}
	t.entries, t.dirs = walk(t.path), t.dirs[:0]
	for _, entry := range t.entries {
		t.dirs = append(t.dirs, filepath.Dir(entry))
	}
	watched := t.notifier.WatchList()
	for _, dir := range watched {
		if !slices.Contains(t.dirs, dir) {
			_ = t.notifier.Remove(dir) // fails when the directory is gone
		}
	}
	for _, dir := range t.dirs {
		if slices.Contains(watched, dir) {
			continue
		}
		if err := t.notifier.Add(dir); err != nil {
			t.complain(err)
		}
	}
}

// complain says once why events may be missing.
func (t *trail) complain(err error) {
	if text := err.Error(); text != t.complained {
		t.complained = text
		slog.Warn("events for the policy file are missing: relying on polls", "file", t.path, "error", err)
	}
}

// concerns reports whether an event under this name may have changed what the path means.
func (t *trail) concerns(name string) bool {
	name = filepath.Clean(name)
	return slices.Contains(t.entries, name) || slices.Contains(t.dirs, name)
}

const maxLinks = 40 // as in Linux

// walk resolves a path as the system does and returns the entries that decide: each link on the
// way and, last, the file, or the first component that is missing.
func walk(path string) (entries []string) {
	dir, rest := start(path)
	for links := 0; len(rest) > 0 && links <= maxLinks; {
		name := rest[0]
		rest = rest[1:]
		entry := filepath.Join(dir, name)
		target, err := os.Readlink(entry)
		switch {
		case name == "" || name == "." || name == "..":
			dir = entry
		case err == nil:
			links++
			entries = append(entries, entry)
			rest = append(split(target), rest...)
			if filepath.IsAbs(target) {
				dir = root(target)
			}
		case len(rest) == 0 || os.IsNotExist(err):
			return append(entries, entry)
		default:
			dir = entry
		}
	}
	return entries
}

// start is where the walk begins. It does not clean the path: behind a link, ".." is not what it
// seems.
func start(path string) (dir string, rest []string) {
	if filepath.IsAbs(path) {
		return root(path), split(path)
	}
	dir, err := os.Getwd()
	if err != nil {
		return ".", split(path)
	}
	return root(dir), append(split(dir), split(path)...)
}

func root(path string) string { return filepath.VolumeName(path) + string(filepath.Separator) }

func split(path string) []string {
	return strings.Split(filepath.ToSlash(path[len(filepath.VolumeName(path)):]), "/")
}
