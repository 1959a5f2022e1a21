package compute

import (
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// PagePositions is the number of positions in one KV page.
const PagePositions = 64

// KVType is the type in which a cache stores keys or values. Storing rounds them as quant.Encode does; attention
// computes in float32 with what quant.Decode returns.
type KVType int

// The types of caches.
const (
	KVF16 KVType = iota
	KVBF16
	KVF32
	KVQ8_0
	KVQ4_0
)

// KVTypes returns all types, the most exact first.
func KVTypes() []KVType { return []KVType{KVF32, KVF16, KVBF16, KVQ8_0, KVQ4_0} }

// Type returns t as an element type.
func (t KVType) Type() quant.Type {
	return [...]quant.Type{quant.F16, quant.BF16, quant.F32, quant.Q8_0, quant.Q4_0}[t]
}

func (t KVType) String() string { return t.Type().String() }

// RowBytes returns the bytes of a head's key or value with that many elements, which must be whole blocks of t.
func (t KVType) RowBytes(elements int) int { return t.Type().RowBytes(elements) }

// ParseKVType returns the type that -ctk and -ctv call name.
func ParseKVType(name string) (KVType, error) {
	var names []string
	for _, t := range KVTypes() {
		if strings.EqualFold(name, t.String()) {
			return t, nil
		}
		names = append(names, strings.ToLower(t.String()))
	}
	return 0, fmt.Errorf("the KV cache cannot be kept in %q; it can in %s", name, strings.Join(names, ", "))
}

// CacheTypes are the types of a cache's keys and values. The zero value is F16.
type CacheTypes struct{ Key, Value KVType }

// KVShape is the shape of one layer's keys and values, and their types.
type KVShape struct {
	Heads              int // KV heads; 0: the layer reads another layer's
	Key, Value         int // elements of a head's key and of its value
	KeyType, ValueType KVType
	Within             bool // a head's value is the first elements of its key and takes no extra memory, as in multi-head latent attention
	State              int  // float32 numbers of a sequence's recurrent state, which the layer has in place of keys and values; else 0
	Every              int  // only the last of each Every positions has keys and values, and a page has Rows of them; 0: every position has. One of Every and PagePositions must divide the other
	Reach              int  // positions that are read, counted back from a token's own; 0: all
	Floats             bool // keys and values are not quantised, whatever the cache's types are
	Exact              bool // keys and values are F32, whatever the cache's types are
}

// Typed returns s with the types of a cache, as far as it takes them.
func (s KVShape) Typed(t CacheTypes) KVShape {
	s.KeyType, s.ValueType = s.typed(t.Key), s.typed(t.Value)
	if s.Within { // the values are part of the keys
		s.ValueType = s.KeyType
	}
	return s
}

func (s KVShape) typed(t KVType) KVType {
	switch {
	case s.Exact:
		return KVF32
	case s.Floats && t.Type().Quantised():
		return KVF16
	}
	return t
}

// Rows returns how many positions of a page have keys and values.
func (s KVShape) Rows() int {
	if s.Every > 0 {
		return max(1, PagePositions/s.Every)
	}
	return PagePositions
}

// Row returns a position's row in its page; kept is false if it has none.
func (s KVShape) Row(pos int) (row int, kept bool) {
	if s.Every == 0 {
		return pos % PagePositions, true
	}
	return pos % PagePositions / s.Every, (pos+1)%s.Every == 0
}

// PartRows returns how many rows of a page belong to its first positions.
func (s KVShape) PartRows(positions int) int { return positions * s.Rows() / PagePositions }

// PartBytes returns the bytes of the keys and values of a page's first positions.
func (s KVShape) PartBytes(positions int) int { return s.PartRows(positions) * s.PositionBytes() }

// Check reports whether the widths are whole blocks of the types, and whether a key has room for the value within it.
func (s KVShape) Check() error {
	if e := s.Every; e < 0 || e > 0 && e%PagePositions != 0 && PagePositions%e != 0 {
		return fmt.Errorf("a KV cache: the last of every %d positions does not lie alike in all pages of %d", e, PagePositions)
	}
	if s.Within && (s.Value > s.Key || s.ValueType != s.KeyType) {
		return fmt.Errorf("a KV cache: values of %d elements in %s do not lie within keys of %d in %s", s.Value, s.ValueType, s.Key, s.KeyType)
	}
	for _, side := range []struct {
		what     string
		elements int
		t        KVType
	}{{"keys", s.Key, s.KeyType}, {"values", s.Value, s.ValueType}} {
		if block := side.t.Type().BlockElems(); side.elements%block != 0 {
			return fmt.Errorf("a KV cache in %s: %s have %d elements, which are not blocks of %d; keep them in f16", side.t, side.what, side.elements, block)
		}
	}
	return nil
}

// KeyBytes returns what a position's keys of all heads take.
func (s KVShape) KeyBytes() int { return s.Heads * s.KeyType.RowBytes(s.Key) }

// ValueBytes returns the bytes of all heads' values at a position; 0 if values are within keys.
func (s KVShape) ValueBytes() int {
	if s.Within {
		return 0
	}
	return s.Heads * s.ValueType.RowBytes(s.Value)
}

// PositionBytes returns what a position's keys and values take.
func (s KVShape) PositionBytes() int { return s.KeyBytes() + s.ValueBytes() }

// StateBytes returns what a sequence's recurrent state takes.
func (s KVShape) StateBytes() int { return 4 * s.State }

// PageBytes returns the memory of a page of keys and values, or of a slot for a state.
func (s KVShape) PageBytes() int64 { return s.KeyPage() + s.ValuePage() }

// KeyPage returns the part of PageBytes that is keys', or a state's.
func (s KVShape) KeyPage() int64 { return int64(s.Rows())*int64(s.KeyBytes()) + int64(s.StateBytes()) }

// ValuePage returns the part that is values'.
func (s KVShape) ValuePage() int64 { return int64(s.Rows()) * int64(s.ValueBytes()) }

// Positions returns how many rows of positions a layer's part of a page holds. The order is that of Device.ReadPage:
// first the keys [n, kv_heads], in the encoding of their type as in a file, and then the values, unless they are within
// the keys.
func (s KVShape) Positions(part []byte) int { return len(part) / max(1, s.PositionBytes()) }

// CacheSpec is the shape of a KV cache: Pages·PagePositions positions in every layer. Layers with windows may have
// fewer pages, numbered on their own, and layers with recurrent states have slots for them instead.
type CacheSpec struct {
	Layers   []KVShape // the model's layers, then the states of layers that have both keys and values and a state
	Further  []int     // the layers that own those further states; nil: there are none
	Pages    int
	Windowed []bool // [layers] whether a layer has Near pages instead; nil: none has
	Near     int
	States   int // slots for recurrent states, each a sequence's or a checkpoint's
}

// Page names a page of a cache, a slot of states, or both.
type Page struct {
	Far   int32 // in layers with CacheSpec.Pages; -1: none
	Near  int32 // in Windowed layers; -1: none
	State int32 // the slot in layers with recurrent states; -1: none
}

// EveryLayer returns the page with that number in every layer of a cache without Windowed layers.
func EveryLayer(page int32) Page { return Page{page, -1, -1} }

// StateSlot returns the slot with that number in layers with recurrent states.
func StateSlot(slot int32) Page { return Page{-1, -1, slot} }

// IsWindowed reports whether a layer is Windowed.
func (s CacheSpec) IsWindowed(layer int) bool { return s.Windowed != nil && s.Windowed[layer] }

// PagesOf returns the number of a layer's pages, or of its slots for states.
func (s CacheSpec) PagesOf(layer int) int {
	if s.Layers[layer].State > 0 {
		return s.States
	}
	if s.IsWindowed(layer) {
		return s.Near
	}
	return s.Pages
}

// In returns a page's number in a layer, or -1.
func (s CacheSpec) In(layer int, page Page) int32 {
	if s.Layers[layer].State > 0 {
		return page.State
	}
	if s.IsWindowed(layer) {
		return page.Near
	}
	return page.Far
}

// Tables returns the page ids of a step's sequences in a layer. [sequence][page]
func (s CacheSpec) Tables(layer int, p *Params) [][]int32 {
	if s.IsWindowed(layer) {
		return p.Near
	}
	return p.Pages
}

// LayerOf returns the model's layer that a part belongs to. Both are on the same device.
func (s CacheSpec) LayerOf(part int) int {
	if own := len(s.Layers) - len(s.Further); part >= own {
		return s.Further[part-own]
	}
	return part
}

// Among returns what each of n devices has of the cache, where home says which has a layer, and each part's number
// within its device's.
func (s CacheSpec) Among(n int, home func(layer int) int) (on []CacheSpec, index []int) {
	on = make([]CacheSpec, n)
	number := make([]int, len(s.Layers)) // of the model's layers, within their devices
	for j := range on {
		on[j] = s
		on[j].Layers, on[j].Windowed, on[j].Further = nil, nil, nil
	}
	for part, shape := range s.Layers {
		layer := s.LayerOf(part)
		d := &on[home(layer)]
		index = append(index, len(d.Layers))
		if layer == part {
			number[layer] = len(d.Layers)
		} else {
			d.Further = append(d.Further, number[layer])
		}
		d.Layers = append(d.Layers, shape)
		if s.Windowed != nil {
			d.Windowed = append(d.Windowed, s.Windowed[part])
		}
	}
	return on, index
}

// Check reports whether the cache's types hold its widths. The error names the layer.
func (s CacheSpec) Check() error {
	for i, l := range s.Layers {
		if err := l.Check(); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return nil
}

// Bytes returns the memory that the cache takes.
func (s CacheSpec) Bytes() (n int64) {
	for i, l := range s.Layers {
		n += int64(s.PagesOf(i)) * l.PageBytes()
	}
	return n
}

// StateBytes returns the memory of one slot in all layers.
func (s CacheSpec) StateBytes() (n int64) {
	for _, l := range s.Layers {
		n += int64(l.StateBytes())
	}
	return n
}

// Cache holds keys and values of every layer in pages on a device, or a layer's recurrent states.
type Cache struct {
	CacheSpec
	Mem any // the device's own handle
}
