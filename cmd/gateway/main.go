// Command gateway is the edge tier of an API: it decides lock requests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/caarlos0/env/v10"
)

const usage = `gateway is the edge tier of an API: it decides lock requests.

  gateway serve         serve with the configuration from the environment
  gateway dev           start developing: embedded store, generated secret, ready curl lines
  gateway key create    print a credential
  gateway key inspect   read a credential on stdin and print what the gateway makes of it
  gateway check         check configuration, policy file and store
  gateway policy check  check one policy FILE before it is rolled out
  gateway version       print version, commit and Go version

Every command explains its flags with -h. The environment variables are in README.md.
`

// process is what a command has of the world.
type process struct {
	environ map[string]string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
}

var errUsage = errors.New("usage")

func main() { os.Exit(run()) }

func run() (exitCode int) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := process{environ: env.ToMap(os.Environ()), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	switch err := p.command(ctx, os.Args[1:]); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	default:
		fmt.Fprintf(os.Stderr, "gateway: %v\n", err)
		return 1
	}
}

func (p process) command(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{
		"serve":        p.serve,
		"dev":          p.dev,
		"key create":   p.keyCreate,
		"key inspect":  p.keyInspect,
		"check":        p.check,
		"policy check": p.policyCheck,
		"version":      p.version,
	}
	for words := min(2, len(args)); words > 0; words-- {
		if run, found := commands[strings.Join(args[:words], " ")]; found {
			return run(ctx, args[words:])
		}
	}
	if len(args) > 0 && slices.Contains([]string{"help", "-h", "--help"}, args[len(args)-1]) {
		_, err := fmt.Fprint(p.stdout, usage)
		return err
	}
	if len(args) > 0 {
		fmt.Fprintf(p.stderr, "there is no command %.100q\n\n", strings.Join(args, " "))
	}
	fmt.Fprint(p.stderr, usage)
	return errUsage
}

// flags makes the flags of a command, explained by its line of the usage; parse
// reports what is left over.
func (p process) flags(name string) *flag.FlagSet {
	set := flag.NewFlagSet("gateway "+name, flag.ContinueOnError)
	set.SetOutput(p.stderr)
	set.Usage = func() {
		for line := range strings.Lines(usage) {
			if strings.HasPrefix(line, "  "+set.Name()+" ") {
				fmt.Fprint(p.stderr, line)
			}
		}
		set.PrintDefaults()
	}
	return set
}

func parse(set *flag.FlagSet, args []string) error {
	if err := set.Parse(args); err != nil {
		return flagError(err)
	}
	if set.NArg() > 0 {
		fmt.Fprintf(set.Output(), "%s takes no argument %q\n", set.Name(), set.Arg(0))
		set.Usage()
		return errUsage
	}
	return nil
}

// flagError makes a wrong flag a usage error: the flag package has said what is wrong.
func flagError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return errUsage
}
