package configs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// TestWalkFindsEveryEntryThatDecides names entries below one directory, in which "real/file" is a
// file and everything else a link.
func TestWalkFindsEveryEntryThatDecides(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(dir)
	must(t, os.MkdirAll("real/deep", 0o700), os.WriteFile("real/file", nil, 0o600),
		os.Symlink("real", "link"), os.Symlink("link/file", "twice"), os.Symlink(filepath.Join(dir, "twice"), "absolute"),
		os.Symlink("real/deep", "below"), os.Symlink("loop", "loop"), os.Symlink("real/gone", "dangling"))
	tests := map[string][]string{
		"real/file":                     {"real/file"},
		"./real//deep/../file":          {"real/file"},
		"link/file":                     {"link", "real/file"},
		"twice":                         {"twice", "link", "real/file"},
		"absolute":                      {"absolute", "twice", "link", "real/file"},
		filepath.Join(dir, "link/file"): {"link", "real/file"},
		"below/../file":                 {"below", "real/file"},
		"dangling":                      {"dangling", "real/gone"},
		"gone/away/file":                {"gone"},
		"real/file/below/it":            {"real/file/below/it"},
		"loop":                          slices.Repeat([]string{"loop"}, maxLinks+1),
	}
	for path, want := range tests {
		t.Run(strings.TrimPrefix(path, dir), func(t *testing.T) {
			got := walk(path)
			for i, entry := range got {
				got[i] = strings.TrimPrefix(entry, dir+"/")
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestOnlyTheWayToTheFileIsWatched(t *testing.T) {
	leavesNothing(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	link := filepath.Join(dir, "current")
	must(t, os.Symlink(publish(t, dir, ""), link))
	trail := openTrail(filepath.Join(link, "policy.yaml"), fsnotify.NewWatcher)
	defer trail.close()
	for range 3 {
		next := publish(t, dir, "")
		relink(t, next, link)
		trail.follow()
		watched := trail.notifier.WatchList()
		slices.Sort(watched)
		if want := []string{dir, filepath.Join(dir, next)}; !slices.Equal(watched, want) {
			t.Errorf("watched: %q, want %q", watched, want)
		}
	}
}
