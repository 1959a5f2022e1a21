package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// ReadPage reads a page's first positions in every layer.
func (d *Device) ReadPage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	staged, err := d.movePage(c, page, &d.pagesOut, nil, func(r *recorder, cached, staged driver.View) { r.copy(staged, cached) })
	if err != nil {
		return fmt.Errorf("reading the KV cache: %w", err)
	}
	eachPiece(c, page, layers, staged.Host(), func(cached, outside []byte) { copy(outside, cached) })
	return nil
}

// WritePage writes a page's first positions in every layer, followed by zeros.
func (d *Device) WritePage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	fill := func(staged driver.View) {
		clear(staged.Host())
		eachPiece(c, page, layers, staged.Host(), func(cached, outside []byte) { copy(cached, outside) })
	}
	_, err := d.movePage(c, page, &d.pagesIn, fill, func(r *recorder, cached, staged driver.View) { r.copy(cached, staged) })
	if err != nil {
		return fmt.Errorf("writing the KV cache: %w", err)
	}
	return nil
}

// movePage copies between a page's place in every layer that has it and host memory, which holds it in the layout of
// cache, layer by layer, keys before values. fill, if set, is given that memory first.
func (d *Device) movePage(c *compute.Cache, page compute.Page, through *exchange, fill func(driver.View), move func(r *recorder, cached, staged driver.View)) (driver.View, error) {
	size := int64(0)
	for i, l := range c.Layers {
		if c.In(i, page) >= 0 {
			size += l.PageBytes()
		}
	}
	through.restart()
	staged, err := through.take(size)
	if err != nil {
		return staged, err
	}
	if fill != nil {
		fill(staged)
	}
	return staged, d.once(func(r *recorder) {
		m, at := c.Mem.(*cache), int64(0)
		for i, l := range c.Layers {
			keys, values := sideBytes(l)
			page := int64(c.In(i, page))
			if page < 0 {
				continue
			}
			if keys > 0 {
				move(r, m.keys[i].Slice(page*keys, keys), staged.Slice(at, keys))
			}
			if values > 0 {
				move(r, m.values[i].Slice(page*values, values), staged.Slice(at+keys, values))
			}
			at += keys + values
		}
	})
}

// eachPiece calls f for every piece of the first positions of a page in host memory with the layout of cache, together
// with the bytes of layers that correspond: words of elements, the scales of blocks, or a whole state.
func eachPiece(c *compute.Cache, page compute.Page, layers [][]byte, memory []byte, f func(cached, outside []byte)) {
	for i, l := range c.Layers {
		if c.In(i, page) < 0 {
			continue
		}
		if l.State > 0 {
			if len(layers[i]) > 0 {
				f(memory[:l.StateBytes()], layers[i])
			}
			memory = memory[l.StateBytes():]
			continue
		}
		n, rest := l.Positions(layers[i]), layers[i]
		for _, side := range sides(l) {
			for pos := range n {
				for h := range l.Heads {
					side.eachPiece(memory[h*side.pageBytes():], pos, rest[:side.rowBytes()], f)
					rest = rest[side.rowBytes():]
				}
			}
			memory = memory[l.Heads*side.pageBytes():]
		}
	}
}
