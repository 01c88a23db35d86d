package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/telemetry"
)

// Set by the Makefile.
var version = "development"

func (p process) check(ctx context.Context, args []string) error {
	if err := parse(p.flags("check"), args); err != nil {
		return err
	}
	settings, err := p.load(p.environ)
	if err != nil {
		return err
	}
	if err := errors.Join(checkKeys(ctx, settings), checkTracing(ctx), p.checkAudit(settings), checkStore(ctx, settings)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "configuration, policy and keys are usable; the store %s decides\n", settings.Store)
	return err
}

func checkKeys(ctx context.Context, settings configs.Settings) error {
	if !settings.JWKSURL.IsSet() {
		_, err := newVerifier(settings, nil)
		return err
	}
	// A KeyURL that nobody opened has no keys, and stands for some to come.
	_, err := newVerifier(settings, new(auth.KeyURL))
	if fetched := auth.CheckKeyURL(ctx, string(settings.JWKSURL.URL.Bytes())); fetched != nil {
		err = errors.Join(err, fmt.Errorf("GATEWAY_JWKS_URL: %s: %w", settings.JWKSURL, fetched))
	}
	return err
}

func checkTracing(ctx context.Context) error {
	tracing, err := telemetry.OpenTracing(version, instance())
	return errors.Join(err, tracing.Close(ctx))
}

func (p process) checkAudit(settings configs.Settings) error {
	out, err := p.openAudit(settings.AuditLog)
	if err != nil {
		return err
	}
	return out.Close()
}

func checkStore(ctx context.Context, settings configs.Settings) error {
	s, err := openStore(settings)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settings.StoreTimeout)
	defer cancel()
	if err := s.Ping(ctx); err != nil {
		return errors.Join(fmt.Errorf("GATEWAY_STORE: %s: %w", settings.Store, err), s.Close())
	}
	return s.Close()
}

func (p process) version(_ context.Context, args []string) error {
	if err := parse(p.flags("version"), args); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "gateway %s, commit %s, %s\n", version, commit(), runtime.Version())
	return err
}

func commit() string {
	info, _ := debug.ReadBuildInfo()
	revision, modified := "unknown", ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				modified = ", modified"
			}
		}
	}
	return revision + modified
}
