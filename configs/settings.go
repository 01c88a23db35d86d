package configs

import (
	"log/slog"
	"reflect"
	"time"
)

// Settings are the process settings. The tags of a field name its variable, its default and, for
// the README, its meaning and unit; an empty variable counts as unset.
type Settings struct {
	Addr            string        `env:"GATEWAY_ADDR" envDefault:"127.0.0.1:8080" doc:"public listener, HOST:PORT; port 0 takes any free one"`
	AdminAddr       string        `env:"GATEWAY_ADMIN_ADDR" envDefault:"127.0.0.1:9090" doc:"admin listener, HOST:PORT: /healthz (process), /readyz (store decides), /readyz/forwarding (not stopping), /policy and /jwks (what is in force), /metrics (Prometheus), /audit (recent audit lines), /openapi.yaml; never on the public listener"`
	TLSCert         string        `env:"GATEWAY_TLS_CERT" doc:"file with the certificate of the public listener and its chain (PEM), reloaded when it is renewed and on SIGHUP; unset: plain HTTP"`
	TLSKey          string        `env:"GATEWAY_TLS_KEY" doc:"file with the private key of that certificate (PEM)"`
	Store           StoreURL      `env:"GATEWAY_STORE" envDefault:"bolt://gateway-data/locks.db" doc:"bolt://PATH (embedded, durable, one process; relative to the working directory, or bolt:///PATH), or a redis://, rediss:// or unix:// URL"`
	RedisMode       string        `env:"GATEWAY_REDIS_MODE" envDefault:"single" doc:"single, sentinel or cluster; further nodes as addr= in the query of the store URL, master_name= for sentinel"`
	StoreTimeout    time.Duration `env:"GATEWAY_STORE_TIMEOUT" envDefault:"2s" doc:"bound on one store operation, 10ms to 30s; past it the answer is 503"`
	JWTSecret       Secret        `env:"GATEWAY_JWT_SECRET" doc:"HS256 secret that signs and verifies credentials, at least 32 bytes"`
	JWTSecretFile   string        `env:"GATEWAY_JWT_SECRET_FILE" doc:"file with that secret instead; during a rotation several, one per line: the first signs, all verify"`
	JWKSFile        string        `env:"GATEWAY_JWKS_FILE" doc:"JSON Web Key Set with further verification keys (HS256, RS256, ES256, EdDSA), chosen by kid and type"`
	JWKSURL         KeySetURL     `env:"GATEWAY_JWKS_URL" doc:"URL of such a key set, https (http for this machine only), without HS256 secrets; fetched every 15m and, at most once a minute, for an unknown kid; the last good set stays when it fails"`
	JWTIssuer       string        `env:"GATEWAY_JWT_ISSUER" doc:"issuer (iss) that a credential must name; unset: any"`
	JWTAudience     string        `env:"GATEWAY_JWT_AUDIENCE" doc:"audience (aud) that a credential must name; unset: any"`
	PolicyFile      string        `env:"GATEWAY_POLICY_FILE" doc:"YAML file with quotas, suspended projects and revoked keys; reloaded when it changes and on SIGHUP; unset: 600 lock requests a minute for every project"`
	AuditLog        string        `env:"GATEWAY_AUDIT_LOG" envDefault:"stdout" doc:"audit log: stdout, stderr or a file path"`
	LogLevel        string        `env:"GATEWAY_LOG_LEVEL" envDefault:"info" doc:"service log on stderr: debug, info, warn or error"`
	LogFormat       string        `env:"GATEWAY_LOG_FORMAT" envDefault:"json" doc:"service log on stderr: json or text"`
	ShutdownTimeout time.Duration `env:"GATEWAY_SHUTDOWN_TIMEOUT" envDefault:"10s" doc:"on SIGTERM or SIGINT, time to finish what is in flight, up to 10m"`

	// Forwarding.

	Upstream            UpstreamURL   `env:"GATEWAY_UPSTREAM" doc:"base URL, http or https; every path that is not a lock endpoint is forwarded there; unset: 404"`
	UpstreamTimeout     time.Duration `env:"GATEWAY_UPSTREAM_TIMEOUT" envDefault:"30s" doc:"time the upstream has to begin its answer, 10ms to 1h, waiting for a free connection included; past it 504"`
	UpstreamMaxConns    int           `env:"GATEWAY_UPSTREAM_MAX_CONNS" envDefault:"512" doc:"requests and WebSockets with the upstream at a time, 1 to 100000; more of them wait for GATEWAY_UPSTREAM_TIMEOUT at most"`
	UpstreamIdleTimeout time.Duration `env:"GATEWAY_UPSTREAM_IDLE_TIMEOUT" envDefault:"4s" doc:"how long an idle connection to the upstream is kept, 10ms to 1h; keep it below the upstream's own, for no request is sent again when the upstream closes under it"`
	ProxyAuth           string        `env:"GATEWAY_PROXY_AUTH" envDefault:"optional" doc:"credentials of forwarded requests: optional (none or a platform token passes without identity, an invalid one is 401), required (all but those with an identity are 401) or off (not looked at, no identity is passed on)"`
	ProxyHost           string        `env:"GATEWAY_PROXY_HOST" envDefault:"pass" doc:"Host header for the upstream: pass (the client's) or rewrite (the one of GATEWAY_UPSTREAM)"`
	TrustedProxies      Networks      `env:"GATEWAY_TRUSTED_PROXIES" doc:"networks (CIDR, separated by commas) whose X-Forwarded-For, -Proto and -Host are believed; unset: nobody's"`

	// What the files hold, read by Load.

	Secrets []Secret // HS256 secrets: the first signs, all verify; empty when there is only a key set
	JWKS    Secret   // the key set as written; secret because it may hold HS256 keys
	Policy  *Policy  // the policy as Load read it; whatever goes on running asks a PolicyFile
}

// Level is the level of the service log.
func (s Settings) Level() slog.Level {
	var level slog.Level
	// Load accepts only names that slog knows, so the error cannot happen.
	_ = level.UnmarshalText([]byte(s.LogLevel))
	return level
}

// LogValue shows every variable with its value, durations as an operator writes them and secrets
// as "[redacted]".
func (s Settings) LogValue() slog.Value {
	var attrs []slog.Attr
	for field, value := range reflect.ValueOf(s).Fields() {
		name, shown := field.Tag.Get("env"), value.Interface()
		if duration, ok := shown.(time.Duration); ok {
			shown = duration.String() // slog's JSON would be a number of nanoseconds
		}
		if name != "" {
			attrs = append(attrs, slog.Any(name, shown))
		}
	}
	return slog.GroupValue(attrs...)
}
