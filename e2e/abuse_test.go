package e2e

import "testing"

// TestNoBytesBreakTheGateway makes one attack after the other on one process.
// Each must get its answer, in our form and without a word of the request, and
// touch no lock; the connection is closed, or serves the next honest request;
// and at the end the process is as it was. No attack here is answered with a
// success that changes the lock "key", and none may make a record in the store.
func TestNoBytesBreakTheGateway(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	for _, part := range []struct {
		name    string
		attacks func(*siege) []attack
	}{
		{"request lines", badLines},
		{"versions", versions},
		{"methods", methods},
		{"targets", targets},
		{"header lines", badHeaders},
		{"sizes of heads", largeHeads},
		{"headers given twice", doubledHeaders},
		{"request ids", badRequestIDs},
		{"credentials", badCredentials},
		{"headers that mean something elsewhere", foreignHeaders},
		{"lengths and encodings", badFraming},
		{"chunks", badChunks},
		{"trailers", trailers},
		{"large bodies", largeBodies},
		{"bodies that are not JSON", foreignBodies},
		{"bodies where none belongs", strayBodies},
		{"expectations", expectations},
		{"other protocols", otherProtocols},
		{"requests in a row", pipelines},
		{"requests that quote themselves everywhere", planted},
	} {
		t.Run(part.name, func(t *testing.T) { s.withstand(t, part.attacks(s)) })
	}
	s.silent(t)
	s.healthy(t, s.before)
}
