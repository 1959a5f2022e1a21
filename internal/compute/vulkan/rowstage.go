package vulkan

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// rowStage is host memory that rows pass through on their way into matrices, and the copies to make from there.
type rowStage struct {
	d       *Device
	memory  driver.View
	at      int64 // bytes in use
	copies  []stagedCopy
	command vk.CommandBuffer
	sent    uint64 // number of the last copy; 0: none
}

type stagedCopy struct{ to, from driver.View }

// StagedBytes returns the host memory that n rows of m pass through, at most.
func (d *Device) StagedBytes(m *compute.Matrix, n int) (bytes int64) {
	for _, r := range rowRegions(m.Type, mem(m).units) {
		bytes += int64(n) * int64(r.size)
	}
	return bytes
}

// RowStage allocates host memory of that many bytes for rows.
func (d *Device) RowStage(bytes int64) (compute.RowStage, error) {
	s := &rowStage{d: d}
	var err error
	if s.memory, err = d.mem.Alloc(driver.Staged, bytes); err == nil && !d.gpu.Counts() {
		if s.command, err = d.gpu.VK.AllocateCommandBuffer(d.gpu.Copies.Pool); err != nil {
			err = d.gpu.Fail(err)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Put stages rows for m, from row first on.
func (s *rowStage) Put(m *compute.Matrix, first int, src compute.Source) {
	w, fileRow := mem(m), src.Type.RowBytes(src.Cols)
	regions := rowRegions(m.Type, w.units)
	for i := range w.parts {
		p := &w.parts[i]
		from, to := max(first, p.first), min(first+src.Rows, p.first+p.rows)
		if from >= to {
			continue
		}
		for k, r := range regions {
			size := int64(r.size)
			staged := s.memory.Slice(s.at, int64(to-from)*size)
			s.at += staged.Size
			for row := from; row < to; row++ {
				r.pack(staged.Slice(int64(row-from)*size, size).Host(), src.Data[(row-first)*fileRow:][:fileRow])
			}
			s.copies = append(s.copies, stagedCopy{p.memory.Slice(p.regions[k]+int64(from-p.first)*size, staged.Size), staged})
		}
	}
}

// CopiesBeside implements hybrid.GPU.
func (d *Device) CopiesBeside() bool { return d.beside }

// Send copies at most most bytes of the staged rows to the device, if the ones before have arrived.
func (s *rowStage) Send(most int64) (sent int64, arrived bool, err error) {
	g := s.d.gpu
	if g.Lost != nil {
		return 0, false, g.Lost
	}
	if s.sent > 0 && !g.Copies.Ran(s.sent) {
		return 0, false, nil
	}
	if len(s.copies) == 0 {
		s.at, s.sent = 0, 0
		return 0, true, nil
	}
	if err := g.VK.Begin(s.command, &s.d.bindings.begin); err != nil {
		return 0, false, g.Fail(err)
	}
	for len(s.copies) > 0 && sent < most {
		c := &s.copies[0]
		n := min(most-sent, c.to.Size)
		s.d.copy(s.command, c.to.Slice(0, n), c.from)
		if sent += n; n < c.to.Size {
			c.to, c.from = c.to.Slice(n, c.to.Size-n), c.from.Slice(n, c.from.Size-n)
		} else {
			s.copies = s.copies[1:]
		}
	}
	if err := g.VK.End(s.command); err != nil {
		return 0, false, g.Fail(err)
	}
	s.sent, err = g.Copies.Submit(s.command, 0)
	return sent, false, err
}
