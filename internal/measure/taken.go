package measure

import "time"

// Taken is when and how a machine's figures were measured.
type Taken struct {
	At     time.Time `json:"at"`
	Buffer int64     `json:"buffer"`           // bytes of RAM that were read
	Caches int64     `json:"caches"`           // bytes of all last-level caches; 0: unknown
	Busy   int       `json:"busy"`             // tasks of other programs that ran at the same time
	Doubts []string  `json:"doubts,omitempty"` // why the figures of RAM may be wrong, a sentence each
}

// due reports whether to measure the figures again while this many tasks of other programs run. Doubtful ones are
// measured again unless the machine is about as busy as it was, which would give no better ones.
func (t *Taken) due(busy int) bool {
	return len(t.Doubts) > 0 && (t.Busy == 0 || 2*busy < t.Busy)
}

// Small reports whether the buffer was so small that caches may have held a good part of it.
func (t *Taken) Small() bool { return t.Buffer < readCache*t.Caches }
