package model

import "github.com/powerinfer-go/powerinfer/internal/compute"

// windowed returns for each layer whether its keys and values are seen only through windows: its own, and those of
// layers that read them. [layers]
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

// Window returns how many positions, its own included, a token sees in the layer with the largest window. It is 0 if
// all layers see all of context positions.
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

// textTokens is the shortest length of texts with which an encoder's cache has room for a full step; shorter texts wait
// for room.
const textTokens = 8

// CacheSize returns the pages of a KV cache with context positions for all sequences together. sequences of them
// generate at a time, in steps of at most step tokens. Layers with windows keep the positions that windows reach, and
// as many again before these, for requests that continue a little before another's end; if whole, they keep all. An
// encoder has room for a step of short texts. With recurrent layers each sequence has a slot for its state, and
// checkpoints have more slots. guesses adds slots for copies of states, which wrong drafts restore.
func (c *Config) CacheSize(context, step, sequences int, whole, guesses bool) compute.CacheSpec {
	size := compute.CacheSpec{Pages: CachePages(context)}
	if c.Encoder() { // its texts, which may be short, share a step but no page
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

// DraftSequences is the number of sequences for which a step has room to check the largest number of draft tokens: with
// more sequences, checking pays less. More sequences with fewer draft tokens may share that room.
const DraftSequences = 2

// The bytes that checkpoints of recurrent layers' states may take, and bounds of their number. With fewer than the
// least, prompts would hardly ever find one. More than the most, some hundred positions apart, serve longer
// conversations than are kept.
const (
	checkpointBytes  = 256 << 20
	leastCheckpoints = 4
	mostCheckpoints  = 32
)

// checkpoints returns how many states are kept in addition to those of running sequences.
func (c *Config) checkpoints() int {
	bytes := int64(0)
	for _, b := range c.Blocks {
		for _, s := range b.Stored {
			bytes += int64(s.StateBytes())
		}
	}
	return int(min(max(checkpointBytes/max(1, bytes), leastCheckpoints), mostCheckpoints))
}
