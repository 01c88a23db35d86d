package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/project-locks/gateway/configs"
)

var errDraining = errors.New("the gateway is shutting down")

// setLogger makes the service log the log of everything in the process.
func setLogger(settings configs.Settings, out io.Writer) {
	options := &slog.HandlerOptions{Level: settings.Level()}
	var handler slog.Handler = slog.NewJSONHandler(out, options)
	if settings.LogFormat == "text" {
		handler = slog.NewTextHandler(out, options)
	}
	slog.SetDefault(slog.New(handler))
	log.SetOutput(io.Discard) // where net/http quotes what upstreams send
	redis.SetLogger(redisLog{})
}

// redisLog takes what the Redis client says.
type redisLog struct{}

func (redisLog) Printf(_ context.Context, format string, v ...any) {
	slog.Debug("redis client", "message", fmt.Sprintf(format, v...))
}
