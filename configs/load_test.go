package configs

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// testSecret is long enough, and nothing else.
var testSecret = strings.Repeat("not a secret. ", 3)

// environ is the smallest environment that loads, changed by pairs of name and value.
func environ(pairs ...string) map[string]string {
	m := map[string]string{"GATEWAY_JWT_SECRET": testSecret}
	for pair := range slices.Chunk(pairs, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}

// file writes a file for one test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func secretTexts(s Settings) []string {
	var texts []string
	for _, secret := range s.Secrets {
		texts = append(texts, string(secret.Bytes()))
	}
	return texts
}

func TestLoadFillsInDefaults(t *testing.T) {
	s, err := Load(environ("GATEWAY_LOG_LEVEL", "", "PATH", "/bin", "", "a variable without a name"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr != "127.0.0.1:8080" || s.AdminAddr != "127.0.0.1:9090" {
		t.Errorf("addresses %q and %q", s.Addr, s.AdminAddr)
	}
	if s.Store.Scheme != SchemeBolt || s.Store.Path != "gateway-data/locks.db" || s.RedisMode != "single" {
		t.Errorf("store %+v in mode %q", s.Store, s.RedisMode)
	}
	if s.StoreTimeout != 2*time.Second || s.ShutdownTimeout != 10*time.Second {
		t.Errorf("time-outs %v and %v", s.StoreTimeout, s.ShutdownTimeout)
	}
	if s.AuditLog != "stdout" || s.LogLevel != "info" || s.LogFormat != "json" {
		t.Errorf("logs %q, %q and %q", s.AuditLog, s.LogLevel, s.LogFormat)
	}
	if s.JWTIssuer+s.JWTAudience+s.JWKSFile+s.PolicyFile != "" || s.JWKS.IsSet() || s.Policy != nil {
		t.Errorf("set without being asked for: %+v", s)
	}
	if got := secretTexts(s); !slices.Equal(got, []string{testSecret}) {
		t.Errorf("%d secrets, want the one given", len(got))
	}
}

func TestLoadTakesEveryVariable(t *testing.T) {
	keySet := `{"keys":[{"kty":"OKP"}]}`
	s, err := Load(map[string]string{
		"GATEWAY_ADDR":             ":1",
		"GATEWAY_ADMIN_ADDR":       "[::1]:2",
		"GATEWAY_STORE":            "rediss://redis.example:6379/1?master_name=locks",
		"GATEWAY_REDIS_MODE":       "sentinel",
		"GATEWAY_STORE_TIMEOUT":    "10ms",
		"GATEWAY_JWT_SECRET_FILE":  file(t, "secrets", "\n"+testSecret+"1\r\n\r\n"+testSecret+"2"),
		"GATEWAY_JWKS_FILE":        file(t, "jwks.json", keySet),
		"GATEWAY_JWT_ISSUER":       "issuer",
		"GATEWAY_JWT_AUDIENCE":     "audience",
		"GATEWAY_POLICY_FILE":      file(t, "policy.yaml", "default: {locks_per_minute: 7}"),
		"GATEWAY_AUDIT_LOG":        "audit.log",
		"GATEWAY_LOG_LEVEL":        "warn",
		"GATEWAY_LOG_FORMAT":       "text",
		"GATEWAY_SHUTDOWN_TIMEOUT": "10m",
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr != ":1" || s.AdminAddr != "[::1]:2" {
		t.Errorf("addresses %q and %q", s.Addr, s.AdminAddr)
	}
	if s.Store.Scheme != SchemeRediss || s.RedisMode != "sentinel" {
		t.Errorf("store %+v in mode %q", s.Store, s.RedisMode)
	}
	if s.StoreTimeout != 10*time.Millisecond || s.ShutdownTimeout != 10*time.Minute {
		t.Errorf("time-outs %v and %v", s.StoreTimeout, s.ShutdownTimeout)
	}
	if got := secretTexts(s); !slices.Equal(got, []string{testSecret + "1", testSecret + "2"}) {
		t.Errorf("%d secrets, want the two of the file in their order", len(got))
	}
	if s.JWTIssuer != "issuer" || s.JWTAudience != "audience" || string(s.JWKS.Bytes()) != keySet {
		t.Errorf("issuer %q, audience %q, key set of %d bytes", s.JWTIssuer, s.JWTAudience, len(s.JWKS.Bytes()))
	}
	if s.Policy.Project(billing).LocksPerMinute != 7 {
		t.Error("the policy file is not in force")
	}
	if s.AuditLog != "audit.log" || s.Level() != slog.LevelWarn || s.LogFormat != "text" {
		t.Errorf("logs %q, %v and %q", s.AuditLog, s.Level(), s.LogFormat)
	}
}

func TestLoadAccepts(t *testing.T) {
	tests := map[string]map[string]string{
		"the longest store time-out":             environ("GATEWAY_STORE_TIMEOUT", "30s"),
		"the shortest shutdown":                  environ("GATEWAY_SHUTDOWN_TIMEOUT", "1ns"),
		"a secret of exactly 32 bytes":           environ("GATEWAY_JWT_SECRET", strings.Repeat("x", 32)),
		"two free ports":                         environ("GATEWAY_ADDR", "127.0.0.1:0", "GATEWAY_ADMIN_ADDR", "127.0.0.1:0"),
		"one port on two hosts":                  environ("GATEWAY_ADDR", "127.0.0.1:80", "GATEWAY_ADMIN_ADDR", "127.0.0.2:80"),
		"the default mode beside bolt":           environ("GATEWAY_REDIS_MODE", "single"),
		"a cluster":                              environ("GATEWAY_STORE", "redis://a:1?addr=b:1", "GATEWAY_REDIS_MODE", "cluster"),
		"an audit log not there yet":             environ("GATEWAY_AUDIT_LOG", filepath.Join(t.TempDir(), "audit.log")),
		"the URL of a key set and no secret":     {"GATEWAY_JWKS_URL": "https://issuer.example/jwks"},
		"a key set and no secret":                {"GATEWAY_JWKS_FILE": file(t, "jwks.json", `{"keys":[{}]}`)},
		"a policy of nothing":                    environ("GATEWAY_POLICY_FILE", file(t, "policy.yaml", "{}")),
		"the links of a service gateway":         environ("GATEWAY_SERVICE_HOST", "10.0.0.1", "GATEWAY_SERVICE_PORT", "80", "GATEWAY_SERVICE_PORT_HTTP", "80", "GATEWAY_PORT", "tcp://10.0.0.1:80"),
		"the port links of a service gateway":    environ("GATEWAY_PORT_80_TCP", "tcp://10.0.0.1:80", "GATEWAY_PORT_80_TCP_ADDR", "10.0.0.1", "GATEWAY_PORT_80_TCP_PROTO", "tcp", "GATEWAY_PORT_80_TCP_PORT", "80"),
		"the links of a service gateway-admin":   environ("GATEWAY_ADMIN_SERVICE_HOST", "10.0.0.1", "GATEWAY_ADMIN_PORT", "tcp://10.0.0.1:80"),
		"variables of other programs":            environ("GATEWAYS", "x", "MY_GATEWAY_ADDR", "x", "gateway_addr", "x"),
		"an empty secret beside the secret file": {"GATEWAY_JWT_SECRET": "", "GATEWAY_JWT_SECRET_FILE": file(t, "secret", testSecret)},
	}
	for name, environ := range tests {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(environ)
			if _, err := Load(environ); err != nil {
				t.Error(err)
			}
			if !maps.Equal(before, environ) {
				t.Error("Load changed the environment it was given")
			}
		})
	}
}

func TestLoadCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if _, err := Load(environ("GATEWAY_AUDIT_LOG", "audit.log")); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

const noKey = "GATEWAY_JWT_SECRET: there is no key to verify credentials with; set it to the output of: openssl rand -base64 48 " +
	"(or set GATEWAY_JWT_SECRET_FILE, GATEWAY_JWKS_FILE or GATEWAY_JWKS_URL, or start with gateway dev, which makes its own)"

func TestLoadRefuses(t *testing.T) {
	const notAnAddress = " is not an address; write HOST:PORT, for example 127.0.0.1:8080"
	missing := filepath.Join(t.TempDir(), "missing")
	directory := t.TempDir()
	empty := file(t, "empty", "\r\n\n")
	shortSecond := file(t, "secrets", testSecret+"\n\nabc\n")
	noKeys := file(t, "jwks.json", `{"keys":[]}`)
	notJSON := file(t, "jwks.json", "abc")
	large := file(t, "large", strings.Repeat("x", maxKeyFileBytes+1))

	tests := map[string]struct {
		environ map[string]string
		want    string
	}{
		"an address without a port":     {environ("GATEWAY_ADDR", "localhost"), `GATEWAY_ADDR: "localhost"` + notAnAddress},
		"a port alone":                  {environ("GATEWAY_ADDR", "8080"), `GATEWAY_ADDR: "8080"` + notAnAddress},
		"a URL as an address":           {environ("GATEWAY_ADDR", "http://localhost:80"), `GATEWAY_ADDR: "http://localhost:80"` + notAnAddress},
		"a path in an address":          {environ("GATEWAY_ADDR", "localhost/x:80"), `GATEWAY_ADDR: "localhost/x:80"` + notAnAddress},
		"a port past the last":          {environ("GATEWAY_ADMIN_ADDR", ":65536"), `GATEWAY_ADMIN_ADDR: ":65536"` + notAnAddress},
		"a port by name":                {environ("GATEWAY_ADMIN_ADDR", ":http"), `GATEWAY_ADMIN_ADDR: ":http"` + notAnAddress},
		"one address for both":          {environ("GATEWAY_ADMIN_ADDR", "127.0.0.1:8080"), `GATEWAY_ADMIN_ADDR: "127.0.0.1:8080" is the address of GATEWAY_ADDR too; choose another port`},
		"one port of every host":        {environ("GATEWAY_ADMIN_ADDR", "0.0.0.0:08080"), `GATEWAY_ADMIN_ADDR: "0.0.0.0:08080" is the address of GATEWAY_ADDR too; choose another port`},
		"public on every host":          {environ("GATEWAY_ADDR", ":9090"), `GATEWAY_ADMIN_ADDR: "127.0.0.1:9090" is the address of GATEWAY_ADDR too; choose another port`},
		"an unknown mode":               {environ("GATEWAY_STORE", "redis://a:1", "GATEWAY_REDIS_MODE", "Cluster"), `GATEWAY_REDIS_MODE: "Cluster" is not a choice; write single, sentinel, cluster`},
		"a cluster in bolt":             {environ("GATEWAY_REDIS_MODE", "cluster"), `GATEWAY_REDIS_MODE: cluster needs a redis:// or rediss:// store; set GATEWAY_STORE to one, or unset this`},
		"a cluster behind a socket":     {environ("GATEWAY_STORE", "unix:///a", "GATEWAY_REDIS_MODE", "cluster"), `GATEWAY_REDIS_MODE: cluster needs a redis:// or rediss:// store; set GATEWAY_STORE to one, or unset this`},
		"sentinels without a master":    {environ("GATEWAY_STORE", "redis://a:1", "GATEWAY_REDIS_MODE", "sentinel"), `GATEWAY_STORE: names no master for the sentinels; add ?master_name=NAME`},
		"a number as a duration":        {environ("GATEWAY_STORE_TIMEOUT", "2"), `GATEWAY_STORE_TIMEOUT: "2" is not a duration; write for example 2s`},
		"a store time-out too short":    {environ("GATEWAY_STORE_TIMEOUT", "9999us"), `GATEWAY_STORE_TIMEOUT: 9.999ms is out of range; write 10ms to 30s`},
		"a store time-out too long":     {environ("GATEWAY_STORE_TIMEOUT", "30001ms"), `GATEWAY_STORE_TIMEOUT: 30.001s is out of range; write 10ms to 30s`},
		"no time for the shutdown":      {environ("GATEWAY_SHUTDOWN_TIMEOUT", "0s"), `GATEWAY_SHUTDOWN_TIMEOUT: 0s is out of range; write more than 0 and at most 10m`},
		"too long a shutdown":           {environ("GATEWAY_SHUTDOWN_TIMEOUT", "10m1s"), `GATEWAY_SHUTDOWN_TIMEOUT: 10m1s is out of range; write more than 0 and at most 10m`},
		"no key":                        {map[string]string{}, noKey},
		"an empty secret":               {environ("GATEWAY_JWT_SECRET", ""), noKey},
		"a short secret":                {environ("GATEWAY_JWT_SECRET", strings.Repeat("x", 31)), `GATEWAY_JWT_SECRET: has 31 bytes; write at least 32, for example the output of: openssl rand -base64 48`},
		"a secret with a line break":    {environ("GATEWAY_JWT_SECRET", testSecret+"\n"), `GATEWAY_JWT_SECRET: has a line break; remove it, or put several secrets into GATEWAY_JWT_SECRET_FILE`},
		"a secret and a secret file":    {environ("GATEWAY_JWT_SECRET_FILE", missing), `GATEWAY_JWT_SECRET: is set beside GATEWAY_JWT_SECRET_FILE; keep one of the two`},
		"no secret file":                {map[string]string{"GATEWAY_JWT_SECRET_FILE": missing}, `GATEWAY_JWT_SECRET_FILE: cannot read it: no such file or directory; write the path of a readable file`},
		"a directory as secret file":    {map[string]string{"GATEWAY_JWT_SECRET_FILE": directory}, `GATEWAY_JWT_SECRET_FILE: cannot read it: is a directory; write the path of a readable file`},
		"a secret file of 1 MiB":        {map[string]string{"GATEWAY_JWT_SECRET_FILE": large}, `GATEWAY_JWT_SECRET_FILE: cannot read it: the file is larger than 1048576 bytes; write the path of a readable file`},
		"an empty secret file":          {map[string]string{"GATEWAY_JWT_SECRET_FILE": empty}, `GATEWAY_JWT_SECRET_FILE: the file holds no secret; write one per line, for example the output of: openssl rand -base64 48`},
		"a short secret in the file":    {map[string]string{"GATEWAY_JWT_SECRET_FILE": shortSecond}, `GATEWAY_JWT_SECRET_FILE: line 3 has 3 bytes; write at least 32, for example the output of: openssl rand -base64 48`},
		"no key set file":               {environ("GATEWAY_JWKS_FILE", missing), `GATEWAY_JWKS_FILE: cannot read it: no such file or directory; write the path of a readable file`},
		"a key set instead of its path": {environ("GATEWAY_JWKS_FILE", `{"keys":[{"kty":"oct"}]}`), `GATEWAY_JWKS_FILE: cannot read it: no such file or directory; write the path of a readable file`},
		"a key set without keys":        {environ("GATEWAY_JWKS_FILE", noKeys), `GATEWAY_JWKS_FILE: ` + noKeys + ` is not a JSON Web Key Set; write {"keys":[…]} with at least one key`},
		"a key set that is not JSON":    {environ("GATEWAY_JWKS_FILE", notJSON), `GATEWAY_JWKS_FILE: ` + notJSON + ` is not a JSON Web Key Set; write {"keys":[…]} with at least one key`},
		"no policy file":                {environ("GATEWAY_POLICY_FILE", missing), `GATEWAY_POLICY_FILE: open ` + missing + `: no such file or directory; write the path of a readable file`},
		"a directory as policy file":    {environ("GATEWAY_POLICY_FILE", directory), `GATEWAY_POLICY_FILE: open ` + directory + `: not a regular file; write the path of a readable file`},
		"a directory as the audit log":  {environ("GATEWAY_AUDIT_LOG", directory), `GATEWAY_AUDIT_LOG: "` + directory + `" is a directory; write the path of a file in it`},
		"a stream in upper case":        {environ("GATEWAY_AUDIT_LOG", "STDERR"), `GATEWAY_AUDIT_LOG: "STDERR" would be a file; write stderr`},
		"an unknown level":              {environ("GATEWAY_LOG_LEVEL", "INFO+1"), `GATEWAY_LOG_LEVEL: "INFO+1" is not a choice; write debug, info, warn, error`},
		"an unknown format":             {environ("GATEWAY_LOG_FORMAT", "xml"), `GATEWAY_LOG_FORMAT: "xml" is not a choice; write json, text`},
		"an unknown setting":            {environ("GATEWAY_JWT_SECERT", testSecret), `GATEWAY_JWT_SECERT: unknown setting; correct its name or remove it`},
		"a port that is no link":        {environ("GATEWAY_PORT", "8080"), `GATEWAY_PORT: unknown setting; correct its name or remove it`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(test.environ)
			if err == nil || err.Error() != test.want {
				t.Errorf("got:  %v\nwant: %v", err, test.want)
			}
		})
	}
}

func TestLoadReportsEveryComplaintTogether(t *testing.T) {
	policy := file(t, "policy.yaml", "default: {locks_per_minute: 0}\nprojets: {}\n")
	_, err := Load(map[string]string{
		"GATEWAY_ADDR":             "localhost",
		"GATEWAY_STORE":            "mysql://db",
		"GATEWAY_REDIS_MODE":       "cluster",
		"GATEWAY_STORE_TIMEOUT":    "soon",
		"GATEWAY_POLICY_FILE":      policy,
		"GATEWAY_SHUTDOWN_TIMEOUT": "never",
		"GATEWAY_B":                "",
		"GATEWAY_A":                "",
	})
	want := strings.Join([]string{
		`GATEWAY_STORE: is not a store; write bolt://PATH, redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH`,
		`GATEWAY_STORE_TIMEOUT: "soon" is not a duration; write for example 2s`,
		`GATEWAY_SHUTDOWN_TIMEOUT: "never" is not a duration; write for example 10s`,
		`GATEWAY_A: unknown setting; correct its name or remove it`,
		`GATEWAY_B: unknown setting; correct its name or remove it`,
		`GATEWAY_ADDR: "localhost" is not an address; write HOST:PORT, for example 127.0.0.1:8080`,
		noKey,
		`GATEWAY_POLICY_FILE: ` + policy + `:1: default.locks_per_minute: must be a whole number from 1 to 1000000000, not 0`,
		`GATEWAY_POLICY_FILE: ` + policy + `:2: projets: unknown field; correct its name or remove it`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%v", err, want)
	}
}
