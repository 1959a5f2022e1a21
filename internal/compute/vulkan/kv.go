package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// cache is the memory of a compute.Cache: for each layer a view of keys and a view of values, both divided into pages.
// For each head a page has words of elements and, in quantised types, then the blocks' scales as halves. Keys are
// transposed, [words of a key][64 positions] and [blocks][64], so that neighbouring positions are read together. Values
// are [64 positions][words] and [64][blocks]. If a layer's values are part of its keys, values is the view of keys.
// Layers that keep keys of only some positions store them row by row, as values are. In recurrent layers both views are
// [slots] of a state's numbers.
type cache struct {
	keys, values []driver.View // by layer
}

// side describes the layout of the keys or the values of one KV head.
type side struct {
	t        compute.KVType
	elements int
	across   bool // transposed, neighbouring positions together: keys
	rows     int  // rows of a page
}

// sides returns what a layer stores: keys, and values unless they are part of the keys.
func sides(l compute.KVShape) []side {
	keys := side{l.KeyType, l.Key, l.Every == 0, l.Rows()}
	if l.Within {
		return []side{keys}
	}
	return []side{keys, {l.ValueType, l.Value, false, l.Rows()}}
}

// rowBytes returns what a position takes.
func (s side) rowBytes() int { return s.t.RowBytes(s.elements) }

// pageBytes returns what a page takes.
func (s side) pageBytes() int { return s.rows * s.rowBytes() }

// blocks returns the number of scales of a position, and the bytes of a block without its scale. Both are 0 in types
// without scales.
func (s side) blocks() (n, bytes int) {
	if t := s.t.Type(); t.Quantised() {
		return s.elements / t.BlockElems(), t.BlockBytes() - scaleBytes
	}
	return 0, 0
}

// words returns the words of a position's elements.
func (s side) words() int {
	n, _ := s.blocks()
	return (s.rowBytes() - n*scaleBytes) / 4
}

// scaleBytes is the size of a block's scale, a half.
const scaleBytes = 2

// eachPiece calls f for the pieces of a position of a page in memory with their places in row, which is as a file has
// it.
func (s side) eachPiece(memory []byte, pos int, row []byte, f func(cached, outside []byte)) {
	words := s.words()
	place := func(i, n int) int {
		if s.across {
			return i*s.rows + pos
		}
		return pos*n + i
	}
	blocks, bytes := s.blocks()
	if blocks == 0 {
		for i := range words {
			f(memory[4*place(i, words):][:4], row[4*i:])
		}
		return
	}
	scales := memory[s.rows*4*words:]
	for b := range blocks {
		block := row[b*(scaleBytes+bytes):]
		f(scales[scaleBytes*place(b, blocks):][:scaleBytes], block)
		for i := range bytes / 4 {
			f(memory[4*place(b*bytes/4+i, words):][:4], block[scaleBytes+4*i:])
		}
	}
}

// Cache allocates the keys and values of every layer.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	what := func() string {
		return fmt.Sprintf("KV cache of %d positions in %d layers", spec.Pages*compute.PagePositions, len(spec.Layers))
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	c := &cache{}
	for i, l := range spec.Layers {
		if l.Key%2 != 0 || l.Value%2 != 0 {
			return nil, fmt.Errorf("%s: heads of %d and %d elements, and the GPU takes even ones", what(), l.Key, l.Value)
		}
		keys, values := sideBytes(l)
		for _, side := range []struct {
			views *[]driver.View
			page  int64
		}{{&c.keys, keys}, {&c.values, values}} {
			if side.views == &c.values && (l.Within || l.State > 0) {
				c.values = append(c.values, c.keys[len(c.keys)-1])
				continue
			}
			size := side.page * int64(spec.PagesOf(i))
			if most := d.gpu.Span(); size > most {
				return nil, fmt.Errorf("%s: a layer's keys take %s, and %s has at most %s in one piece: take a smaller context", what(), driver.Mebibytes(size), d.gpu.Info.Name, driver.Mebibytes(most))
			}
			v, err := d.zeros(size)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what(), err)
			}
			*side.views = append(*side.views, v)
		}
	}
	return &compute.Cache{CacheSpec: spec, Mem: c}, nil
}

// cacheLayer returns the memory of one layer's keys and values.
func cacheLayer(c *compute.Cache, layer int) (k, v driver.View) {
	m := c.Mem.(*cache)
	return m.keys[layer], m.values[layer]
}

// sideBytes returns what a page of a layer's keys takes, and of its values; of a recurrent layer a slot and nothing.
func sideBytes(l compute.KVShape) (keys, values int64) {
	return l.KeyPage(), l.ValuePage()
}

// loadKeys reads the tokens' keys.
func (r *recorder) loadKeys(c *compute.Cache, layer int, k compute.Tensor) {
	l := c.Layers[layer]
	if k.Cols != l.Heads*l.Key {
		panic(fmt.Sprintf("vulkan: LoadKeys of %d columns from %d heads of %d", k.Cols, l.Heads, l.Key))
	}
	n := k.Rows * l.Heads * storeUnits(l.KeyType, l.Key)
	if n == 0 {
		return
	}
	r.check(needPlaces(c.CacheSpec, layer))
	keys, _ := cacheLayer(c, layer)
	r.dispatch(call{
		shader: "loadkeys", local: elementwise, spec: []uint32{uint32(l.KeyType)},
		bind:   []binding{read(keys), write(floats(k)), read(r.params())},
		push:   []uint32{uint32(n), uint32(l.Heads), uint32(l.Key), uint32(r.seg.params.rows), uint32(r.seg.params.out), truth(c.IsWindowed(layer))},
		groups: r.groupsFor(n),
	})
}

// storeUnits returns the invocations of store.glsl that write a head of that many elements: one for a pair, or for a
// block.
func storeUnits(t compute.KVType, elements int) int {
	if q := t.Type(); q.Quantised() {
		return elements / q.BlockElems()
	}
	return elements / 2
}

// needPlaces checks that every token has a place in one of the layer's pages.
func needPlaces(spec compute.CacheSpec, layer int) func(*compute.Params) error {
	pages := spec.PagesOf(layer)
	return func(p *compute.Params) error {
		tables := spec.Tables(layer, p)
		if err := within("sequence", p.Seq, len(p.Tokens), len(tables)); err != nil {
			return err
		}
		for i, seq := range p.Seq {
			if i >= len(p.Pos) || p.Pos[i] < 0 || int(p.Pos[i])/compute.PagePositions >= len(tables[seq]) {
				return fmt.Errorf("token %d of sequence %d has no page", i, seq)
			}
		}
		for _, table := range tables {
			if err := within("page", table, 0, pages); err != nil {
				return err
			}
		}
		return nil
	}
}

// CopyPage copies a page in every layer.
func (d *Device) CopyPage(c *compute.Cache, to, from compute.Page) {
	m := c.Mem.(*cache)
	// An error means a lost device, which the next Run reports.
	_ = d.once(func(r *recorder) {
		for i, l := range c.Layers {
			keys, values := sideBytes(l)
			from, to := c.In(i, from), c.In(i, to)
			if min(from, to) < 0 {
				continue
			}
			r.copy(m.keys[i].Slice(int64(to)*keys, keys), m.keys[i].Slice(int64(from)*keys, keys))
			if values > 0 {
				r.copy(m.values[i].Slice(int64(to)*values, values), m.values[i].Slice(int64(from)*values, values))
			}
		}
	})
}
