package lockcore

import "fmt"

// Op is an operation of the protocol.
type Op uint8

// The operations. None does nothing: it counts a request that cannot be carried out.
const (
	None Op = iota
	Acquire
	Renew
	Release
	Read
	ForceRelease
)

// Phase is where a lease stands at a moment.
type Phase uint8

// The phases; see the package documentation.
const (
	Free Phase = iota
	Held
	Closing
	InGrace
)

// Verdict is the answer to a command.
type Verdict uint8

// The verdicts. Nothing answers None.
const (
	Nothing       Verdict = iota
	Granted               // acquire: a new lease, the caller is the owner until E
	TakenOver             // the same, after a lease of another owner that ended by expiry, not long ago
	Extended              // acquire, renew: the caller's lease, which goes on until E
	Released              // release, force release: the lock is free
	Observed              // read
	LockHeld              // refused: another owner's lease
	OwnershipLost         // refused: not, or no longer, the caller's lease
)

// The words are the same in Go, Lua, the audit log and the protocol.
var (
	ops      = [...]string{"none", "acquire", "renew", "release", "read", "force_release"}
	phases   = [...]string{"free", "held", "closing", "grace"}
	verdicts = [...]string{"nothing", "granted", "taken_over", "extended", "released", "observed", "lock_held", "lock_ownership_lost"}
)

func (o Op) String() string      { return ops[o] }
func (p Phase) String() string   { return phases[p] }
func (v Verdict) String() string { return verdicts[v] }

// ParseOp is the inverse of Op.String.
func ParseOp(word string) (Op, error) { return parse[Op](ops[:], word) }

// ParseVerdict is the inverse of Verdict.String.
func ParseVerdict(word string) (Verdict, error) { return parse[Verdict](verdicts[:], word) }

func parse[T ~uint8](words []string, word string) (T, error) {
	for i, w := range words {
		if w == word {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("unknown word %q", word)
}
