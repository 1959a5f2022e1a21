package measure

import (
	"context"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Machine is what a machine was measured or described to be. Bandwidths are bytes per second.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`  // physical ones that this process may use
	Memory uint64 `json:"memory"` // bytes of RAM that this process may use
	RAM    []RAM  `json:"ram"`    // by rising number of threads
	Cards  []Card `json:"cards"`

	// Of all cores; 0 where it was not measured.
	Products float64 `json:"products,omitempty"` // multiplications and additions a second of a prompt's products in Q4_0
	Packs    float64 `json:"packs,omitempty"`    // bytes a second that are packed to be sent to a card
}

// RAM is what memory gives to a number of threads.
type RAM struct {
	Threads int     `json:"threads"`
	Stream  float64 `json:"stream"` // read in order
	Rows    []Rows  `json:"rows"`   // read on scattered rows, by rising size
}

// Rows is what memory gives on scattered rows of one size.
type Rows struct {
	Bytes int     `json:"bytes"`
	Read  float64 `json:"read"`
}

// rowSizes are the rows of 4096 elements in Q4_0 and in F16: the usual neuron's.
func rowSizes() []int { return []int{4096 / 32 * 18, 4096 * 2} }

// Best is the number of threads that reads fastest, and what it gets.
func (m *Machine) Best() RAM {
	return slices.MaxFunc(m.RAM, func(a, b RAM) int {
		switch {
		case a.Stream < b.Stream:
			return -1
		case a.Stream > b.Stream:
			return 1
		}
		return 0
	})
}

// Row is what scattered rows of the given size get: that of the nearest size that was measured, Stream where none was.
func (r RAM) Row(bytes int) float64 {
	best, v := -1, r.Stream
	for _, row := range r.Rows {
		if d := max(row.Bytes-bytes, bytes-row.Bytes); best < 0 || d < best {
			best, v = d, row.Read
		}
	}
	return v
}

// Check reports figures that no machine has.
func (m *Machine) Check() error {
	if len(m.RAM) == 0 {
		return fmt.Errorf("ram: no bandwidth")
	}
	for _, r := range m.RAM {
		if r.Threads < 1 || !plausible(r.Stream) {
			return fmt.Errorf("ram: %g bytes/s with %d threads is no bandwidth", r.Stream, r.Threads)
		}
		for _, row := range r.Rows {
			if row.Bytes < 1 || !plausible(row.Read) {
				return fmt.Errorf("ram: %g bytes/s on rows of %d bytes is no bandwidth", row.Read, row.Bytes)
			}
		}
	}
	for _, v := range []float64{m.Products, m.Packs} {
		if v != 0 && !plausible(v) {
			return fmt.Errorf("%g multiplications or packed bytes a second are nothing that cores do", v)
		}
	}
	for _, c := range m.Cards {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

// plausible tells bandwidths from figures in another unit and from nonsense.
func plausible(v float64) bool { return v >= 1e6 && v <= 1e15 }

// threadCounts are one, half of and all cores.
func threadCounts(cores int) []int {
	return slices.Compact([]int{1, max((cores+1)/2, 1), max(cores, 1)})
}

// steps is how many figures RAM and cores take.
func steps(cores int) int { return len(threadCounts(cores))*(1+len(rowSizes())) + 2 }

// measureRAM fills in m.RAM; it takes about four seconds.
func (m *Machine) measureRAM(ctx context.Context, step func()) error {
	buf, release, err := filled()
	if err != nil {
		return err
	}
	defer release()
	for _, n := range threadCounts(m.Cores) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := RAM{Threads: n}
		if r.Stream, err = stream(buf, n); err != nil {
			return err
		}
		step()
		for _, bytes := range rowSizes() {
			r.Rows = append(r.Rows, Rows{bytes, scattered(buf, n, bytes)})
			step()
		}
		m.RAM = append(m.RAM, r)
	}
	return nil
}

// Take measures the machine with its cards. progress is called with the steps done, of all of them. A card that cannot be measured keeps
// its reason in Lacks.
func Take(ctx context.Context, found []Found, progress func(done, total int64)) (Machine, error) {
	m := this(found)
	total, done := int64(steps(m.Cores)+cardSteps*len(found)), int64(0)
	step := func() {
		if done++; progress != nil {
			progress(done, total)
		}
	}
	if err := m.measureRAM(ctx, step); err != nil {
		return m, err
	}
	if err := m.measureProducts(step); err != nil {
		return m, err
	}
	for i := range found {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		m.Cards[i].take(&found[i], step)
	}
	return m, m.Check()
}

// this is the machine before it is measured.
func this(found []Found) Machine {
	cpu := hw.Detect()
	m := Machine{CPU: cpu.Name, Cores: cpu.Usable}
	if mem, err := hw.ReadMemory(); err == nil {
		m.Memory = mem.Total
	}
	for _, f := range found {
		m.Cards = append(m.Cards, Card{ID: f.ID})
	}
	return m
}

// Placement is the machine as placement sees it, for neurons whose rows have rowBytes: RAM with the number of threads that reads
// fastest, and the cards that may be used, whole. Budgets are for the caller to set.
func (m *Machine) Placement(rowBytes int) placement.Machine {
	best := m.Best()
	p := placement.Machine{Stream: best.Stream, Rows: min(best.Row(rowBytes), best.Stream)}
	for _, c := range m.Cards {
		if c.Usable() {
			p.HandOff = max(p.HandOff, c.HandOff)
			p.GPUs = append(p.GPUs, placement.GPU{Name: c.Name, Read: c.Read, Launch: c.Launch, Budget: c.Memory})
		}
	}
	return p
}
