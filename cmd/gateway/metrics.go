package main

import (
	"runtime"

	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/lockcore"
	"github.com/project-locks/gateway/lockcore/store"
	"github.com/project-locks/gateway/middleware"
	"github.com/project-locks/gateway/telemetry"
)

// measure watches over an opened store, measures and traces it.
func (g *gateway) measure(opened store.Store) *telemetry.Store {
	measured := telemetry.NewStore(store.NewGuard(opened, g.settings.StoreTimeout), g.tracing)
	g.metrics.MustRegister(measured)
	if s, ok := opened.(interface{ Batches() store.BatchStats }); ok {
		g.metrics.MustRegister(telemetry.NewBatches(s.Batches))
	}
	if s, ok := opened.(interface{ Pool() *redis.PoolStats }); ok {
		g.metrics.MustRegister(telemetry.NewPool(s.Pool))
	}
	return measured
}

// observe measures and traces the public listener, and measures what serves it.
func (g *gateway) observe(locks *middleware.Locks) middleware.Observer {
	expected := expectedOfLocks()
	if g.forward != nil {
		expected = append(expected, expectedOfForwarding...)
	}
	requests := telemetry.NewRequests(expected...)
	g.metrics.MustRegister(
		requests,
		locks.Refusals,
		telemetry.NewAudit(locks.Audit.Lost),
		telemetry.NewPolicy(g.policy.Status),
		telemetry.NewBuild(version, commit(), runtime.Version()),
	)
	if g.keys != nil {
		g.metrics.MustRegister(telemetry.NewKeySet(g.keys.Status))
	}
	if g.forward != nil {
		g.metrics.MustRegister(telemetry.NewForwarding(g.forward.Uncounted))
	}
	return middleware.Observer{Requests: requests, Tracing: g.tracing}
}

// expectedOfForwarding are answers whose first occurrence somebody wants to hear of.
var expectedOfForwarding = []telemetry.Answer{
	{Operation: telemetry.Forward, Status: fiber.StatusTooManyRequests, Code: middleware.CodeForwardLimited},
	{Operation: telemetry.Forward, Status: fiber.StatusInternalServerError, Code: middleware.CodeInternal},
	{Operation: telemetry.Forward, Status: fiber.StatusBadGateway, Code: middleware.CodeUpstream},
	{Operation: telemetry.Forward, Status: fiber.StatusServiceUnavailable, Code: middleware.CodeUncounted},
	{Operation: telemetry.Forward, Status: fiber.StatusGatewayTimeout, Code: middleware.CodeUpstreamTimeout},
}

// expectedOfLocks are such answers too.
func expectedOfLocks() (all []telemetry.Answer) {
	for op := lockcore.Acquire; op <= lockcore.ForceRelease; op++ {
		for status, code := range map[int]string{
			fiber.StatusTooManyRequests:     middleware.CodeRateLimited,
			fiber.StatusInternalServerError: middleware.CodeInternal,
			fiber.StatusServiceUnavailable:  middleware.CodeUnavailable,
		} {
			all = append(all, telemetry.Answer{Operation: op.String(), Status: status, Code: code})
		}
	}
	return all
}
