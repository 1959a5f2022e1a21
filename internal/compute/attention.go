package compute

// PagePositions is the number of positions in one KV page.
const PagePositions = 64

// KVShape is the shape of one layer's keys and values.
type KVShape struct {
	Heads      int // KV heads
	Key, Value int // elements of a head's key and of its value
}

// PageBytes returns the memory of a page of keys and values in F16.
func (s KVShape) PageBytes() int64 {
	return 2 * PagePositions * int64(s.Heads) * (int64(s.Key) + int64(s.Value))
}

// PositionHalves returns how many halves a position's keys and values have.
func (s KVShape) PositionHalves() int { return s.Heads * (s.Key + s.Value) }

// Positions returns how many positions a layer's halves [n·kv_heads·key + n·kv_heads·value] of a page hold, in the order of Device.ReadPage: first
// the keys [n, kv_heads, key], then the values [n, kv_heads, value].
func (s KVShape) Positions(halves []uint16) int { return len(halves) / s.PositionHalves() }

// CacheSpec is the shape of a KV cache: F16, Pages·PagePositions positions in every layer.
type CacheSpec struct {
	Layers []KVShape
	Pages  int
}

// Bytes returns the memory that the cache takes.
func (s CacheSpec) Bytes() (n int64) {
	for _, l := range s.Layers {
		n += int64(s.Pages) * l.PageBytes()
	}
	return n
}

// Cache holds keys and values of every layer in pages on a device.
type Cache struct {
	CacheSpec
	Mem any // the device's own handle
}

// Attention holds the parameters by which a layer's attention weighs the positions that a token sees.
type Attention struct {
	Scale   float32 // of the products q·k: the scores
	Window  int     // positions that a token sees, the last of which is its own; 0: all up to its own
	SoftCap float32 // a score s becomes SoftCap·tanh(s/SoftCap); 0: scores stay as they are
	Sinks   *Vector // [heads] a score for each query head that takes its share of the softmax and has no value; nil: none
}

// First returns the first position that a token at position pos sees.
func (a Attention) First(pos int) int {
	if a.Window == 0 {
		return 0
	}
	return max(0, pos+1-a.Window)
}
