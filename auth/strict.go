package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// flaw is what is wrong with a JSON text: a fixed text that goes on after the
// name of what was read. It never quotes the input.
type flaw string

func (f flaw) Error() string { return string(f) }

const (
	notAnObject  flaw = "is not a JSON object in UTF-8"
	givenTwice   flaw = "gives a member twice, or in different case"
	otherCase    flaw = "has a known member in different case"
	nullValue    flaw = "has a null in place of a value"
	wrongType    flaw = "has a member of the wrong type"
	tooDeep      flaw = "is nested too deeply"
	badTime      flaw = "has a time (exp, nbf, iat) out of range"
	badProjectID flaw = "has a project_id that is not a UUID"
)

// maxDepth of nesting. encoding/json stops at 10,000, which a token of 8 KiB
// cannot reach; we recurse, and no honest token needs more than a few levels.
const maxDepth = 32

// members are the names that a struct knows, by their folded form.
type members map[string]string

// membersOf collects the json names of a struct's fields.
func membersOf[T any]() members {
	known := members{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[fold(name)] = name
	}
	return known
}

// strict decodes exactly one JSON object, without any of the leniency of
// encoding/json: see the package documentation for what it refuses. Its errors
// are flaws.
func strict(data []byte, known members, into any) error {
	if !utf8.Valid(data) || !json.Valid(data) {
		return notAnObject
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // a number too large for a float64 is none of our business in an unknown member
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return notAnObject
	}
	if err := checkObject(dec, known, 1); err != nil {
		return err
	}
	return flawOf(json.Unmarshal(data, into))
}

func flawOf(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[flaw](err); ok {
		return f
	}
	return wrongType
}

// checkObject reads an object after its opening brace. Names are compared
// folded where there are known ones, exactly in the objects further inside.
func checkObject(dec *json.Decoder, known members, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return notAnObject
		}
		key := name
		if known != nil {
			key = fold(name)
		}
		exact, isKnown := known[key]
		switch {
		case seen[key]:
			return givenTwice
		case isKnown && name != exact:
			return otherCase
		}
		seen[key] = true
		if err := checkValue(dec, isKnown, depth); err != nil {
			return err
		}
	}
	return closing(dec)
}

// checkValue reads one value. In a known member neither the value nor an
// element of it may be null: encoding/json would leave a zero there.
func checkValue(dec *json.Decoder, isKnown bool, depth int) error {
	token, err := dec.Token()
	switch {
	case err != nil:
		return notAnObject
	case token == nil && isKnown:
		return nullValue
	case depth >= maxDepth:
		return tooDeep
	case token == json.Delim('{'):
		return checkObject(dec, nil, depth+1)
	case token == json.Delim('['):
		return checkArray(dec, isKnown, depth+1)
	}
	return nil
}

func checkArray(dec *json.Decoder, isKnown bool, depth int) error {
	for dec.More() {
		if err := checkValue(dec, isKnown, depth); err != nil {
			return err
		}
	}
	return closing(dec)
}

func closing(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return notAnObject
	}
	return nil
}

// fold maps all names that strings.EqualFold calls equal to one. A map of
// folded names keeps the check linear in the number of members.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}
