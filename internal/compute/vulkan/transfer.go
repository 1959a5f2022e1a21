package vulkan

import (
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// stage is host memory that uploads pass through, in two halves: while one is copied to the device, the other is
// filled.
type stage struct {
	d       *Device
	halves  [2]driver.View
	command [2]vk.CommandBuffer
	running [2]uint64 // number of the half's last submission
	next    int       // half
}

// stageHalf is the size of a half: large enough for full transfer bandwidth.
const stageHalf = 4 << 20

func (s *stage) init() error {
	if s.halves[0].Slab != nil {
		return nil
	}
	for i := range s.halves {
		var err error
		if s.halves[i], err = s.d.mem.Alloc(driver.Staged, stageHalf); err != nil {
			return err
		}
		if s.command[i], err = s.d.gpu.VK.AllocateCommandBuffer(s.d.gpu.Pool); err != nil {
			return s.d.gpu.Fail(err)
		}
	}
	return nil
}

func (s *stage) free() {
	for _, c := range s.command {
		if c != 0 {
			s.d.gpu.VK.FreeCommandBuffer(s.d.gpu.Pool, c)
		}
	}
}

// upload streams rows of unit bytes to v: fill writes the rows from first on to dst, as many as fit. What
// runs later finds them there; fill is not called after upload returned.
func (d *Device) upload(v driver.View, unit int64, fill func(dst []byte, first int)) error {
	if d.gpu.Counts() {
		return nil
	}
	if err := d.stage.init(); err != nil {
		return err
	}
	if unit > stageHalf {
		return fmt.Errorf("a row of %s is more than the %s that are uploaded at once", driver.Mebibytes(unit), driver.Mebibytes(stageHalf))
	}
	step := stageHalf / unit * unit
	for at := int64(0); at < v.Size; at += step {
		size := min(step, v.Size-at)
		if err := d.stage.copy(v.Slice(at, size), func(dst []byte) { fill(dst, int(at/unit)) }); err != nil {
			return err
		}
		if d.uploaded != nil {
			d.uploaded(size)
		}
	}
	return nil
}

// copy fills a half and queues its copy to v.
func (s *stage) copy(v driver.View, fill func(dst []byte)) error {
	i := s.next
	s.next = 1 - i
	if err := s.d.gpu.Wait(s.running[i]); err != nil {
		return err
	}
	from := s.halves[i].Slice(0, v.Size)
	fill(from.Host())
	r := &recorder{d: s.d}
	r.beginWith(s.command[i])
	r.copy(v, from)
	r.end()
	if r.err != nil {
		return r.err
	}
	var err error
	s.running[i], err = s.d.gpu.Submit(driver.Command{Buffer: s.command[i]})
	return err
}

// readback is host memory for what Read returns, until the next Run.
type readback struct {
	d     *Device
	rows  map[place]driver.View
	known map[string][]readTensor // tensors that were read after segments, by name
	bytes exchange
}

// place is the source of a read: a whole tensor's memory, or one row.
type place struct {
	t        *tensor
	at, size int64
}

// Tensors of at most readWhole bytes are read as a whole, because the next row is likely to be asked for too. What is
// read after a segment has run is copied by the segment itself from then on, up to copyMost bytes: the copy needs no
// submission of its own.
const (
	readWhole = 1 << 20
	copyMost  = 4 << 20
)

// readTensor is a tensor that was read: its first row, or the whole tensor in one place.
type readTensor struct {
	place
	outputs bool // rows are compute.Tensor.Outputs
}

// restart gives up what Read returned.
func (b *readback) restart() {
	clear(b.rows)
	b.bytes.restart()
}

// Read returns row i of t, counted from the last step's first row. It is valid until the next Run. An error leaves the
// device unable to compute.
func (d *Device) Read(t compute.Tensor, i int) ([]float32, error) {
	if d.gpu.Counts() {
		return make([]float32, t.Cols), nil
	}
	m := t.Mem.(*tensor)
	if t.Outputs {
		i += d.leadOut
	} else {
		i += d.lead
	}
	row := place{m, 4 * int64(i) * int64(t.Cols), 4 * int64(t.Cols)}
	all := row
	if m.Size <= readWhole {
		all = place{m, 0, m.Size}
	}
	v, ok := d.seen.rows[all]
	if !ok {
		var err error
		if v, err = d.seen.fetch(all, t.Outputs); err != nil {
			if d.gpu.Lost == nil {
				d.gpu.Fail(err)
			}
			return nil, d.gpu.Lost
		}
	}
	return numbers(v.Slice(row.at-all.at, row.size).Host()), nil
}

func (b *readback) fetch(p place, outputs bool) (driver.View, error) {
	v, err := b.bytes.take(p.size)
	if err == nil {
		err = b.d.once(func(r *recorder) { r.copy(v, p.t.Slice(p.at, p.size)) })
	}
	if err != nil {
		return v, err
	}
	b.rows[p] = v
	if s := b.d.played; s != nil {
		if r := (readTensor{place{p.t, 0, p.size}, outputs}); !slices.Contains(b.known[s.name], r) {
			b.known[s.name] = append(b.known[s.name], r)
		}
		s.stale = s.stale || slices.Contains(b.wanted(s), p)
	}
	return v, nil
}

// wanted returns what a recording of s copies for the host: the tensors that were read after other segments of the same
// name, with whichever rows the step has.
func (b *readback) wanted(s *segment) (list []place) {
	total := int64(0)
	for _, r := range b.known[s.name] {
		rows, p := max(1, s.params.rows), r.place
		if r.outputs {
			rows = s.params.out
		}
		for i := range rows {
			if p.at = int64(i) * p.size; total+p.size > copyMost || p.at+p.size > p.t.Size {
				break
			}
			list = append(list, p)
			total += p.size
		}
	}
	return list
}
