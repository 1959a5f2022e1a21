// Package planreport shows where a plan puts a model's parts and how fast that should be, as a table, a line, JSON, or
// a page with pictures. It also prints plans of published machines and models.
package planreport

import (
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// Report is a plan with the alternatives that it is compared to.
type Report struct {
	b        modelcost.Cost
	on       placement.Machine
	memory   uint64   // the machine's memory; 0: unknown
	doubts   []string // doubts about the machine's figures
	timed    bool     // no GPU is software, so times have a meaning
	plan     placement.Plan
	inRAM    placement.Plan // everything in RAM, computed by the CPU
	byLayers placement.Plan // as many dense layers as fit the GPUs
	whole    int            // number of these layers
	ways     []planner.Way  // ways to place a model with experts
	follows  bool           // plan is the one in which experts follow the text
	Tower    string         // about the memory of the vision tower; empty: there is none
	disk     string         // origin of the disk's figures
	further  int            // the GPU of the MTP layer, if it drafts; -1: RAM
}

// New reports p's plan, together with the alternatives.
func New(p *planner.Planner) (*Report, error) {
	b, m := *p.Cost(), p.Machine()
	s, err := p.Solve()
	if err != nil {
		return nil, err
	}
	on := s.Machine
	d := &Report{b: b, on: on, memory: p.Memory(), doubts: m.Doubts(), timed: m.Predictable(), plan: s.Plan, disk: m.DiskSource()}
	d.on.GPUs = slices.Clone(on.GPUs)
	for j := range d.on.GPUs {
		if m.Software(j) {
			d.on.GPUs[j].Read = 0
		}
	}
	none := on
	none.GPUs = nil
	if d.inRAM, err = placement.Solve(b.Model, none); err != nil {
		return nil, err
	}
	mapped := on // in other programs the system decides what of a file is in memory
	mapped.Disk, mapped.RAM = placement.Rate{}, 0
	if d.whole, d.byLayers, err = placement.MostWhole(b.Model.Dense(), mapped); err != nil {
		return nil, err
	}
	if d.ways, err = planner.Ways(&b, &s, d.memory); err != nil {
		return nil, err
	}
	follow, follows, err := p.Following(&s)
	if d.follows = follows; follows {
		s = follow
		d.plan, d.b.Model = s.Plan, b.Following()
		for i := range d.ways {
			if y := &d.ways[i]; y.Name == planner.ThisPlan {
				y.Name = "experts stay where they are"
			}
		}
	}
	if err != nil {
		return nil, err
	}
	var vram []int64
	if d.further, vram, err = p.Further(&s, d.follows); vram != nil {
		d.plan.VRAM = vram
	}
	return d, err
}

// ram returns the bytes that the plan has in RAM.
func (d *Report) ram() int64 {
	ram := d.plan.RAM + d.b.Rest
	if y := &d.b.Further; d.further >= 0 {
		ram -= y.Bytes() + y.Expanded
	}
	return ram
}

// guessing returns the place of the MTP layer and its bytes there. ok reports whether there is one that drafts.
func (d *Report) guessing() (place string, vram, ram int64, ok bool) {
	y := &d.b.Further
	if d.further >= 0 {
		return fmt.Sprintf("GPU %d", d.further), y.Bytes(), 0, true
	}
	ram = y.Bytes() + y.Expanded
	return "RAM", 0, ram, ram > 0
}

// layers returns the plan without the head, which is its last layer.
func (d *Report) layers() []placement.Priced { return d.plan.Layers[:len(d.plan.Layers)-1] }

// notes returns remarks without a column in the table.
func (d *Report) notes() []string {
	notes := slices.Clip(d.b.Assumed)
	if d.Tower != "" {
		notes = append(notes, d.Tower)
	}
	if d.plan.Disk.Lacks > 0 {
		notes = append(notes, d.lacks())
	} else if d.OnDisk() {
		notes = append(notes, d.tiers())
	} else if ram := d.ram(); d.memory > 0 && uint64(ram) > d.memory {
		notes = append(notes, fmt.Sprintf("This does not fit: %.1f GiB lie in RAM, and the machine has %.1f. %s", quantity.GiB(ram), quantity.GiB(d.memory), d.mapped(ram)))
	}
	if len(d.on.GPUs) == 0 {
		notes = append(notes, "No GPU: everything is computed on the processor. --gpu 24:1008 adds a GPU of 24 GiB and 1008 GB/s to the plan.")
	}
	for _, g := range d.on.GPUs {
		if g.Read == 0 {
			notes = append(notes, g.Name+" is software on the processor: its speed is not predicted.")
		}
	}
	for _, s := range d.doubts {
		notes = append(notes, "The machine's figures are doubtful: "+s+". powerinfer doctor --again measures them anew.")
	}
	return notes
}

// layersInRAM returns the number of layers that are on no GPU.
func (d *Report) layersInRAM() (n int) {
	for _, y := range d.layers() {
		if !y.Attention && y.Bound == 0 {
			n++
		}
	}
	return n
}

// mapped says what happens if ram bytes do not fit into RAM.
func (d *Report) mapped(ram int64) string {
	if n := d.layersInRAM(); n > 0 && (len(d.on.GPUs) == 0 || d.b.ExpertsUsed == 0) {
		const held = 3 // layers that are computed or read at the same time
		read := min(float64(ram), float64(ram)-float64(d.memory)+held*float64(ram)/float64(n))
		says := fmt.Sprintf("Every step reads the last layers from the disk, %.0f MB", read/1e6)
		if !d.timed {
			return says + "."
		}
		return fmt.Sprintf("%s: %.2f tokens/s at %.0f GB/s, which is assumed.", says, 1/max(d.plan.Seconds, read/planner.AssumedDisk), planner.AssumedDisk/1e9)
	}
	read, _ := d.b.Model.Reads(&d.plan)
	disk := planner.FromDisk(ram, read, d.memory)
	says := fmt.Sprintf("With --no-repack the file is mapped, and a token reads %.0f MB of it from the disk", disk/1e6)
	if !d.timed {
		return says + "."
	}
	return fmt.Sprintf("%s: %.2f tokens/s at %.0f GB/s, which is assumed.", says, 1/(d.plan.Seconds+disk/planner.AssumedDisk), planner.AssumedDisk/1e9)
}
