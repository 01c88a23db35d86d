package configs

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the settings table in the README")

func TestREADMESettingsAreCurrent(t *testing.T) {
	const (
		path  = "../README.md"
		begin = "<!-- settings:begin -->\n"
		end   = "<!-- settings:end -->"
	)
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("the README with the settings table is missing: %v", err)
	}
	before, rest, hasBegin := strings.Cut(string(readme), begin)
	table, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s has no lines %q and %q around its settings table", path, strings.TrimSpace(begin), end)
	}
	if table == SettingsTable() {
		return
	}
	if !*update {
		t.Fatal("the settings table in the README is stale; run go test ./configs -run README -update")
	}
	if err := os.WriteFile(path, []byte(before+begin+SettingsTable()+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsTableHasARowForEverySetting(t *testing.T) {
	table := SettingsTable()
	for _, row := range []string{
		"| `GATEWAY_ADDR` | `127.0.0.1:8080` | public listener, HOST:PORT; port 0 takes any free one |\n",
		"| `GATEWAY_JWT_ISSUER` | – | issuer (iss) that a credential must name; unset: any |\n",
	} {
		if !strings.Contains(table, row) {
			t.Errorf("%q is missing in\n%s", row, table)
		}
	}
	rows := 2 // the head
	for field := range reflect.TypeFor[Settings]().Fields() {
		name, doc := field.Tag.Get("env"), field.Tag.Get("doc")
		if name != "" && (doc == "" || strings.ContainsAny(doc, "|\n") || strings.Count(table, "| `"+name+"` |") != 1) {
			t.Errorf("%s has no row, or none that a table can hold: %q", name, doc)
		}
		if name != "" {
			rows++
		}
	}
	if got := strings.Count(table, "\n"); got != rows {
		t.Errorf("%d lines, want %d", got, rows)
	}
}
