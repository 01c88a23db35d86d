package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// devProject is the project of the key that dev prints.
var devProject = uuid.MustParse("00000000-0000-4000-8000-000000000001")

const (
	dataFlag   = "the folder of store and secret, made when missing"
	secretName = "secret"
)

func (p process) dev(ctx context.Context, args []string) error {
	flags := p.flags("dev")
	data := flags.String("data", "gateway-data", dataFlag)
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := ensureSecret(*data); err != nil {
		return err
	}
	settings, err := p.load(withData(p.environ, *data))
	if err != nil {
		return err
	}
	return p.run(ctx, settings, func(g *gateway) { p.welcome(g, *data) })
}

// inPlaceOfData names the variables that take the place of the data folder's
// store and secret.
func (p process) inPlaceOfData() (set []string) {
	for _, name := range []string{"GATEWAY_STORE", "GATEWAY_JWT_SECRET", "GATEWAY_JWT_SECRET_FILE"} {
		if p.environ[name] != "" {
			set = append(set, name)
		}
	}
	return set
}

// withData fills in what the environment leaves open: the store and the secret
// in the data folder.
func withData(environ map[string]string, data string) map[string]string {
	environ = maps.Clone(environ)
	if environ["GATEWAY_STORE"] == "" {
		environ["GATEWAY_STORE"] = "bolt://" + filepath.Join(data, "locks.db")
	}
	if environ["GATEWAY_JWT_SECRET"] == "" && environ["GATEWAY_JWT_SECRET_FILE"] == "" {
		environ["GATEWAY_JWT_SECRET_FILE"] = filepath.Join(data, secretName)
	}
	return environ
}

// ensureSecret makes the secret on the first start.
func ensureSecret(data string) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	random := make([]byte, 48)
	_, _ = rand.Read(random) // never fails
	file, err := os.OpenFile(filepath.Join(data, secretName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, base64.StdEncoding.EncodeToString(random))
	return errors.Join(err, file.Sync(), file.Close())
}

// welcome prints what a newcomer needs: a key, and lines to paste.
func (p process) welcome(g *gateway, data string) {
	if len(g.settings.Secrets) == 0 {
		return // only a key set: nothing here can sign
	}
	secret := g.settings.Secrets[0].Bytes()
	key, err := auth.Mint(secret, auth.Grant{
		Kind: auth.ServiceRole, Project: devProject, KeyID: "dev",
		Issuer: g.settings.JWTIssuer, Audience: g.settings.JWTAudience, IssuedAt: time.Now(),
	})
	if err != nil {
		fmt.Fprintf(p.stderr, "gateway: no key to print: %v\n", err)
		return
	}
	public := "http://" + g.public.Addr().String()
	if g.cert != nil {
		public = "https://" + g.public.Addr().String()
	}
	url := public + "/locks/demo"
	authorization := "-H 'Authorization: Bearer " + key + "'"
	token := "-H 'X-Volcano-Lock-Token: " + uuid.NewSHA1(devProject, secret).String() + "'"
	origin := "Its data and secret are in " + data + "; the next start goes on with them."
	if set := p.inPlaceOfData(); len(set) > 0 {
		origin = "Not " + data + " counts but your environment, for: " + strings.Join(set, ", ") + "."
	}
	fmt.Fprintf(p.stdout, `
Project Locks Gateway, for development. Public: %s   Admin: http://%s
%s

A service-role key of project %s:

  %s

Acquire, renew, read and release the lock "demo":

  curl -i -X POST %s/lease %s %s -d '{"ttl_seconds": 60}'
  curl -i -X PATCH %s/lease %s %s -d '{"ttl_seconds": 60}'
  curl -i %s %s
  curl -i -X DELETE %s/lease %s %s

`, public, g.admin.Addr(), origin, devProject, key,
		url, authorization, token, url, authorization, token, url, authorization, url, authorization, token)
}
