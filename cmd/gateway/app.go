package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/project-locks/gateway/api"
	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/middleware"
	"github.com/project-locks/gateway/telemetry"
)

const (
	requestTimeout = 10 * time.Second // to receive a request, and to send its answer
	idleTimeout    = time.Minute      // of a kept connection between requests
)

// newApp is the public listener: every route is here. Without forward, there
// are only the lock endpoints.
func newApp(locks *middleware.Locks, forward *middleware.Forward, observer middleware.Observer) *fiber.App {
	app := fiber.New(fiber.Config{
		// Paths are matched as sent; the lock key is decoded once, by us, after that.
		CaseSensitive: true, StrictRouting: true, UnescapePath: false,
		// Bodies wait until the checks before them are passed.
		StreamRequestBody: true, BodyLimit: middleware.MaxBody, DisablePreParseMultipartForm: true,
		ReadBufferSize: middleware.MaxHeader,
		ReadTimeout:    requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		ErrorHandler: middleware.WriteError, DisableStartupMessage: true, DisableDefaultContentType: true,
	})

	const lock, lease = "/locks/:key", "/locks/:key/lease"
	app.Add(fiber.MethodPost, lease, locks.Handle(lockcore.Acquire))
	app.Add(fiber.MethodPatch, lease, locks.Handle(lockcore.Renew))
	app.Add(fiber.MethodDelete, lease, locks.Handle(lockcore.Release))
	app.All(lease, locks.Refuse("POST, PATCH, DELETE"))
	app.Add(fiber.MethodGet, lock, locks.Handle(lockcore.Read))
	app.Add(fiber.MethodDelete, lock, locks.Handle(lockcore.ForceRelease))
	app.All(lock, locks.Refuse("GET, DELETE"))
	if forward != nil {
		app.Use(middleware.As(telemetry.Forward, forward.Handle))
		app.Server().HeaderReceived = middleware.EarlyBody
	}
	app.Use(middleware.NotFound)

	unreadable := func(c *fasthttp.RequestCtx, err error) { refuse(app, c, unread(err)) }
	app.Server().Handler = middleware.Lean(observer.Handler(frontDoor(app)))
	app.Server().ErrorHandler = observer.Unread(unreadable)
	return app
}

// unread is why a request could not be read. fasthttp's own text quotes it, and
// Fiber would look for words in that. A client that breaks off is no failure of
// ours.
func unread(err error) error {
	network, failed := errors.AsType[*net.OpError](err)
	switch _, tooLarge := errors.AsType[*fasthttp.ErrSmallBuffer](err); {
	case tooLarge:
		return fiber.ErrRequestHeaderFieldsTooLarge
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return fiber.ErrRequestEntityTooLarge
	case failed && network.Timeout():
		return fiber.ErrRequestTimeout
	}
	return fiber.ErrBadRequest
}

// frontDoor stands before Fiber. It routes a method that Fiber does not know
// like one that no lock endpoint answers to; Fiber itself would answer it with
// plain text.
func frontDoor(app *fiber.App) fasthttp.RequestHandler {
	known, handle := app.Config().RequestMethods, app.Server().Handler
	return func(c *fasthttp.RequestCtx) {
		if !slices.Contains(known, string(c.Method())) {
			middleware.KeepMethod(c)
			c.Request.Header.SetMethod(fiber.MethodTrace)
		}
		handle(c)
	}
}

// refuse answers a request that Fiber never sees.
func refuse(app *fiber.App, c *fasthttp.RequestCtx, err error) {
	ctx := app.AcquireCtx(c)
	defer app.ReleaseCtx(ctx)
	_ = middleware.WriteError(ctx, err) // fails for what JSON cannot say; this has only texts
}

// adminRoutes is the admin listener.
func (g *gateway) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answerHealth(w, nil)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		answerHealth(w, g.readiness(r.Context()))
	})
	mux.HandleFunc("GET /readyz/forwarding", func(w http.ResponseWriter, _ *http.Request) {
		answerHealth(w, g.stopping())
	})
	mux.HandleFunc("GET /policy", func(w http.ResponseWriter, _ *http.Request) {
		answerAdmin(w, http.StatusOK, g.policy.Status())
	})
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(api.Document) // a client that has left needs no answer
	})
	mux.HandleFunc("GET /jwks", func(w http.ResponseWriter, _ *http.Request) {
		answerAdmin(w, http.StatusOK, g.keys.Status())
	})
	mux.Handle("GET /audit", g.records)
	mux.Handle("GET /metrics", telemetry.Handler(g.metrics))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answerAdmin(w, http.StatusNotFound, map[string]string{"error": "There is nothing at this path for this method."})
	})
	return mux
}

// stopping is why this process should get no traffic at all, nil if it should.
func (g *gateway) stopping() error {
	if g.draining.Load() {
		return errDraining
	}
	return nil
}

// readiness is why this process should get no lock requests now, nil if it should.
func (g *gateway) readiness(ctx context.Context) error {
	if err := g.stopping(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, g.settings.StoreTimeout)
	defer cancel()
	return g.store.Ping(ctx)
}

func answerHealth(w http.ResponseWriter, err error) {
	body := map[string]string{"status": "ok"}
	status := http.StatusOK
	if err != nil {
		body = map[string]string{"status": "unavailable", "error": err.Error()}
		status = http.StatusServiceUnavailable
	}
	answerAdmin(w, status, body)
}

func answerAdmin(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has left needs no answer
}
