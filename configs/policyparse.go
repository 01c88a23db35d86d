package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v4"
)

const (
	maxNameLength = 100
	maxFaults     = 20 // reported together; a wrong format would otherwise give one per project
)

// ParsePolicy reads the text of a policy file. It takes nothing that it does not know and guesses
// nothing: a text that says nothing (comments at most) is refused too, for that is what a file
// looks like that was emptied or is being written, and each revoked key would count again. The error joins every fault, each with the name of
// the file, line and field; a fault of the YAML itself stands alone.
func ParsePolicy(name string, data []byte) (*Policy, error) {
	r := policyReader{file: name}
	policy := &Policy{}
	if root := r.document(data); root != nil {
		policy = r.policy(root)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return policy, nil
}

// policyReader walks the tree of a policy file. It walks by hand because the decoder of the YAML
// library compares every key of a map with every other one: a hundred thousand projects took
// minutes, and take about a second here.
type policyReader struct {
	file   string
	path   []string // of the field being read
	faults []error
	more   int // faults past maxFaults
}

func (r *policyReader) fault(line int, format string, args ...any) {
	if len(r.faults) == maxFaults {
		r.more++
		return
	}
	where := r.file
	if line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	if len(r.path) > 0 {
		where += ": " + strings.Join(r.path, ".")
	}
	if strings.ContainsFunc(where, unprintable) {
		where = strconv.Quote(where) // a key with a line break in it must not look like a second error
	}
	r.faults = append(r.faults, fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...)))
}

func (r *policyReader) err() error {
	if r.more > 0 {
		r.faults = append(r.faults, fmt.Errorf("%s: and %d more faults", r.file, r.more))
	}
	return errors.Join(r.faults...)
}

// What the YAML library has to hold: some hundred bytes for each value, and far more for each of a
// line that begins with a bracket, since it looks for a key's colon to that line's end.
const (
	maxPolicyLine   = 64 << 10 // bytes
	maxPolicyValues = 1 << 20  // about
)

// bounded refuses a text that would take the library too much memory or time.
func (r *policyReader) bounded(data []byte) bool {
	values, number := 0, 0
	for line := range bytes.Lines(data) {
		number++
		values++
		for _, next := range []string{",", "[", "{", "- ", "? "} {
			values += bytes.Count(line, []byte(next))
		}
		switch {
		case len(line) > maxPolicyLine:
			r.fault(number, "the line is longer than %d bytes; write a list with an item per line", maxPolicyLine)
			return false
		case values > maxPolicyValues:
			r.fault(number, "up to here there are more than %d values, which is too much for one file", maxPolicyValues)
			return false
		}
	}
	return true
}

// document is the root of the only document; nil if there is none or it is not YAML.
func (r *policyReader) document(data []byte) *yaml.Node {
	if !r.bounded(data) {
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		r.syntax(err)
		return nil
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil && !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil
	} else if err != nil || isNothing(first.Content[0]) {
		r.fault(0, "says nothing; write {} if no project needs a policy of its own")
		return nil
	}
	if err := loader.Load(&second); err == nil {
		r.fault(second.Line, "a second document starts here; write one only")
	} else {
		r.syntax(err)
	}
	return first.Content[0]
}

// syntax reports an error of the YAML library, which knows the line in its own way.
func (r *policyReader) syntax(err error) {
	var at *yaml.LoadError
	switch {
	case errors.Is(err, io.EOF):
	case errors.As(err, &at):
		r.fault(at.Mark.Line, "is not YAML: %s", at.Message)
	default:
		r.fault(0, "is not YAML: %w", err)
	}
}

func (r *policyReader) policy(root *yaml.Node) *Policy {
	policy := &Policy{}
	r.fields(root, func(field string, value *yaml.Node) bool {
		switch field {
		case "default":
			policy.defaults = r.defaults(value)
		case "projects":
			policy.projects = r.projects(value)
		default:
			return false
		}
		return true
	})
	return policy
}

func (r *policyReader) defaults(n *yaml.Node) (limits Limits) {
	r.fields(n, func(field string, value *yaml.Node) bool { return r.limits(&limits, field, value) })
	return limits
}

// limits reads a field that a project and the default both have; false if this is none.
func (r *policyReader) limits(limits *Limits, field string, value *yaml.Node) bool {
	switch field {
	case "locks_per_minute":
		limits.LocksPerMinute = r.limit(value)
	case "requests_per_minute":
		limits.RequestsPerMinute = r.limit(value)
	case "when_store_unavailable":
		limits.WhenUnavailable = r.whenUnavailable(value)
	default:
		return false
	}
	return true
}

