package configs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// inProject puts lines into a project; the first of them is line 3 of the file.
func inProject(lines string) string {
	return "projects:\n  6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11:\n    " + lines + "\n"
}

func TestParsePolicyRefuses(t *testing.T) {
	const (
		project  = "policy.yaml:3: projects.6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11."
		number   = "locks_per_minute: must be a whole number from 1 to 1000000000, not "
		text     = "must be text, in quotes where it looks like something else, not "
		notAnID  = ": is not a project id; write a UUID in its 36-character form"
		unknown  = ": unknown field; correct its name or remove it"
		longName = "name: must be at most 100 printable characters"
	)
	tests := map[string]struct{ text, want string }{
		"a fraction":                    {inProject("locks_per_minute: 1.5"), project + number + "1.5"},
		"a whole fraction":              {inProject("locks_per_minute: 600.0"), project + number + "600.0"},
		"a power of ten":                {inProject("locks_per_minute: 1e3"), project + number + "1e3"},
		"a number in quotes":            {inProject(`locks_per_minute: "600"`), project + number + `the text "600"`},
		"a number with a unit":          {inProject("locks_per_minute: 600/min"), project + number + `the text "600/min"`},
		"an octal number":               {inProject("locks_per_minute: 0600"), project + number + "0600"},
		"a hexadecimal number":          {inProject("locks_per_minute: 0x10"), project + number + "0x10"},
		"a number with underscores":     {inProject("locks_per_minute: 1_000"), project + number + "1_000"},
		"zero":                          {inProject("locks_per_minute: 0"), project + number + "0"},
		"a negative number":             {inProject("locks_per_minute: -1"), project + number + "-1"},
		"one too many":                  {inProject("locks_per_minute: 1000000001"), project + number + "1000000001"},
		"past 64 bits":                  {inProject("locks_per_minute: 18446744073709551617"), project + number + "18446744073709551617"},
		"no number":                     {inProject("locks_per_minute:"), project + number + "nothing"},
		"a list of numbers":             {inProject("locks_per_minute: [1]"), project + number + "a list"},
		"a mapping for a number":        {inProject("locks_per_minute: {a: 1}"), project + number + "a mapping"},
		"an alias that looks right":     {inProject("locks_per_minute: *5\n") + "x: &5 7\n", "policy.yaml:3: is not YAML: unknown anchor '5' referenced"},
		"an alias to a number":          {"x: &5 7\n" + inProject("locks_per_minute: *5"), "policy.yaml:1: x" + unknown + "\npolicy.yaml:4: projects.6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11." + number + "an alias; write the value out"},
		"the default out of range":      {"default:\n  locks_per_minute: 0", "policy.yaml:2: default." + number + "0"},
		"no forwarded requests":         {inProject("requests_per_minute: 0"), project + "requests_per_minute: must be a whole number from 1 to 1000000000, not 0"},
		"an unknown way out":            {inProject("when_store_unavailable: wait"), project + `when_store_unavailable: must be allow or refuse, not the text "wait"`},
		"a way out that is a flag":      {"default: {when_store_unavailable: true}", "policy.yaml:1: default.when_store_unavailable: must be allow or refuse, not true"},
		"an unknown field":              {inProject("lock_per_minute: 1"), project + "lock_per_minute" + unknown},
		"a field in another case":       {inProject("Name: a"), project + "Name" + unknown},
		"a merge key":                   {inProject("<<: {name: a}"), project + "<<" + unknown},
		"suspended by default":          {"default:\n  suspended: true", "policy.yaml:2: default.suspended" + unknown},
		"an unknown section":            {"\nproject: {}", "policy.yaml:2: project" + unknown},
		"a key with a line break":       {`"a\nb": 1`, `"policy.yaml:1: a\nb"` + unknown},
		"a key that is a list":          {"? [a]\n: 1", "policy.yaml:1: : a key must be text, not a list"},
		"a key that is an alias":        {"default: &projects {}\n*projects : {}", "policy.yaml:2: projects: a key must be text, not an alias; write the value out"},
		"a field given twice":           {inProject("name: a\n    name: b"), "policy.yaml:4: projects.6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11.name: is given twice, first in line 3; keep one"},
		"a section given twice":         {"projects: {}\ndefault: {}\nprojects: {}", "policy.yaml:3: projects: is given twice, first in line 1; keep one"},
		"a project given twice":         {inProject("name: a") + "  6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11: {}", "policy.yaml:4: projects.6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11: is given twice, first in line 2; keep one"},
		"a project in another case":     {inProject("name: a") + "  6F1C1A52-8a53-4c2b-9a0e-0d3d6d0f4a11: {}", "policy.yaml:4: projects.6F1C1A52-8a53-4c2b-9a0e-0d3d6d0f4a11: is given twice, first in line 2; keep one"},
		"a project by name":             {"projects:\n  billing: {}", "policy.yaml:2: projects.billing" + notAnID},
		"a project id without hyphens":  {"projects:\n  6f1c1a528a534c2b9a0e0d3d6d0f4a11: {}", "policy.yaml:2: projects.6f1c1a528a534c2b9a0e0d3d6d0f4a11" + notAnID},
		"a project id in braces":        {"projects:\n  '{6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11}': {}", "policy.yaml:2: projects.{6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11}" + notAnID},
		"a project id of other letters": {"projects:\n  zf1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11: {}", "policy.yaml:2: projects.zf1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11" + notAnID},
		"a project that is text":        {"projects:\n  6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11: x", "policy.yaml:2: projects.6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11: must be a mapping, not the text \"x\""},
		"projects as a list":            {"projects: [a]", "policy.yaml:1: projects: must be a mapping, not a list"},
		"projects with a null tag":      {"projects: !!null x", "policy.yaml:1: projects: must be a mapping, not x"},
		"a name that is a number":       {inProject("name: 12"), project + "name: " + text + "12"},
		"a name that is a date":         {inProject("name: 2026-01-02"), project + "name: " + text + "2026-01-02"},
		"a name with a line break":      {inProject(`name: "a\nb"`), project + longName},
		"a name of 101 characters":      {inProject("name: " + strings.Repeat("ü", 101)), project + longName},
		"suspended without a value":     {inProject("suspended:"), project + "suspended: must be true or false, not nothing"},
		"suspended as text":             {inProject(`suspended: "true"`), project + `suspended: must be true or false, not the text "true"`},
		"suspended as yes":              {inProject("suspended: yes"), project + `suspended: must be true or false, not the text "yes"`},
		"suspended as 1":                {inProject("suspended: 1"), project + "suspended: must be true or false, not 1"},
		"one revoked key":               {inProject("revoked_keys: a"), project + `revoked_keys: must be a list of key ids, not the text "a"`},
		"a revoked key that is empty":   {inProject(`revoked_keys: [a, ""]`), project + "revoked_keys: has an empty key id; write the id or remove it"},
		"a revoked key of nothing":      {inProject("revoked_keys: [~]"), project + "revoked_keys: " + text + "nothing"},
		"a revoked key as a number":     {inProject("revoked_keys: [12]"), project + "revoked_keys: " + text + "12"},
		"a revoked key as a list":       {inProject("revoked_keys: [[a]]"), project + "revoked_keys: " + text + "a list"},
		"a second document":             {"default: {}\n---\nprojects: {}", "policy.yaml:2: a second document starts here; write one only"},
		"a second empty document":       {"default: {}\n---\n", "policy.yaml:2: a second document starts here; write one only"},
		"a second broken document":      {"default: {}\n---\n[", "policy.yaml:4: is not YAML: did not find expected node content"},
		"no text":                       {"", "policy.yaml: says nothing; write {} if no project needs a policy of its own"},
		"comments alone":                {"# default:\n#   locks_per_minute: 5\n", "policy.yaml: says nothing; write {} if no project needs a policy of its own"},
		"an empty document":             {"---\n", "policy.yaml: says nothing; write {} if no project needs a policy of its own"},
		"text":                          {"600", "policy.yaml:1: must be a mapping, not 600"},
		"a list":                        {"- a", "policy.yaml:1: must be a mapping, not a list"},
		"a tab":                         {"default:\n\tlocks_per_minute: 1", "policy.yaml:2: is not YAML: found character that cannot start any token"},
		"a line without an end":         {inProject("revoked_keys: [" + strings.Repeat("a,", maxPolicyLine/2) + "]"), "policy.yaml:3: the line is longer than 65536 bytes; write a list with an item per line"},
		"values without an end":         {inProject("revoked_keys:\n" + strings.Repeat("    - a\n", maxPolicyValues/2)), "policy.yaml:524290: up to here there are more than 1048576 values, which is too much for one file"},
		"lines without an end":          {strings.Repeat("\n", maxPolicyValues+1), "policy.yaml:1048577: up to here there are more than 1048576 values, which is too much for one file"},
		"several faults":                {inProject("name: 1\n    suspended: 2") + "defaults: 3", project + "name: " + text + "1\npolicy.yaml:4: projects.6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11.suspended: must be true or false, not 2\npolicy.yaml:5: defaults" + unknown},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			policy, err := ParsePolicy("policy.yaml", []byte(test.text))
			if err == nil || err.Error() != test.want {
				t.Errorf("got:  %v\nwant: %s", err, test.want)
			}
			if policy != nil {
				t.Error("there is a policy beside the error")
			}
		})
	}
}

