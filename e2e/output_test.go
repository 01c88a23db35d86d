package e2e

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// output is what a process writes, readable while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// lines that are complete.
func (o *output) lines() []string { return completeLines(o.String()) }

func completeLines(text string) []string {
	end := strings.LastIndexByte(text, '\n')
	if end < 0 {
		return nil
	}
	return strings.Split(text[:end], "\n")
}

// record is one line of a JSON log.
type record map[string]any

func (r record) text(name string) string {
	text, _ := r[name].(string)
	return text
}

// parseRecord reads a line that must be one JSON object.
func parseRecord(line string) (record, error) {
	var r record
	err := json.Unmarshal([]byte(line), &r)
	return r, err
}

// logged finds the first line of a JSON log with this message.
func (o *output) logged(message string) (record, bool) {
	for _, line := range o.lines() {
		if !strings.Contains(line, message) {
			continue
		}
		if r, err := parseRecord(line); err == nil && r.text("msg") == message {
			return r, true
		}
	}
	return nil, false
}