func (r *policyReader) projects(n *yaml.Node) map[uuid.UUID]Project {
	projects := make(map[uuid.UUID]Project, len(n.Content)/2)
	r.mapping(n, func(key, value *yaml.Node) {
		id, err := uuid.Parse(key.Value)
		if err != nil || len(key.Value) != 36 {
			r.fault(key.Line, "is not a project id; write a UUID in its 36-character form")
		}
		projects[id] = r.project(value)
	})
	return projects
}

func (r *policyReader) project(n *yaml.Node) (project Project) {
	r.fields(n, func(field string, value *yaml.Node) bool {
		switch field {
		case "name":
			project.Name = r.name(value)
		case "suspended":
			project.Suspended = r.flag(value)
		case "revoked_keys":
			project.revokedKeys = r.keyIDs(value)
		default:
			return r.limits(&project.Limits, field, value)
		}
		return true
	})
	return project
}

// fields visits the fields of a mapping; visit returns false for one that it does not know.
func (r *policyReader) fields(n *yaml.Node, visit func(field string, value *yaml.Node) bool) {
	r.mapping(n, func(key, value *yaml.Node) {
		if !visit(key.Value, value) {
			r.fault(key.Line, "unknown field; correct its name or remove it")
		}
	})
}

// mapping visits every key once. Nothing at all counts as an empty mapping. Letter case does not
// tell two keys apart, because it does not tell two UUIDs apart; no field has an upper-case letter.
func (r *policyReader) mapping(n *yaml.Node, visit func(key, value *yaml.Node)) {
	if isNothing(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fault(n.Line, "must be a mapping, not %s", describe(n))
		return
	}
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		r.path = append(r.path, key.Value)
		same := strings.ToLower(key.Value)
		switch line, given := lines[same]; {
		case key.Kind != yaml.ScalarNode:
			r.fault(key.Line, "a key must be text, not %s", describe(key))
		case given:
			r.fault(key.Line, "is given twice, first in line %d; keep one", line)
		default:
			lines[same] = key.Line
			visit(key, value)
		}
		r.path = r.path[:len(r.path)-1]
	}
}

// limit takes plain decimal digits only: 0600 is 384 to YAML and 600 to people.
func (r *policyReader) limit(n *yaml.Node) int64 {
	limit, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || !is(n, "!!int") || strconv.FormatInt(limit, 10) != n.Value ||
		limit < 1 || limit > MaxPerMinute {
		r.fault(n.Line, "must be a whole number from 1 to %d, not %s", MaxPerMinute, describe(n))
		return 0
	}
	return limit
}

func (r *policyReader) whenUnavailable(n *yaml.Node) WhenUnavailable {
	value := WhenUnavailable(n.Value)
	if !is(n, "!!str") || (value != Allow && value != Refuse) {
		r.fault(n.Line, "must be %s or %s, not %s", Allow, Refuse, describe(n))
	}
	return value
}

func (r *policyReader) flag(n *yaml.Node) bool {
	flag, err := strconv.ParseBool(n.Value)
	if err != nil || !is(n, "!!bool") {
		r.fault(n.Line, "must be true or false, not %s", describe(n))
	}
	return flag
}

func (r *policyReader) text(n *yaml.Node) (text string, ok bool) {
	if !is(n, "!!str") {
		r.fault(n.Line, "must be text, in quotes where it looks like something else, not %s", describe(n))
		return "", false
	}
	return n.Value, true
}

// name keeps names fit for logs and metrics.
func (r *policyReader) name(n *yaml.Node) string {
	name, _ := r.text(n)
	if utf8.RuneCountInString(name) > maxNameLength || strings.ContainsFunc(name, unprintable) {
		r.fault(n.Line, "must be at most %d printable characters", maxNameLength)
	}
	return name
}

func (r *policyReader) keyIDs(n *yaml.Node) []string {
	if isNothing(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.fault(n.Line, "must be a list of key ids, not %s", describe(n))
		return nil
	}
	ids := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		id, ok := r.text(item)
		if ok && id == "" {
			r.fault(item.Line, "has an empty key id; write the id or remove it")
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func unprintable(c rune) bool { return !unicode.IsPrint(c) }

// isNothing reports whether a key is there without a value, as when every line below it is a comment.
func isNothing(n *yaml.Node) bool {
	return is(n, "!!null") && n.Style&yaml.TaggedStyle == 0
}

// is reports whether n is a plain value of a type. An alias is not: it has the type of what it
// stands for, but its own name as its value.
func is(n *yaml.Node, tag string) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == tag
}

// describe says what somebody wrote.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return "an alias; write the value out"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNothing(n):
		return "nothing"
	case is(n, "!!str"):
		return fmt.Sprintf("the text %.40q", n.Value)
	default:
		return strings.Trim(fmt.Sprintf("%.40q", n.Value), `"`)
	}
}
