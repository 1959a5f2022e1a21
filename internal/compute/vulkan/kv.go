package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// cache is the memory of a compute.Cache: two views for each layer, of pages in F16, two halves to a word. Keys lie
// [pages][kv_heads][head_dim/2][64 positions], so that neighbouring positions are read together; values
// [pages][kv_heads][64 positions][head_dim/2].
type cache struct {
	keys, values []view // by layer
}

// Cache allocates the keys and values of every layer.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	what := func() string {
		return fmt.Sprintf("KV cache of %d positions in %d layers", spec.Pages*compute.PagePositions, spec.Layers)
	}
	if spec.HeadDim%2 != 0 {
		return nil, fmt.Errorf("%s: heads of %d elements, and the GPU takes even ones", what(), spec.HeadDim)
	}
	size := spec.Bytes() / 2 / int64(max(1, spec.Layers))
	if most := d.gpu.span(); size > most {
		return nil, fmt.Errorf("%s: a layer's keys take %s, and %s has at most %s in one piece: take a smaller context", what(), mebibytes(size), d.gpu.info.Name, mebibytes(most))
	}
	c := &cache{}
	for range spec.Layers {
		for _, side := range []*[]view{&c.keys, &c.values} {
			v, err := d.zeros(size)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what(), err)
			}
			*side = append(*side, v)
		}
	}
	return &compute.Cache{CacheSpec: spec, Mem: c}, nil
}

// cacheLayer is the memory of one layer's keys and values.
func cacheLayer(c *compute.Cache, layer int) (k, v view) {
	m := c.Mem.(*cache)
	return m.keys[layer], m.values[layer]
}

// pageBytes is what a page takes on either side of a layer.
func pageBytes(c *compute.Cache) int64 {
	return 2 * compute.PagePositions * int64(c.KVHeads) * int64(c.HeadDim)
}

// StoreKV writes the tokens' keys and values to their places.
func (r *recorder) StoreKV(c *compute.Cache, layer int, k, v compute.Tensor) {
	same("StoreKV", k, v)
	if k.Cols != c.KVHeads*c.HeadDim {
		panic(fmt.Sprintf("vulkan: StoreKV of %d columns to %d heads of %d", k.Cols, c.KVHeads, c.HeadDim))
	}
	n := k.Rows * k.Cols / 2
	if n == 0 {
		return
	}
	r.check(needPlaces(k.Rows, c.Pages))
	keys, values := cacheLayer(c, layer)
	r.dispatch(call{
		shader: "storekv", local: elementwise,
		bind:   []binding{update(keys), update(values), read(floats(k)), read(floats(v)), read(r.params())},
		push:   []uint32{uint32(n), uint32(c.KVHeads), uint32(c.HeadDim / 2), uint32(r.seg.params.rows), uint32(r.seg.params.out)},
		groups: r.groupsFor(n),
	})
}

// needPlaces checks that n tokens have a place in one of pages.
func needPlaces(n, pages int) func(*compute.Params) error {
	return func(p *compute.Params) error {
		if err := within("sequence", p.Seq, n, len(p.Pages)); err != nil {
			return err
		}
		for i, seq := range p.Seq[:n] {
			if i >= len(p.Pos) || p.Pos[i] < 0 || int(p.Pos[i])/compute.PagePositions >= len(p.Pages[seq]) {
				return fmt.Errorf("token %d of sequence %d has no page", i, seq)
			}
		}
		for _, table := range p.Pages {
			if err := within("page", table, len(table), pages); err != nil {
				return err
			}
		}
		return nil
	}
}

// CopyPage copies a page in every layer.
func (d *Device) CopyPage(c *compute.Cache, to, from int32) {
	m := c.Mem.(*cache)
	size := pageBytes(c)
	// An error means a lost device, which the next Run reports.
	_ = d.once(func(r *recorder) {
		for layer := range c.Layers {
			for _, side := range [...]view{m.keys[layer], m.values[layer]} {
				r.copy(side.slice(int64(to)*size, size), side.slice(int64(from)*size, size))
			}
		}
	})
}
