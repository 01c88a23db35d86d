package configs

import (
	"fmt"
	"reflect"
	"strings"
)

// SettingsTable is the table of settings in Markdown, as the README shows it.
func SettingsTable() string {
	var b strings.Builder
	b.WriteString("| Variable | Default | Meaning |\n| --- | --- | --- |\n")
	for field := range reflect.TypeFor[Settings]().Fields() {
		name := field.Tag.Get("env")
		if name == "" {
			continue
		}
		value := "–"
		if preset := field.Tag.Get("envDefault"); preset != "" {
			value = "`" + preset + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, value, field.Tag.Get("doc"))
	}
	return b.String()
}
