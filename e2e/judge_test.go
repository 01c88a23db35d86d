package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// traffic is what clients and a gateway have told each other, for judging what
// the gateway wrote about it.
type traffic struct {
	mu       sync.Mutex
	secrets  map[string]bool    // that it has seen and must not show
	tokens   map[uuid.UUID]bool // lock tokens, the same: a test may have thousands
	answered []string           // ids of lock requests since its last start
}

// add takes a credential or a signing secret. A text too short for either
// could stand anywhere.
func (tr *traffic) add(text string) {
	const shortest = 16
	if len(text) < shortest {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.secrets == nil {
		tr.secrets = map[string]bool{}
	}
	tr.secrets[text] = true
	// The signature alone makes a credential of what every log may show.
	if parts := strings.Split(text, "."); len(parts) == 3 && len(parts[2]) >= shortest {
		tr.secrets[parts[2]] = true
	}
}

func (tr *traffic) addToken(token string) {
	id, err := uuid.Parse(token)
	if err != nil || id == uuid.Nil {
		return // not a lock token: it proves nothing
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.tokens == nil {
		tr.tokens = map[uuid.UUID]bool{}
	}
	tr.tokens[id] = true
}

var anyUUID = regexp.MustCompile(`(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`)

// addAnswer takes the id of a request that a lock endpoint has answered.
func (tr *traffic) addAnswer(requestID string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.answered = append(tr.answered, requestID)
}

// takeAnswered empties the list of answers, as a restart empties the output.
func (tr *traffic) takeAnswered() (ids []string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	ids, tr.answered = tr.answered, nil
	return ids
}

// secretIn finds a secret in a text.
func (tr *traffic) secretIn(text string) (secret string, found bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for secret := range tr.secrets {
		if strings.Contains(text, secret) {
			return secret, true
		}
	}
	for _, match := range anyUUID.FindAllString(text, -1) {
		if id, err := uuid.Parse(match); err == nil && tr.tokens[id] {
			return match, true
		}
	}
	return "", false
}

// judge checks what a gateway wrote in its life. `gateway dev` shows a key on
// purpose, between the lines of its logs.
func (g *gateway) judge() {
	g.t.Helper()
	out, errs := g.stdout.String(), g.stderr.String()
	for _, alarm := range []string{"DATA RACE", "panic", "goroutine "} {
		if strings.Contains(errs, alarm) {
			g.t.Errorf("%s in the gateway:\n%s", alarm, errs)
		}
	}
	if g.command[0] != "serve" {
		return
	}
	for _, line := range completeLines(errs) {
		if !json.Valid([]byte(line)) {
			g.t.Errorf("a line of the service log is not JSON: %s", line)
		}
	}
	audited := map[string]bool{}
	for _, line := range completeLines(out) {
		audited[judgeAuditLine(g.t, line)] = true
	}
	for _, id := range g.traffic.takeAnswered() {
		if target := g.settings["GATEWAY_AUDIT_LOG"]; !audited[id] && (target == "" || target == "stdout") {
			g.t.Errorf("request %s was answered and left no audit line", id)
		}
	}
	if secret, found := g.traffic.secretIn(out + errs); found {
		g.t.Errorf("the gateway showed %q in\n%s", secret, lineWith(secret, out+errs))
	}
}

// judgeAuditLine returns the request id that must come first in an audit line.
func judgeAuditLine(t testing.TB, line string) (requestID string) {
	t.Helper()
	rest, found := strings.CutPrefix(line, `{"request_id":"`)
	requestID, _, _ = strings.Cut(rest, `"`)
	if _, err := parseRecord(line); !found || err != nil || uuid.Validate(requestID) != nil {
		t.Errorf("an audit line is not an object with the request id first: %s", line)
	}
	return requestID
}

func lineWith(part, text string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return text
}

func TestTheJudgeFindsSecrets(t *testing.T) {
	s := &traffic{}
	s.add("header.claims.signature-of-both")
	s.addToken("0b8a9f0e-6f1d-4b3f-8f0c-2f4f4a1c9d22")
	for text, want := range map[string]bool{
		`{"credential":"header.claims.signature-of-both"}`: true,
		`signature-of-both`: true,
		`header.claims`:     false,
		`token 0b8a9f0e-6f1d-4b3f-8f0c-2f4f4a1c9d22`:       true,
		`token 0B8A9F0E-6F1D-4B3F-8F0C-2F4F4A1C9D22`:       true,
		`token 0b8a9f0e6f1d4b3f8f0c2f4f4a1c9d22`:           true,
		`request id 0b8a9f0e-6f1d-4b3f-8f0c-2f4f4a1c9d23 `: false,
	} {
		if _, found := s.secretIn(text); found != want {
			t.Errorf("a secret in %q: %v, want %v", text, found, want)
		}
	}
}
