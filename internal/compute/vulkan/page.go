package vulkan

import (
	"encoding/binary"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// ReadPage reads a page's first positions in every layer.
func (d *Device) ReadPage(c *compute.Cache, page int32, layers [][]uint16) error {
	staged, err := d.movePage(c, page, &d.pagesOut, nil, func(r *recorder, cached, staged driver.View) { r.copy(staged, cached) })
	if err != nil {
		return fmt.Errorf("reading the KV cache: %w", err)
	}
	eachWord(c, layers, staged.Host(), func(word []byte, low, high *uint16) {
		w := binary.LittleEndian.Uint32(word)
		*low, *high = uint16(w), uint16(w>>16)
	})
	return nil
}

// WritePage writes a page's first positions in every layer, and zeros behind them.
func (d *Device) WritePage(c *compute.Cache, page int32, layers [][]uint16) error {
	fill := func(staged driver.View) {
		clear(staged.Host())
		eachWord(c, layers, staged.Host(), func(word []byte, low, high *uint16) {
			binary.LittleEndian.PutUint32(word, uint32(*low)|uint32(*high)<<16)
		})
	}
	_, err := d.movePage(c, page, &d.pagesIn, fill, func(r *recorder, cached, staged driver.View) { r.copy(cached, staged) })
	if err != nil {
		return fmt.Errorf("writing the KV cache: %w", err)
	}
	return nil
}

// movePage copies between a page's place in every layer and host memory, which holds it in the layout of cache, layer by layer, keys before values.
// fill, if set, is given that memory first.
func (d *Device) movePage(c *compute.Cache, page int32, through *exchange, fill func(driver.View), move func(r *recorder, cached, staged driver.View)) (driver.View, error) {
	size := int64(0)
	for _, l := range c.Layers {
		size += l.PageBytes()
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
			move(r, m.keys[i].Slice(int64(page)*keys, keys), staged.Slice(at, keys))
			move(r, m.values[i].Slice(int64(page)*values, values), staged.Slice(at+keys, values))
			at += keys + values
		}
	})
}

// eachWord calls f for every word of the first positions of a page that lies in host memory, with the two halves in layers that it holds.
func eachWord(c *compute.Cache, layers [][]uint16, memory []byte, f func(word []byte, low, high *uint16)) {
	const positions = compute.PagePositions
	for i, l := range c.Layers {
		n, rest := l.Positions(layers[i]), layers[i]
		keys, values := sideBytes(l)
		for pos := range n {
			for h := range l.Heads {
				for j := range l.Key / 2 {
					f(memory[4*((h*l.Key/2+j)*positions+pos):], &rest[2*j], &rest[2*j+1])
				}
				rest = rest[l.Key:]
			}
		}
		memory = memory[keys:]
		for pos := range n {
			for h := range l.Heads {
				for j := range l.Value / 2 {
					f(memory[4*((h*positions+pos)*l.Value/2+j):], &rest[2*j], &rest[2*j+1])
				}
				rest = rest[l.Value:]
			}
		}
		memory = memory[values:]
	}
}
