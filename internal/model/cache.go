package model

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// CacheSpec returns the shape of a KV cache with size's pages and the given types, for a model in one place. Layers
// with windows have size.Near pages, unless it is 0.
func (c Config) CacheSpec(size compute.CacheSpec, types compute.CacheTypes) compute.CacheSpec {
	return c.cacheSpec(size, types, nil)
}

func (c *Config) cacheSpec(size compute.CacheSpec, types compute.CacheTypes, places []compute.Place) compute.CacheSpec {
	spec, storage := compute.CacheSpec{Pages: size.Pages, Near: size.Near}, c.storage(places)
	if c.Recurrent() {
		spec.States = max(1, size.States)
	}
	if size.Near > 0 {
		spec.Windowed = c.windowed()
	}
	for l, b := range c.Blocks {
		shape := b.kv()
		if storage[l] != l {
			shape.Heads = 0 // they are stored with another layer's
		}
		spec.Layers = append(spec.Layers, shape.Typed(types))
	}
	if c.FurtherCached && c.mtp != nil {
		spec.Layers = append(spec.Layers, c.mtp.kv().Typed(types))
	}
	blocks := c.Blocks[:c.Layers:c.Layers]
	if c.FurtherCached && c.mtp != nil {
		blocks = append(blocks, *c.mtp)
	}
	for l, b := range blocks {
		main := b.main()
		for i, shape := range b.Stored {
			if i != main {
				spec.Layers, spec.Further = append(spec.Layers, shape.Typed(types)), append(spec.Further, l)
			}
		}
	}
	for len(spec.Windowed) > 0 && len(spec.Windowed) < len(spec.Layers) {
		spec.Windowed = append(spec.Windowed, spec.Layers[len(spec.Windowed)].Reach > 0)
	}
	return spec
}

// cacheParts returns the parts of the cache that layer l has, in the order of its Block's Stored. storage is the
// layers'. The first parts of all layers come first, then the MTP layer's, then the layers' additional parts.
func (c *Config) cacheParts(l int, storage []int) []int {
	blocks := c.Blocks[:c.Layers:c.Layers]
	if c.FurtherCached {
		blocks = append(blocks, *c.mtp)
	}
	next := c.Layers
	if c.FurtherCached {
		next++
	}
	for _, b := range blocks[:l] {
		next += max(0, len(b.Stored)-1)
	}
	var parts []int
	main := blocks[l].main()
	for i := range blocks[l].Stored {
		switch {
		case i == main && l == c.Layers:
			parts = append(parts, l)
			continue
		case i == main:
			parts = append(parts, storage[l])
			continue
		}
		parts = append(parts, next)
		next++
	}
	return parts
}

// ReadPage reads a page's first positions of the KV cache, in every layer: see compute.Device.
func (m *Model) ReadPage(page compute.Page, layers [][]byte) error {
	return m.dev.ReadPage(m.cache, page, layers)
}

// WritePage writes them.
func (m *Model) WritePage(page compute.Page, layers [][]byte) error {
	return m.dev.WritePage(m.cache, page, layers)
}

// DraftParts returns how many parts of the cache are a draft program's, of a model that was loaded with one. The first
// comes after the first parts of the model's layers, the others come last.
func (c *Config) DraftParts() int {
	if !c.FurtherCached || c.mtp == nil {
		return 0
	}
	return max(1, len(c.mtp.Stored))
}

// KVShapes returns the shapes of the cache's parts, and which of them keep only the positions that windows reach.
func (m *Model) KVShapes() (shapes []compute.KVShape, windowed []bool) {
	windowed = m.cache.Windowed
	if windowed == nil {
		windowed = make([]bool, len(m.cache.Layers))
	}
	for _, s := range m.cache.Layers {
		s.Reach, s.Floats, s.Exact = 0, false, false // the shape follows from them already
		shapes = append(shapes, s)
	}
	return shapes, windowed
}

// CopyPage copies one page of the KV cache, in every layer.
func (m *Model) CopyPage(to, from compute.Page) { m.dev.CopyPage(m.cache, to, from) }
