package middleware

import (
	"net/http"
	"strings"
	"testing"
)

// Spellings that some upstream takes for /locks or for what is below it.
var lockSpellings = []string{
	"/locks", "/locks/", "/locks/a", "/locks/a/lease", "/locks/a/b/c", "/locks/a/", "/locks//a",
	"/LOCKS/a", "/Locks/a", "/lockS/a", "/loc\xe2\x84\xaas/a", "/lock\xc5\xbf/a",
	"//locks/a", "///locks///a", "/./locks/a", "/.//locks/a",
	"/%6cocks/a", "/%6Cocks/a", "/%4Cocks/a", "/l%6fcks/a", "/%6c%6f%63%6b%73/a", "/%256cocks/a", "/%25256cocks/a", "/%25%36cocks/a",
	"/%2flocks/a", "/%2Flocks%2Fa", "/locks%2Fa", "/locks%252Fa", "/%2e/locks/a", "/%2e%2flocks/a", "/locks%2f..%2fa",
	"/a/../locks/a", "/a/%2e%2e/locks/a", "/a/.%2e/locks/a", "/a/..%2flocks/a", "/a%2f..%2flocks", "/a/%252e%252e/locks/a", "/../locks/a",
	"/a/b/../../locks/a", "/a//../locks/a", "/a/./../locks/a", "/x/../%6cocks%2f../y", "/a/../b/../locks",
	"/locks/../a", "/locks/..", "/locks/%2e%2e/a", "/locks/.", "/locks/..;/a",
	`/\locks/a`, `\locks\a`, `/locks\a`, `/a\..\locks\a`, `/%5clocks/a`, `/a/..%5clocks/a`, `/a/..%255clocks`, `\/locks`,
	"/locks;/a", "/locks;x=y/a", "/;/locks/a", "/;x/locks/a", "/a/..;/locks/a", "/a/..;x=y/locks/a", "/locks%3b/a", "/%3b/locks/a",
	"/locks?x", "/locks/?x=/a", "/locks%3Fx/a", "/locks#x", "/locks%23x/a",
	"/locks%00", "/locks%00/a", "/%00locks/a", "/lo%00cks", "/locks%20/a", "/%20locks/a", "/locks%09/a", "/lo%0acks/a", "/locks./a", "/locks%2e/a", "/locks.%20/a",
	"/locks%0d%0a/a", "/%0a/locks/a",
	"/..%c0%aflocks/a", "/%c0%aflocks/a", "/a/%c0%ae%c0%ae/locks/a", "/a/..%c1%9clocks/a", "/%c1%acocks/a",
	"/%u002flocks/a", "/%u006cocks/a", "/%u006Cocks/a", "/%uff4cocks/a", "/\xef\xbd\x8c\xef\xbd\x8f\xef\xbd\x83\xef\xbd\x8b\xef\xbd\x93/a", "/a\xef\xbc\x8f..\xef\xbc\x8flocks",
	"//x/locks/a", `/\x/locks/a`, "///x/locks/a", "/%2fx/locks/a", "//x/%6cocks/a", "/%09/x/locks/a", "//x:80/locks", "//u@x//locks/a", "//;/locks/a",
	"/%e0%80%aflocks/a", "/%f0%80%80%aflocks/a", "/%e0%81%acocks/a", "/\xe0\x81\xacocks/a", "/%f8%80%80%80%aflocks", "/%fc%80%80%80%80%aflocks",
	"/x/%e0%80%ae%e0%80%ae/locks/a", "/%c0%a56cocks/a", "/%ef%bc%856cocks/a", "/%e2%93%9bocks/a", "/\xf0\x9d\x90\xa5ocks/a", "/x/%e2%80%a5/locks/a", "/locks%c2%a0/a",
	"/%" + strings.Repeat("25", 20) + "6cocks/a",
}

// Paths that are other paths, however an upstream reads them.
var otherSpellings = []string{
	"/", "/lockset", "/lockset/a", "/lock", "/lock/s", "/locksmith", "/locks-archive/a", "/locks.json", "/locks_/a", "/locks:a", "/locks%2dx", "/locks~",
	"/a/locks", "/a/locks/b", "/a/%6cocks", "/a//locks", "/v1/LOCKS/a", "/a/./locks", "/a?/locks/b", "/a;/locks/x", "/a%2flocks",
	"/a/../b", "/../a", "/%2e%2e/a", "/clocks/a", "//a", "//locksmith/a", "//a/b/locks", "/a//b/locks", "/%e0%a0%80locks/a", "/%c3%a4/locks/a", "/%25", "/100%", "/%6", "/xlocks/a", "/locks%ff/a", "/locks\xe2\x80\x8b/a",
}

func TestSpellingsOfLocksAreFound(t *testing.T) {
	for _, path := range lockSpellings {
		if path, _, _ = strings.Cut(path, "?"); !mayBeLocks(path) {
			t.Errorf("%q is taken for another path", path)
		}
	}
	for _, path := range otherSpellings {
		if path, _, _ = strings.Cut(path, "?"); mayBeLocks(path) {
			t.Errorf("%q is taken for a path of locks", path)
		}
	}
}

func TestNoSpellingOfLocksReachesTheUpstream(t *testing.T) {
	upstream, heads := recorder(t)
	f := newFront(t, upstream, nil)
	for _, path := range lockSpellings {
		response := f.get(path)
		malformed := (path[0] == '\\' || strings.Contains(path, "#")) && response.StatusCode == http.StatusBadRequest
		if response.StatusCode != http.StatusNotFound && !malformed {
			t.Errorf("%q: status %d", path, response.StatusCode)
		}
		if strings.Contains(response.body, "locks%") || response.problem().Text == "" {
			t.Errorf("%q: body %s", path, response.body)
		}
	}
	if len(heads) > 0 {
		t.Errorf("the upstream got %q", <-heads)
	}
}

func TestPathsMayClimbOutOfTheBasePath(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/a": false, "/a/..": false, "/a/../b": false, "/a/b/../..": false, "/...": false, "/..a": false,
		"/..": true, "/../a": true, "/a/../..": true, "/%2e%2e/a": true, "/.%2E/a": true, "/a/..%2f..": true, "/%252e%252e/a": true,
		`/..\a`: true, "/%e0%80%ae%e0%80%ae/a": true, "/%e2%80%a5/a": true, `/a\..\..\b`: true, "/..;/a": true, "/./../a": true, "//../a": true, "/a//../../b": true, "/a%2fb/../..": true,
	} {
		if mayClimb(path) != want {
			t.Errorf("%q: %v, want %v", path, !want, want)
		}
	}
}

func FuzzSpellingsOfLocks(f *testing.F) {
	for _, path := range append(lockSpellings, otherSpellings...) {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		plain := mayBeLocks(path)
		if !plain && strings.HasPrefix(path, "/") && mayBeLocks("/."+path) {
			t.Errorf("%q: a dot segment makes a difference", path)
		}
		if !plain && mayBeLocks(strings.ToUpper(path)) && !strings.Contains(path, "%") {
			t.Errorf("%q: letter case makes a difference", path)
		}
		if decoded := decodeEscapes(path); !plain && mayBeLocks(decoded) {
			t.Errorf("%q: hidden by encoding", path)
		}
	})
}
