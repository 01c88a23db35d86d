package auth

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestFoldGivesEqualTextsForEqualFoldNames(t *testing.T) {
	const last = 0x1ffff // no letter beyond has a case
	for r := rune(0); r <= last; r++ {
		name, next := "x"+string(r), "x"+string(unicode.SimpleFold(r))
		if fold(name) != fold(next) {
			t.Fatalf("%q and %q are equal under folding, and fold tells them apart", name, next)
		}
		if !strings.EqualFold(fold(name), name) {
			t.Fatalf("fold turns %q into %q, which is another name", name, fold(name))
		}
	}
}

func TestTheKnownMembersAreThoseOfTheProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		got  members
		want []string
	}{
		"claims": {claimMembers, []string{"aud", "exp", "iat", "iss", "jti", "nbf", "permissions", "project_id", "role", "sub"}},
		"header": {headerMembers, []string{"alg", "crit", "kid", "typ"}},
	} {
		if got := slices.Sorted(maps.Values(c.got)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
