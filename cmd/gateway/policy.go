package main

import (
	"context"
	"fmt"

	"github.com/project-locks/gateway/configs"
)

// policyCheck validates a policy file before it is rolled out.
func (p process) policyCheck(_ context.Context, args []string) error {
	flags := p.flags("policy check")
	if err := flags.Parse(args); err != nil {
		return flagError(err)
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(p.stderr, "gateway policy check takes one argument: the policy file")
		return errUsage
	}
	policy, err := configs.ReadPolicy(flags.Arg(0))
	if err != nil {
		return fmt.Errorf("the policy is not usable:\n%w", err)
	}
	_, err = fmt.Fprintf(p.stdout, "the policy is usable; it names %d projects\n", policy.Projects())
	return err
}