func TestParsePolicyReportsAFewFaultsOfMany(t *testing.T) {
	_, err := ParsePolicy("policy.yaml", []byte(strings.Repeat("x: 1\n", 1000)))
	if err == nil {
		t.Fatal("accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 21 || lines[20] != "policy.yaml: and 980 more faults" {
		t.Errorf("%d lines, the last: %s", len(lines), lines[len(lines)-1])
	}
}

func TestReadPolicyReadsTheFile(t *testing.T) {
	policy, err := ReadPolicy(file(t, "policy.yaml", "default: {locks_per_minute: 5}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := policy.Project(billing).LocksPerMinute; got != 5 {
		t.Errorf("%d a minute, want 5", got)
	}
}

func TestReadPolicyRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	wrong := file(t, "policy.yaml", "x: 1")
	large := file(t, "policy.yaml", "")
	if err := os.Truncate(large, maxPolicyBytes+1); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ path, want string }{
		"a missing file":   {missing, "open " + missing + ": no such file or directory"},
		"a wrong file":     {wrong, wrong + ":1: x: unknown field; correct its name or remove it"},
		"more than 64 MiB": {large, "the file is larger than 67108864 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadPolicy(test.path); err == nil || err.Error() != test.want {
				t.Errorf("got:  %v\nwant: %s", err, test.want)
			}
		})
	}
}

