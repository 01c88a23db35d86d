package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/lockcore/store/boltstore"
	"github.com/project-locks/gateway/lockcore/store/redisstore"
	"github.com/project-locks/gateway/middleware"
	"github.com/project-locks/gateway/telemetry"
)

func (p process) serve(ctx context.Context, args []string) error {
	if err := parse(p.flags("serve"), args); err != nil {
		return err
	}
	settings, err := p.load(p.environ)
	if err != nil {
		return err
	}
	return p.run(ctx, settings, func(*gateway) {})
}

// run serves until ctx ends, then finishes what is in flight. Once both
// listeners are open it calls ready.
func (p process) run(ctx context.Context, settings configs.Settings, ready func(*gateway)) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // which ends a process that does not ask for it
	defer signal.Stop(hangup)
	signal.Ignore(syscall.SIGPIPE) // a reader of stdout that has gone costs lines of the log, not the service
	g, err := p.open(settings)
	if err != nil {
		return err
	}
	slog.Info("serving", "public", g.public.Addr().String(), "admin", g.admin.Addr().String(), "settings", settings)
	ready(g)
	return errors.Join(g.serve(ctx, hangup), g.close())
}

// load reads the configuration and sets up the log that it asks for.
func (p process) load(environ map[string]string) (configs.Settings, error) {
	settings, err := configs.Load(environ)
	if err != nil {
		return settings, fmt.Errorf("the configuration is not usable:\n%w", err)
	}
	setLogger(settings, p.stderr)
	return settings, nil
}

// gateway is a process that serves.
type gateway struct {
	settings configs.Settings
	metrics  *prometheus.Registry
	tracing  *telemetry.Tracing // nil without traces
	policy   *configs.PolicyFile
	keys     *auth.KeyURL // nil without GATEWAY_JWKS_URL
	store    store.Store
	audit    io.Closer
	cert     *configs.Certificate // nil without TLS
	records  *middleware.Audit
	public   net.Listener
	admin    net.Listener
	draining atomic.Bool
	app      *fiber.App
	forward  *middleware.Forward // nil without an upstream
	adminApp *http.Server
	failed   chan error // of a listener, room for both
}

// open opens everything, so that a wrong start fails at once, and completely.
func (p process) open(settings configs.Settings) (_ *gateway, err error) {
	settings.Policy = nil // from here on the file's owner has it
	g := &gateway{settings: settings, metrics: telemetry.NewRegistry(), failed: make(chan error, 2)}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if g.keys, err = openKeyURL(settings); err != nil {
		return nil, err
	}
	verifier, err := newVerifier(settings, g.keys)
	if err != nil {
		return nil, err
	}
	credentials, err := auth.NewCache(verifier, time.Now)
	if err != nil {
		return nil, err
	}
	if g.policy, err = configs.OpenPolicyFile(settings.PolicyFile, credentials.Empty); err != nil {
		return nil, fmt.Errorf("GATEWAY_POLICY_FILE: %w", err)
	}
	if g.tracing, err = telemetry.OpenTracing(version, instance()); err != nil {
		return nil, err
	}
	opened, err := openStore(settings)
	if err != nil {
		return nil, err
	}
	g.store = store.NewExhausted(g.measure(opened))
	out, err := p.openAudit(settings.AuditLog)
	if err != nil {
		return nil, err
	}
	g.audit, g.records = out, middleware.NewAudit(out, instance())
	if g.public, err = listen("GATEWAY_ADDR", settings.Addr); err != nil {
		return nil, err
	}
	g.public = bounded(middleware.Linger(g.public), connectionLimit())
	if settings.TLSCert != "" {
		if g.cert, err = configs.OpenCertificate(settings.TLSCert, settings.TLSKey); err != nil {
			return nil, err
		}
		g.public = tls.NewListener(g.public, encryption(g.cert))
	}
	if g.admin, err = listen("GATEWAY_ADMIN_ADDR", settings.AdminAddr); err != nil {
		return nil, err
	}
	g.admin = bounded(g.admin, adminLimit())
	locks := &middleware.Locks{
		Store:       g.store,
		Timeout:     settings.StoreTimeout,
		Credentials: credentials,
		Policy:      g.policy.Current,
		Audit:       g.records,
		Refusals:    telemetry.NewRefusals(time.Now),
	}
	locks.Audit.Trusted = settings.TrustedProxies
	if settings.Upstream.IsSet() {
		g.forward = middleware.NewForward(settings, locks, g.tracing)
	}
	g.app = newApp(locks, g.forward, g.observe(locks))
	g.adminApp = &http.Server{Handler: g.adminRoutes(), ReadHeaderTimeout: requestTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelError)}
	return g, nil
}

