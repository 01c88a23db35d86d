package main

import (
	"os"
	"path/filepath"
	"testing"
)

func writePolicy(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
