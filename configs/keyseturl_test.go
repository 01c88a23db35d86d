package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestTheURLOfAKeySetShowsItsHostOnly(t *testing.T) {
	const address, hidden = "https://issuer.example:8443/tenant-7/keys?token=tenant-7", "tenant-7"
	s, err := Load(environ("GATEWAY_JWKS_URL", address))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(s.JWKSURL.URL.Bytes()); got != address || !s.JWKSURL.IsSet() {
		t.Errorf("the URL became %q", got)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "settings", s)
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{log.String(), string(encoded), fmt.Sprintf("%v %+v", s, s)} {
		if strings.Contains(text, hidden) || !strings.Contains(text, "https://issuer.example:8443") {
			t.Errorf("shown as %s", text)
		}
	}
}

func TestTheURLOfAKeySetIsChecked(t *testing.T) {
	for bad, words := range map[string]string{
		"jwks.json":                        "is not the URL of a key set",
		"http://issuer.example/not-shown":  "is not safe",
		"https://user:not-shown@a.example": "has a user name in it",
	} {
		_, err := Load(map[string]string{"GATEWAY_JWKS_URL": bad})
		if err == nil || !strings.HasPrefix(err.Error(), "GATEWAY_JWKS_URL: "+words) || strings.Contains(err.Error(), "not-shown") {
			t.Errorf("%s: %v", bad, err)
		}
		if err != nil && strings.Contains(err.Error(), "GATEWAY_JWT_SECRET") {
			t.Errorf("a wrong URL is taken for none: %v", err)
		}
	}
}
