package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// cache is the memory of a compute.Cache: two views for each layer, of pages in F16, two halves to a word. Keys lie
// [pages][kv_heads][key/2][64 positions], so that neighbouring positions are read together; values
// [pages][kv_heads][64 positions][value/2].
type cache struct {
	keys, values []driver.View // by layer
}

// Cache allocates the keys and values of every layer.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	what := func() string {
		return fmt.Sprintf("KV cache of %d positions in %d layers", spec.Pages*compute.PagePositions, len(spec.Layers))
	}
	c := &cache{}
	for _, l := range spec.Layers {
		if l.Key%2 != 0 || l.Value%2 != 0 {
			return nil, fmt.Errorf("%s: heads of %d and %d elements, and the GPU takes even ones", what(), l.Key, l.Value)
		}
		keys, values := sideBytes(l)
		for _, side := range []struct {
			views *[]driver.View
			page  int64
		}{{&c.keys, keys}, {&c.values, values}} {
			size := side.page * int64(spec.Pages)
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

// sideBytes returns what a page of a layer's keys takes, and of its values.
func sideBytes(l compute.KVShape) (keys, values int64) {
	positions := 2 * compute.PagePositions * int64(l.Heads)
	return positions * int64(l.Key), positions * int64(l.Value)
}

// storeKV writes the tokens' keys and values to their places.
func (r *recorder) storeKV(c *compute.Cache, layer int, k, v compute.Tensor) {
	l := c.Layers[layer]
	if k.Rows != v.Rows || k.Cols != l.Heads*l.Key || v.Cols != l.Heads*l.Value {
		panic(fmt.Sprintf("vulkan: StoreKV of %d and %d columns to %d heads of %d and %d", k.Cols, v.Cols, l.Heads, l.Key, l.Value))
	}
	n := k.Rows * l.Heads * max(l.Key, l.Value) / 2
	if n == 0 {
		return
	}
	r.check(needPlaces(c.Pages))
	keys, values := cacheLayer(c, layer)
	r.dispatch(call{
		shader: "storekv", local: elementwise,
		bind:   []binding{update(keys), update(values), read(floats(k)), read(floats(v)), read(r.params())},
		push:   []uint32{uint32(n), uint32(l.Heads), uint32(l.Key / 2), uint32(l.Value / 2), uint32(r.seg.params.rows), uint32(r.seg.params.out)},
		groups: r.groupsFor(n),
	})
}

// needPlaces checks that every token has a place in one of pages.
func needPlaces(pages int) func(*compute.Params) error {
	return func(p *compute.Params) error {
		if err := within("sequence", p.Seq, len(p.Tokens), len(p.Pages)); err != nil {
			return err
		}
		for i, seq := range p.Seq {
			if i >= len(p.Pos) || p.Pos[i] < 0 || int(p.Pos[i])/compute.PagePositions >= len(p.Pages[seq]) {
				return fmt.Errorf("token %d of sequence %d has no page", i, seq)
			}
		}
		for _, table := range p.Pages {
			if err := within("page", table, 0, pages); err != nil {
				return err
			}
		}
		return nil
	}
}

// CopyPage copies a page in every layer.
func (d *Device) CopyPage(c *compute.Cache, to, from int32) {
	m := c.Mem.(*cache)
	// An error means a lost device, which the next Run reports.
	_ = d.once(func(r *recorder) {
		for i, l := range c.Layers {
			keys, values := sideBytes(l)
			r.copy(m.keys[i].Slice(int64(to)*keys, keys), m.keys[i].Slice(int64(from)*keys, keys))
			r.copy(m.values[i].Slice(int64(to)*values, values), m.values[i].Slice(int64(from)*values, values))
		}
	})
}
