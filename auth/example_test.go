package auth_test

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

func Example() {
	secret := []byte(strings.Repeat("example ", 4))
	project := uuid.MustParse("6f1c1a52-8a53-4c2b-9a0e-0d3d6d0f4a11")

	key, err := auth.Mint(secret, auth.Grant{Kind: auth.ServiceRole, Project: project, KeyID: "key_1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier, err := auth.NewVerifier(auth.Config{Secrets: [][]byte{secret}})
	if err != nil {
		fmt.Println(err)
		return
	}

	principal, err := verifier.Verify(key)
	fmt.Println(principal.Kind.Describe(), principal.KeyID, principal.CanManageLocks(), err)

	_, err = verifier.Verify("ak-" + strings.TrimPrefix(key, "sk-"))
	fmt.Println(err)
	// Output:
	// a service-role key key_1 true <nil>
	// the credential's prefix contradicts its role: sk- is for service_role, ak- for anon
}
