package configs

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v10"
)

const prefix = "GATEWAY_"

// Load reads the settings from environ, which maps names to values as [env.ToMap] does for
// os.Environ. A caller with defaults of its own fills in what is missing first. The error joins
// every complaint, one line each.
func Load(environ map[string]string) (Settings, error) {
	// Only what is ours: the parser would look up fields without a variable under an empty name.
	ours := maps.Clone(environ)
	maps.DeleteFunc(ours, func(name, _ string) bool { return !strings.HasPrefix(name, prefix) })

	var s Settings
	var c complaints
	c.parse(&s, ours)
	c.unknown(ours)
	c.check(&s)
	if len(c.list) > 0 {
		return Settings{}, errors.Join(c.list...)
	}
	return s, nil
}

// complaints collects what is wrong, one complaint for each variable: the first is the cause.
type complaints struct {
	list  []error
	about map[string]bool
}

func (c *complaints) add(name, format string, args ...any) {
	if c.about[name] {
		return
	}
	if c.about == nil {
		c.about = map[string]bool{}
	}
	c.about[name] = true
	c.list = append(c.list, fmt.Errorf("%s: %w", name, fmt.Errorf(format, args...)))
}

// parse fills the fields that have a variable.
func (c *complaints) parse(s *Settings, environ map[string]string) {
	err := env.ParseWithOptions(s, env.Options{Environment: environ})
	var all env.AggregateError
	if err == nil || !errors.As(err, &all) {
		return
	}
	for _, err := range all.Errors {
		var wrong env.ParseError
		if !errors.As(err, &wrong) {
			c.list = append(c.list, err) // a mistake in the tags, which the tests would show
			continue
		}
		field, _ := reflect.TypeFor[Settings]().FieldByName(wrong.Name)
		name := field.Tag.Get("env")
		switch wrong.Type {
		case reflect.TypeFor[time.Duration]():
			c.add(name, "%q is not a duration; write for example %s", environ[name], field.Tag.Get("envDefault"))
		case reflect.TypeFor[int]():
			c.add(name, "%q is not a whole number; write for example %s", environ[name], field.Tag.Get("envDefault"))
		default:
			c.add(name, "%w", wrong.Err)
		}
	}
}

// serviceLink matches what Kubernetes and Docker put into the environment of every container
// beside a service whose name starts with "gateway": GATEWAY_SERVICE_HOST=10.0.0.1,
// GATEWAY_PORT_8080_TCP=tcp://10.0.0.1:8080 and so on. Nobody wrote these.
var serviceLink = regexp.MustCompile(`^GATEWAY_(\w+_)?(SERVICE_HOST=|SERVICE_PORT(_\w+)?=\d|PORT=(tcp|udp|sctp)://|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// unknown complains about names that no setting has. It never shows the value: in
// GATEWAY_JWT_SECERT it is a secret.
func (c *complaints) unknown(environ map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if !known(name) && !serviceLink.MatchString(name+"="+environ[name]) {
			c.add(name, "unknown setting; correct its name or remove it")
		}
	}
}

func known(name string) bool {
	for field := range reflect.TypeFor[Settings]().Fields() {
		if field.Tag.Get("env") == name {
			return true
		}
	}
	return false
}
