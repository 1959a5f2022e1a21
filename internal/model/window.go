package model

import "github.com/powerinfer-go/powerinfer/internal/compute"

// windowed returns which layers' keys and values are seen through windows only: the layer's own, and those of layers
// that read them. [layers]
func (c *Config) windowed() []bool {
	windowed := make([]bool, c.Layers)
	for l, b := range c.Blocks {
		windowed[l] = b.Window > 0
	}
	for l, b := range c.Blocks {
		windowed[b.KV] = windowed[b.KV] && windowed[l]
	}
	return windowed
}

// Window returns how many positions a token sees in layers with windows, the last of which is its own: in the one that
// sees most. It is 0 if all layers see all of context positions.
func (c *Config) Window(context int) int {
	window := 0
	for l, windowed := range c.windowed() {
		if windowed {
			window = max(window, c.Blocks[l].Window)
		}
	}
	for _, b := range c.Blocks {
		for _, s := range b.Stored {
			window = max(window, s.Reach)
		}
	}
	if window >= context {
		return 0
	}
	return window
}

// textTokens is the length of texts of which an encoder's cache holds as many as make a step: shorter ones wait for
// room.
const textTokens = 8

// CacheSize returns the pages of a KV cache for sequences of context positions in all, so many of which generate at a
// time, by steps of at most step tokens. Layers with windows keep what windows reach, and once more as much of what
// they went past, for requests that go on a little before the end of another; or, if whole, all. An encoder has room
// for a step of short texts. Where there are recurrent layers each sequence has a slot for its state, and checkpoints
// have some more; if guesses are checked, there are slots for copies of states that wrong guesses are taken back to,
// too.
func (c *Config) CacheSize(context, step, sequences int, whole, guesses bool) compute.CacheSpec {
	size := compute.CacheSpec{Pages: CachePages(context)}
	if c.Encoder() { // whose texts, which may be short, share a step and no page
		return compute.CacheSpec{Pages: CachePages(max(context, step/textTokens*compute.PagePositions))}
	}
	if c.Recurrent() {
		size.States = max(1, sequences) + c.checkpoints()
		if guesses {
			size.States += min(max(1, sequences), DraftSequences)
		}
	}
	window := c.Window(context)
	if window == 0 {
		return size
	}
	if size.Near = size.Pages; !whole {
		size.Near = min(size.Pages, 2*max(1, sequences)*CachePages(window)+CachePages(step))
	}
	return size
}

// DraftSequences is the number of sequences for which a step has room to check as many guesses as each may have: with
// more, checking pays less. More sequences that guess less may share that room.
const DraftSequences = 2

// The bytes that checkpoints of recurrent layers' states may take, and bounds of their number: with fewer than the
// least, prompts would hardly ever find one; more than the most, each some hundred positions behind another, serve
// longer conversations than are held.
const (
	checkpointBytes  = 256 << 20
	leastCheckpoints = 4
	mostCheckpoints  = 32
)

// checkpoints returns how many states are kept beside those of running sequences.
func (c *Config) checkpoints() int {
	bytes := int64(0)
	for _, b := range c.Blocks {
		for _, s := range b.Stored {
			bytes += int64(s.StateBytes())
		}
	}
	return int(min(max(checkpointBytes/max(1, bytes), leastCheckpoints), mostCheckpoints))
}
