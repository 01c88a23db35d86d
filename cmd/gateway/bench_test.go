package main

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/project-locks/gateway/auth"
	"github.com/project-locks/gateway/configs"
	"github.com/project-locks/gateway/lockcore/store/redisstore/redistest"
	"github.com/project-locks/gateway/lockcore/store/storetest"
)

// BenchmarkHTTP compares the whole gateway on each store with a Fiber handler
// that answers at once. Client and server share the machine; compare within
// one run.
func BenchmarkHTTP(b *testing.B) {
	b.Run("bare Fiber handler", func(b *testing.B) {
		app := fiber.New(fiber.Config{DisableStartupMessage: true})
		app.Post("/locks/:key/lease", func(c *fiber.Ctx) error {
			return c.Status(fiber.StatusCreated).JSON(fiber.Map{"key": c.Params("key")})
		})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		go app.Listener(l)   //nolint:errcheck // ends with the benchmark
		defer app.Shutdown() //nolint:errcheck // ends with the benchmark
		load(b, l.Addr().String(), "none")
	})
	b.Run("gateway on bolt", func(b *testing.B) {
		benchGateway(b, "bolt://"+filepath.Join(b.TempDir(), "locks.db"))
	})
	b.Run("gateway on Redis", func(b *testing.B) {
		benchGateway(b, redistest.Start(b, "--appendonly", "no").URL())
	})
}

func benchGateway(b *testing.B, storeURL string) {
	secret := bytes.Repeat([]byte("b"), auth.MinSecretBytes)
	policy := writePolicy(b, "default: {locks_per_minute: "+strconv.Itoa(storetest.BenchLimit)+"}\n")
	settings, err := configs.Load(map[string]string{
		"GATEWAY_ADDR": "127.0.0.1:0", "GATEWAY_ADMIN_ADDR": "127.0.0.1:0", "GATEWAY_STORE": storeURL,
		"GATEWAY_JWT_SECRET": string(secret), "GATEWAY_POLICY_FILE": policy,
	})
	if err != nil {
		b.Fatal(err)
	}
	g, err := process{stdout: io.Discard, stderr: io.Discard}.open(settings)
	if err != nil {
		b.Fatal(err)
	}
	go g.app.Listener(g.public) //nolint:errcheck // ends with the benchmark
	defer g.close()             //nolint:errcheck // ends with the benchmark
	defer g.app.Shutdown()      //nolint:errcheck // ends with the benchmark
	key, err := auth.Mint(secret, auth.Grant{Kind: auth.ServiceRole, Project: uuid.New(), IssuedAt: time.Now()})
	if err != nil {
		b.Fatal(err)
	}
	load(b, g.public.Addr().String(), key)
}

// load has 64 clients acquire 10,000 locks, again and again.
func load(b *testing.B, addr, key string) {
	client := &fasthttp.HostClient{Addr: addr, MaxConns: storetest.BenchCallers}
	body := []byte(`{"ttl_seconds": 60}`)
	var next atomic.Int64
	storetest.Callers(b, func() error {
		request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(request)
		defer fasthttp.ReleaseResponse(response)
		request.Header.SetMethod(fasthttp.MethodPost)
		request.SetRequestURI("http://" + addr + "/locks/" + strconv.FormatInt(next.Add(1)%10_000, 10) + "/lease")
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("X-Volcano-Lock-Token", storetest.Me.String())
		request.SetBody(body)
		if err := client.Do(request, response); err != nil {
			return err
		}
		if response.StatusCode() != fasthttp.StatusCreated {
			b.Errorf("status %d: %s", response.StatusCode(), response.Body())
		}
		return nil
	})
}
