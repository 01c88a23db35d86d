package configs

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSettingsNeverShowSecrets(t *testing.T) {
	const password = "not-a-password"
	keySet := `{"keys":[{"kty":"oct","k":"not-a-key"}]}`
	s, err := Load(environ(
		"GATEWAY_STORE", "redis://user:"+password+"@redis.example:6379/0?sentinel_password="+password,
		"GATEWAY_JWKS_FILE", file(t, "jwks.json", keySet),
	))
	if err != nil {
		t.Fatal(err)
	}
	var jsonLog, textLog bytes.Buffer
	slog.New(slog.NewJSONHandler(&jsonLog, nil)).Info("start", "settings", s, "store", s.Store, "secrets", s.Secrets)
	slog.New(slog.NewTextHandler(&textLog, nil)).Info("start", "settings", s, "store", s.Store, "secrets", s.Secrets)
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	type server struct{ settings Settings }

	shown := map[string]string{"slog as JSON": jsonLog.String(), "slog as text": textLog.String(), "json": string(encoded)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
		shown[verb] = fmt.Sprintf(verb, s)
		shown[verb+" of a pointer"] = fmt.Sprintf(verb, &s)
		shown[verb+" of a hidden field"] = fmt.Sprintf(verb, server{s})
	}
	for how, text := range shown {
		for _, secret := range []string{testSecret, password, "not-a-key"} {
			if strings.Contains(text, secret) || strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte(secret))) {
				t.Errorf("%s shows %q:\n%s", how, secret, text)
			}
		}
	}
}

func TestSettingsLogShowsEverythingElse(t *testing.T) {
	s, err := Load(environ("GATEWAY_STORE", "redis://user:not-a-password@redis.example:6379/0?db=1", "GATEWAY_JWT_ISSUER", "me"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("start", "s", s)
	for _, want := range []string{
		"s.GATEWAY_ADDR=127.0.0.1:8080", "s.GATEWAY_STORE=redis://redis.example:6379/0 ", "s.GATEWAY_STORE_TIMEOUT=2s",
		"s.GATEWAY_JWT_SECRET=[redacted]", "s.GATEWAY_JWT_ISSUER=me", "s.GATEWAY_SHUTDOWN_TIMEOUT=10s",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing in %s", want, &log)
		}
	}
}

func TestSettingsLogShowsDurationsAsText(t *testing.T) {
	s, err := Load(environ("GATEWAY_STORE_TIMEOUT", "1500ms"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "s", s)
	for _, want := range []string{`"GATEWAY_STORE_TIMEOUT":"1.5s"`, `"GATEWAY_SHUTDOWN_TIMEOUT":"10s"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is missing in %s", want, &log)
		}
	}
}

func TestSecretShowsOnlyWhetherItIsThere(t *testing.T) {
	set, unset := conceal("abc"), Secret{}
	if fmt.Sprint(set) != "[redacted]" || fmt.Sprintf("%#v", set) != "configs.Secret([redacted])" || fmt.Sprint(unset) != "" {
		t.Errorf("printed %v, %#v and %v", set, set, unset)
	}
	if !set.IsSet() || unset.IsSet() || string(set.Bytes()) != "abc" || unset.Bytes() != nil {
		t.Errorf("the secret itself is lost")
	}
	set.Bytes()[0] = 'x'
	if string(set.Bytes()) != "abc" {
		t.Error("Bytes hands out the secret itself, not a copy")
	}
}

func TestErrorsNeverShowSecrets(t *testing.T) {
	const secret = "s3cr=t"
	short := file(t, "short", secret)
	tests := map[string]map[string]string{
		"a short secret":              environ("GATEWAY_JWT_SECRET", secret),
		"a short secret in a file":    {"GATEWAY_JWT_SECRET_FILE": short},
		"a secret for a file name":    {"GATEWAY_JWT_SECRET_FILE": secret},
		"a key set that is a secret":  environ("GATEWAY_JWKS_FILE", short),
		"a secret under a wrong name": environ("GATEWAY_SECRET", secret),
		"a store of another kind":     environ("GATEWAY_STORE", "mysql://user:"+secret+"@db"),
		"a store without a scheme":    environ("GATEWAY_STORE", secret+"@redis.example"),
		"a password with a slash":     environ("GATEWAY_STORE", "redis://:/"+secret+"@redis.example:6379"),
		"a password with a hash":      environ("GATEWAY_STORE", "redis://user:12#"+secret+"@redis.example:6379"),
		"a password with a colon":     environ("GATEWAY_STORE", "redis://"+secret+":"+secret+":6379"),
		"a password and no host":      environ("GATEWAY_STORE", "redis://:"+secret+"@"),
		"a password and a bad path":   environ("GATEWAY_STORE", "redis://:"+secret+"@redis.example/locks"),
		"a password and no master":    environ("GATEWAY_STORE", "redis://:"+secret+"@redis.example", "GATEWAY_REDIS_MODE", "sentinel"),
	}
	for name, environ := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(environ)
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}
