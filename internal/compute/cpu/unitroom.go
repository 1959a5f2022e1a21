package cpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// Keep implements compute.Device.
func (d *Device) Keep(ctx context.Context, progress func(done, total int64)) error {
	s := d.units
	if len(s.bundles) == 0 || s.reader != nil {
		return nil
	}
	reader, err := disk.NewReader(readDepth)
	if err != nil {
		return err
	}
	traceReads(s.trace, reader)
	reader.BesideComputing()
	s.reader = reader
	if err := s.addWholes(d); err != nil {
		return err
	}
	if err := s.share(); err != nil {
		return err
	}
	for _, c := range s.classes {
		if err := c.allocate(d, s.lendable()); err != nil {
			return err
		}
		s.use.Slots += int64(c.slots)
		s.use.Kept += int64(c.slots) * c.bytes
	}
	if err := s.warm(ctx, progress); err != nil {
		return err
	}
	for _, b := range s.bundles {
		s.addWholeParts(b)
		for i := range b.slotted {
			if m := &b.slotted[i]; mem(m).layout == plain || mem(m).packed && mem(m).layout == neurons {
				d.tuner.add(m)
			}
		}
	}
	return nil
}

// share gives each class its own slots: one, and slots for the same share of the other units in every class.
func (s *store) share() error {
	least := int64(0)
	for _, c := range s.classes {
		least += c.bytes
	}
	room := s.forSlots - least
	if room < 0 {
		return fmt.Errorf("%d MiB of memory have no room for the %d MiB of a unit of each size; give more memory", s.forSlots>>20, least>>20)
	}
	others := max(1, s.use.OnDisk-least)
	for _, c := range s.classes {
		c.own = 1 + int(float64(c.units-1)*float64(min(room, others))/float64(others))
	}
	return nil
}

// classify adds b to the class of bundles with its sizes.
func (s *store) classify(b *bundle) {
	sizes := b.sizes()
	i := slices.IndexFunc(s.classes, func(c *class) bool { return slices.Equal(c.sizes, sizes) })
	if i < 0 {
		i = len(s.classes)
		s.classes = append(s.classes, &class{sizes: sizes, bytes: b.bytes()})
	}
	b.class = s.classes[i]
	b.class.units += b.units
	b.class.bundles = append(b.class.bundles, b)
	s.use.Units += int64(b.units)
	s.use.OnDisk += int64(b.units) * b.class.bytes
}

// allocate makes the class's slots: its own, and those that share the memory of that many whole layers.
func (c *class) allocate(d *Device, wholes int) error {
	rows := c.own + wholes*c.largest()
	c.slots = min(c.units, rows)
	for _, size := range c.sizes {
		slab, err := d.mem.bytes(rows * size)
		if err != nil {
			return err
		}
		c.slabs = append(c.slabs, slab)
	}
	c.cache = residency.NewCache(c.slots, residency.TunedCache())
	for _, b := range c.bundles {
		b.first = c.cache.Add(b.units)
		for u, share := range b.prior {
			c.cache.Expect(b.first+int32(u), share)
		}
		for i, p := range b.parts {
			m, w := *p.m, *mem(p.m)
			m.Rows, w.data, w.disk = c.slots*p.src.Rows, c.slabs[i], nil
			if b.byNeuron() {
				w.slots = b
			}
			m.Mem = &w
			b.slotted = append(b.slotted, m)
		}
		b.table.Held = c.slots
	}
	return nil
}

// warm reads units into the slots: those with the most expected uses, and among equal ones some of every layer.
func (s *store) warm(ctx context.Context, progress func(done, total int64)) error {
	type candidate struct {
		b     *bundle
		unit  int32
		share float64
	}
	var list []candidate
	for _, c := range s.classes {
		var of []candidate
		for _, b := range c.bundles {
			for u := range b.units {
				share := 0.0
				if b.prior != nil {
					share = b.prior[u]
				}
				of = append(of, candidate{b, int32(u), share})
			}
		}
		slices.SortStableFunc(of, func(x, y candidate) int {
			return cmp.Or(cmp.Compare(y.share, x.share), cmp.Compare(x.unit, y.unit))
		})
		list = append(list, of[:c.slots]...)
	}
	slices.SortStableFunc(list, func(x, y candidate) int { // as the file has them
		return cmp.Or(cmp.Compare(x.b.parts[0].disk.Offset, y.b.parts[0].disk.Offset), cmp.Compare(x.unit, y.unit))
	})
	under, done := 0, int64(0)
	for i := 0; i < len(list) || under > 0; {
		if err := ctx.Err(); err != nil && i < len(list) {
			list = list[:i]
			continue
		}
		if i < len(list) && under < 2*readDepth {
			y := list[i]
			slot, _, ok := y.b.class.cache.Admit(y.b.first + y.unit)
			if !ok {
				return errors.New("the units' slots are all held") // they are as many as the list has
			}
			s.read(y.b, y.unit, slot, false).holds = true
			y.b.fresh[y.unit] = false
			i++
			under++
			continue
		}
		s.flush()
		n := s.await(max(1, under/8))
		if s.failed != nil {
			return s.failed
		}
		under -= n
		for _, l := range s.finished {
			done += l.b.class.bytes
		}
		if progress != nil {
			progress(done, s.use.Kept)
		}
	}
	return ctx.Err()
}