// policyOf is a file with many projects that use every field.
func policyOf(projects int) []byte {
	var b bytes.Buffer
	b.WriteString("default:\n  locks_per_minute: 600\nprojects:\n")
	for i := range projects {
		id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i))
		fmt.Fprintf(&b, "  %s:\n    name: project-%d\n    locks_per_minute: %d\n    revoked_keys: [key_%d, key_b]\n", id, i, i+1, i)
	}
	return b.Bytes()
}

// BenchmarkParsePolicy is linear in the number of projects, or reloads stall.
func BenchmarkParsePolicy(b *testing.B) {
	for _, projects := range []int{1_000, 100_000} {
		data := policyOf(projects)
		b.Run(fmt.Sprintf("projects=%d", projects), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParsePolicy("policy.yaml", data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzParsePolicy(f *testing.F) {
	example, err := os.ReadFile("policy.example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add(policyOf(3))
	for _, text := range []string{
		"", "---", "~", "- a", "a: b: c", "default: {locks_per_minute: 1}", "default: {locks_per_minute: 0x10}",
		"default: &a {locks_per_minute: 1}\nprojects: *a", "default: !!null x", "&a *a", "? [a]\n: b", "{", "%YAML 1.2\n---\n{}",
		inProject("locks_per_minute: 1000000000"), inProject("locks_per_minute: !!int '7'"), inProject("revoked_keys:\n    - a\n    - 'b'"),
		inProject("suspended: TRUE"), inProject("name: >\n      folded"), "\xff\xfe{\x00}\x00", "a: !!binary x",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		policy, err := ParsePolicy("policy.yaml", data)
		if (policy == nil) != (err != nil) {
			t.Fatalf("policy %v and error %v", policy, err)
		}
		if err != nil {
			return
		}
		for id := range policy.projects {
			inRange(t, policy.Project(id))
		}
		inRange(t, policy.Project(uuid.Nil))
	})
}

func inRange(t *testing.T, project Project) {
	t.Helper()
	if project.LocksPerMinute < 1 || project.LocksPerMinute > MaxPerMinute || project.Revoked("") {
		t.Errorf("accepted %+v", project)
	}
}
