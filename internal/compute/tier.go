package compute

// Tier is a memory for weights together with the processor that computes on them: a GPU, by its number from 0, or RAM
// with the CPU. Tiers slower than RAM, such as disk, would have lower numbers; there are none yet.
type Tier int

// RAM is the tier of everything that is not on a GPU.
const RAM Tier = -1

// Split divides units between tiers: units [0, Bound) are in Tier, the others in RAM. Units are the rows of a dense
// weight, all in one tier, or a layer's neurons or experts, hottest first.
type Split struct {
	Tier  Tier
	Bound int
	Slots bool // for experts: RAM has all of them, and Tier has slots, filled at first with [0, Bound); the text decides which experts they hold later
}

// Place says in which tiers a layer is: Split divides its units, and the rest is in Split's Tier or in RAM. The head
// has no units.
type Place struct {
	Split
	Attention bool // attention, norms and KV pages are in Tier; for the head: its matrix
	Predictor bool // the predictor is in Tier
	EveryRow  int  // steps of that many single tokens or more read the gate and up rows of all neurons in Tier, not only of those that they need; 0: none do
	Further   bool // for the head: the MTP layer is in Tier, whole, with its keys and values
}
