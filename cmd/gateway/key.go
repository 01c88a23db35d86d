package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
)

const tokenLifetime = time.Hour // of an access token, unless --expires says otherwise

func (p process) keyCreate(_ context.Context, args []string) error {
	flags := p.flags("key create")
	data := flags.String("data", "", "take the secret of gateway dev from this folder")
	project := flags.String("project", "", "UUID of the project; required, except for the role platform")
	role := flags.String("role", string(auth.ServiceRole), "service_role, anon, authenticated or platform")
	permissions := flags.String("permissions", "", `permissions, separated by commas; without this flag a service-role key may do everything ("*")`)
	id := flags.String("id", "", "key id, for audit and revocation (default: a new one)")
	expires := flags.Duration("expires", 0, "time until the credential expires in h, m and s, such as 2160h for 90 days (default: never, an access token after 1h)")
	if err := parse(flags, args); err != nil {
		return err
	}
	settings, err := p.keySettings(*data)
	if err != nil {
		return err
	}
	if len(settings.Secrets) == 0 {
		return errors.New("there is no secret to sign with: set GATEWAY_JWT_SECRET or GATEWAY_JWT_SECRET_FILE, or use --data")
	}
	grant, err := newGrant(settings, *project, *role, *id, *expires)
	if err != nil {
		return err
	}
	if isSet(flags, "permissions") {
		grant.Permissions = strings.FieldsFunc(*permissions, func(r rune) bool { return r == ',' || r == ' ' })
	}
	credential, err := auth.Mint(settings.Secrets[0].Bytes(), grant)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, credential)
	return err
}

func newGrant(settings configs.Settings, project, role, id string, expires time.Duration) (auth.Grant, error) {
	grant := auth.Grant{
		Kind: auth.Kind(role), KeyID: id,
		Issuer: settings.JWTIssuer, Audience: settings.JWTAudience, IssuedAt: time.Now(),
	}
	if project != "" {
		var err error
		if grant.Project, err = uuid.Parse(project); err != nil {
			return grant, fmt.Errorf("--project: %w", err)
		}
	} else if grant.Kind != auth.Platform {
		return grant, errors.New("--project is missing: the UUID of the project that the credential is for")
	}
	if grant.KeyID == "" {
		grant.KeyID = "key_" + uuid.NewString()
	}
	if expires < 0 || expires%time.Second != 0 {
		return grant, errors.New("--expires: write whole seconds from now, for example 24h")
	}
	if expires == 0 && grant.Kind == auth.AuthUser {
		expires = tokenLifetime
	}
	if expires > 0 {
		grant.ExpiresAt = grant.IssuedAt.Add(expires)
	}
	return grant, nil
}

// inspection is what key inspect prints.
type inspection struct {
	Valid       bool       `json:"valid"`
	Reason      string     `json:"reason,omitempty"` // why not
	Kind        auth.Kind  `json:"kind,omitempty"`
	Project     *uuid.UUID `json:"project_id,omitempty"`
	KeyID       string     `json:"key_id,omitempty"`
	UserID      string     `json:"user_id,omitempty"`
	Permissions []string   `json:"permissions,omitzero"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	ManageLocks bool       `json:"can_manage_locks"`
	Suspended   bool       `json:"project_suspended,omitempty"`
}

const maxCredential = 64 << 10 // bytes read from stdin; far more than the gateway accepts

func (p process) keyInspect(_ context.Context, args []string) error {
	flags := p.flags("key inspect")
	data := flags.String("data", "", "take the secret of gateway dev from this folder")
	if err := parse(flags, args); err != nil {
		return err
	}
	settings, err := p.keySettings(*data)
	if err != nil {
		return err
	}
	keys, err := openKeyURL(settings)
	if err != nil {
		return err
	}
	defer keys.Close() //nolint:errcheck // never fails
	verifier, err := newVerifier(settings, keys)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(p.stdin, maxCredential))
	if err != nil {
		return err
	}
	out := json.NewEncoder(p.stdout)
	out.SetIndent("", "  ")
	return out.Encode(inspect(verifier, settings.Policy, strings.TrimSpace(string(text))))
}

func inspect(verifier *auth.Verifier, policy *configs.Policy, credential string) inspection {
	principal, err := verifier.Verify(credential)
	if err != nil {
		return inspection{Reason: err.Error()}
	}
	project := policy.Project(principal.Project)
	i := inspection{
		Valid: true, Kind: principal.Kind, KeyID: principal.KeyID, UserID: principal.UserID,
		Permissions: principal.Permissions, ManageLocks: principal.CanManageLocks(), Suspended: project.Suspended,
	}
	if principal.Project != uuid.Nil {
		i.Project = &principal.Project
	}
	if !principal.ExpiresAt.IsZero() {
		i.ExpiresAt = &principal.ExpiresAt
	}
	if project.Revoked(principal.KeyID) {
		i.Valid, i.Reason = false, "this key was revoked"
	}
	i.ManageLocks = i.ManageLocks && i.Valid && !i.Suspended
	return i
}

func (p process) keySettings(data string) (configs.Settings, error) {
	if data == "" {
		return p.load(p.environ)
	}
	if _, err := os.Stat(filepath.Join(data, secretName)); err != nil {
		return configs.Settings{}, fmt.Errorf("--data: no secret of gateway dev is there: %w", err)
	}
	environ := maps.Clone(p.environ)
	delete(environ, "GATEWAY_JWT_SECRET")
	delete(environ, "GATEWAY_JWT_SECRET_FILE")
	return p.load(withData(environ, data))
}

func isSet(flags *flag.FlagSet, name string) (set bool) {
	flags.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}
