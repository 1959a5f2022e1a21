package model

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// CacheSpec returns the shape of a KV cache of size's pages, and of types, of a model in one place. Unless size.Near is
// 0, layers with windows have so many pages.
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
			shape.Heads = 0 // they lie with another layer's
		}
		shape.KeyType, shape.ValueType = types.Key, types.Value
		if shape.Within { // there are no values beside the keys that could be of another type
			shape.ValueType = types.Key
		}
		spec.Layers = append(spec.Layers, shape)
	}
	for l, b := range c.Blocks {
		if b.State == 0 || b.Heads == 0 {
			continue
		}
		spec.Layers, spec.Further = append(spec.Layers, b.state()), append(spec.Further, l)
		if spec.Windowed != nil {
			spec.Windowed = append(spec.Windowed, false)
		}
	}
	if like := c.likeFurther(); c.FurtherCached && like >= 0 {
		shape := spec.Layers[like]
		spec.Layers = append(spec.Layers, shape)
		if spec.Windowed != nil {
			spec.Windowed = append(spec.Windowed, false)
		}
	}
	return spec
}

// statePart returns the part of the cache with layer l's state: the layer's own, or one after all layers' where it has keys
// and values there.
func (c *Config) statePart(l int) int {
	if l >= c.Layers || c.Blocks[l].State == 0 || c.Blocks[l].Heads == 0 {
		return l
	}
	part := c.Layers
	for _, b := range c.Blocks[:l] {
		if b.State > 0 && b.Heads > 0 {
			part++
		}
	}
	return part
}

// ReadPage reads a page's first positions of the KV cache, in every layer: see compute.Device.
func (m *Model) ReadPage(page compute.Page, layers [][]byte) error {
	return m.dev.ReadPage(m.cache, page, layers)
}

// WritePage writes them.
func (m *Model) WritePage(page compute.Page, layers [][]byte) error {
	return m.dev.WritePage(m.cache, page, layers)
}

// KVShapes returns the shapes of the cache's parts, and in which of them it keeps the positions that windows reach
// alone.
func (m *Model) KVShapes() (shapes []compute.KVShape, windowed []bool) {
	windowed = m.cache.Windowed
	if windowed == nil {
		windowed = make([]bool, len(m.cache.Layers))
	}
	return m.cache.Layers, windowed
}

// CopyPage copies one page of the KV cache, in every layer.
func (m *Model) CopyPage(to, from compute.Page) { m.dev.CopyPage(m.cache, to, from) }