func (g *gateway) serve(ctx context.Context, hangup <-chan os.Signal) error {
	go func() { g.failed <- g.app.Listener(g.public) }()
	go func() { g.failed <- g.adminApp.Serve(g.admin) }()
	if err := g.untilStopped(ctx, hangup); err != nil {
		return err
	}
	slog.Info("shutting down: finishing what is in flight", "timeout", g.settings.ShutdownTimeout.String())
	g.draining.Store(true)
	drain, cancel := context.WithTimeout(context.Background(), g.settings.ShutdownTimeout)
	defer cancel()
	var forwarding sync.WaitGroup
	forwarding.Go(func() { g.forward.Drain(drain) })
	if err := g.app.ShutdownWithContext(drain); err != nil {
		slog.Warn("some requests did not finish in time", "error", err)
	}
	forwarding.Wait()
	if err := g.tracing.Close(drain); err != nil {
		slog.Warn("some traces could not be sent in time", "error", err)
	}
	return nil
}

// untilStopped waits for the end of ctx. Meanwhile a hang-up reloads what can be reloaded.
func (g *gateway) untilStopped(ctx context.Context, hangup <-chan os.Signal) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go g.reloadOn(ctx, hangup) // beside this, for a large policy takes its time
	select {
	case err := <-g.failed:
		return fmt.Errorf("a listener failed: %w", err)
	case <-ctx.Done():
		return nil
	}
}

func (g *gateway) reloadOn(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-hangup:
			g.keys.Refresh()
			g.policy.Reload()
			if g.cert != nil {
				g.cert.Reload()
			}
		case <-ctx.Done():
			return
		}
	}
}

// close closes what was opened, in reverse.
func (g *gateway) close() error {
	var errs []error
	if g.adminApp != nil {
		errs = append(errs, g.adminApp.Close())
	}
	for _, c := range []io.Closer{g.admin, g.public} {
		if l, _ := c.(net.Listener); l != nil {
			_ = l.Close() // a server that ran has closed it
		}
	}
	errs = append(errs, g.forward.Close())
	if g.cert != nil {
		errs = append(errs, g.cert.Close())
	}
	if g.audit != nil {
		errs = append(errs, g.audit.Close())
	}
	if g.store != nil {
		errs = append(errs, g.store.Close())
	}
	if g.policy != nil {
		errs = append(errs, g.policy.Close())
	}
	errs = append(errs, g.keys.Close())
	return errors.Join(errs...)
}

func listen(setting, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: choose another address, or stop what listens there", setting, err)
	}
	return l, nil
}

// encryption of the public listener. HTTP/1.1 is all that it speaks.
func encryption(cert *configs.Certificate) *tls.Config {
	return &tls.Config{GetCertificate: cert.Get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

func openStore(settings configs.Settings) (store.Store, error) {
	if settings.Store.Redis() {
		s, err := redisstore.Open(string(settings.Store.URL.Bytes()), redisstore.Mode(settings.RedisMode), settings.StoreTimeout)
		if err != nil {
			return nil, fmt.Errorf("GATEWAY_STORE: %w", err) // not s: a nil *Store is no nil store.Store
		}
		return s, nil
	}
	s, err := boltstore.Open(settings.Store.Path)
	if err != nil {
		return nil, fmt.Errorf("GATEWAY_STORE: %w", err)
	}
	return s, nil
}

// openKeyURL returns nil without a URL.
func openKeyURL(settings configs.Settings) (*auth.KeyURL, error) {
	if !settings.JWKSURL.IsSet() {
		return nil, nil
	}
	keys, err := auth.OpenKeyURL(string(settings.JWKSURL.URL.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("GATEWAY_JWKS_URL: %w", err)
	}
	return keys, nil
}

func newVerifier(settings configs.Settings, keys *auth.KeyURL) (*auth.Verifier, error) {
	config := auth.Config{
		JWKS:     settings.JWKS.Bytes(),
		KeyURL:   keys,
		Issuer:   settings.JWTIssuer,
		Audience: settings.JWTAudience,
		Now:      time.Now,
	}
	for _, secret := range settings.Secrets {
		config.Secrets = append(config.Secrets, secret.Bytes())
	}
	verifier, err := auth.NewVerifier(config)
	if err != nil && settings.JWKSFile != "" { // whose keys are looked at only here
		return nil, fmt.Errorf("GATEWAY_JWKS_FILE: %s: %w", settings.JWKSFile, err)
	}
	return verifier, err
}

// openAudit opens the audit log. Closing it leaves stdout and stderr open.
func (p process) openAudit(name string) (io.WriteCloser, error) {
	switch name {
	case "stdout":
		return leftOpen{p.stdout}, nil
	case "stderr":
		return leftOpen{p.stderr}, nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("GATEWAY_AUDIT_LOG: %w", err)
	}
	return file, nil
}

type leftOpen struct{ io.Writer }

func (leftOpen) Close() error { return nil }

// instance names this process in the audit log.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}
