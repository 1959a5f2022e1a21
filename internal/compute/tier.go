package compute

// Tier is a memory for weights, with the processor that computes on what lies there: a GPU's by the GPU's number, from
// 0, or RAM with the CPU. Tiers slower than RAM, such as disk, would have lower numbers; there are none yet.
type Tier int

// RAM is the tier of what lies on no GPU.
const RAM Tier = -1

// Split divides units between tiers: units [0, Bound) lie in Tier, the others in RAM. Units are what can be divided:
// the rows of a dense weight, which lie all on one side, or a layer's neurons or experts, hottest first.
type Split struct {
	Tier  Tier
	Bound int
	Slots bool // of experts: RAM has them all, and [0, Bound) are where Tier's begin; which of them lie there follows the text
}

// Place says in which tiers a layer lies: its units as Split has them, the rest in Split's Tier or in RAM.
// The head has no units.
type Place struct {
	Split
	Attention bool // attention, norms and KV pages are in Tier; of the head: its matrix
	Predictor bool // so is the predictor
	Further   bool // of the head: so is the layer that predicts a further token, whole, with its keys and values
}
