package planner

import (
	"cmp"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Way is a way to compute a model with experts, with the speed to expect.
type Way struct {
	Name     string
	Plan     placement.Plan
	Hits     float64 // share of the uses of experts that find them on a GPU
	VRAM     int64   // bytes on GPUs
	RAM      int64   // bytes in RAM
	ReadVRAM float64 // bytes that a token reads there
	ReadRAM  float64 // and in RAM
	ReadDisk float64 // the part of these read from the file again, because the machine has too little RAM
	Seconds  float64 // seconds of a token, reads from the file included
}

// ThisPlan is the name of the way with experts where the plan puts them.
const ThisPlan = "this plan"

// Ways returns the ways to compute a model with experts on a machine: the processor alone, llama.cpp's, the plan that
// was solved, and what the plan is where the GPU's experts follow the text, if they can. It returns none of a model
// without experts.
func Ways(b *modelcost.Cost, s *Solution, memory uint64) ([]Way, error) {
	if b.ExpertsUsed == 0 {
		return nil, nil
	}
	ours := s.Machine // has experts on the disk where RAM has no room for all
	if ours.Disk.Read == 0 {
		ours = slowed(b, s.Machine, memory)
	}
	mapped := s.Machine // leaves it to the system what of a file is in memory
	mapped.Disk, mapped.RAM = placement.Rate{}, 0
	disk := cmp.Or(s.Machine.Disk.Read, AssumedDisk)
	way := func(name string, m *placement.Model, p placement.Plan, on *placement.Machine) (Way, error) {
		err := reprice(m, on, &p)
		return wayOf(name, b, m, p, memory, disk), err
	}
	none := ours
	none.GPUs = nil
	free := b.Model.Free()
	p, err := placement.Solve(free, none)
	if err != nil {
		return nil, err
	}
	var list []Way
	add := func(w Way, err error) error {
		list = append(list, w)
		return err
	}
	if err := add(way("processor alone", &free, p, &s.Machine)); err != nil || len(s.Machine.GPUs) == 0 {
		return list, err
	}
	layers, n, p, err := placement.ExpertsInRAM(free, slowed(b, mapped, memory))
	if err != nil {
		return nil, err
	}
	if err := add(way(fmt.Sprintf("llama.cpp -ngl %d -ncmoe %d", layers, n), &free, p, &mapped)); err != nil {
		return nil, err
	}
	list = append(list, wayOf(ThisPlan, b, &b.Model, s.Plan, memory, disk))
	if b.ExpertsKnown || b.ExpertMode != model.Off {
		return list, nil
	}
	following := b.Following()
	if p, err = placement.Solve(following, ours); err != nil {
		return nil, err
	}
	w, err := way("experts follow the text", &following, p, &s.Machine)
	if w.Plan.Disk.Bytes == 0 {
		w.RAM += inBoth(&following, &p)
	}
	return append(list, w), err
}

// inBoth returns the bytes of the experts that are stored both on a GPU and in RAM: those of layers with slots.
func inBoth(m *placement.Model, p *placement.Plan) (n int64) {
	for l, y := range m.Layers {
		if at := p.Layers[l]; y.Experts && at.Bound < len(y.Units.Sometimes) {
			n += y.Units.Size * int64(at.Bound)
		}
	}
	return n
}

func wayOf(name string, b *modelcost.Cost, m *placement.Model, p placement.Plan, memory uint64, disk float64) Way {
	w := Way{Name: name, Plan: p, Hits: m.Hits(&p), RAM: p.RAM + b.Rest, Seconds: p.Seconds}
	for _, v := range p.VRAM {
		w.VRAM += v
	}
	w.ReadRAM, w.ReadVRAM = m.Reads(&p)
	if p.Disk.Bytes > 0 {
		w.ReadDisk = p.Disk.Read
		return w
	}
	w.ReadDisk = FromDisk(w.RAM, w.ReadRAM, memory)
	w.Seconds = p.Seconds + w.ReadDisk/disk
	return w
}

// slowed returns the machine as a plan is chosen for that leaves more in RAM than there is, at the least: of what is
// read there a part comes from the file.
func slowed(b *modelcost.Cost, on placement.Machine, memory uint64) placement.Machine {
	least := b.Model.Bytes() + b.Rest
	for _, g := range on.GPUs {
		least -= g.Budget
	}
	slower := FromDisk(least, 1, memory) / AssumedDisk // seconds a byte
	return on.Slower(slower)
}

// reprice gives p, which was chosen for another speed of RAM, its times on a machine.
func reprice(m *placement.Model, on *placement.Machine, p *placement.Plan) error {
	priced, err := placement.Price(m, on, p.Places())
	p.Layers, p.Seconds, p.RAM, p.Disk = priced.Layers, priced.Seconds, priced.RAM, priced.Disk
	return err
}

// FromDisk returns the bytes that a token reads from the file. The model has that many bytes, a token reads some of
// them, and the machine has that much memory; 0: unknown. The share of the bytes read that is missing in memory is
// assumed to be that of all bytes.
func FromDisk(bytes int64, read float64, memory uint64) float64 {
	if memory == 0 || bytes <= 0 || uint64(bytes) <= memory {
		return 0
	}
	return read * float64(uint64(bytes)-memory) / float64(bytes)
}

// card and desk describe the machines of PublishedExperts: GPUs by their makers' figures, and RAM with its bandwidth,
// with two or eight channels of DDR5.
type card struct {
	name      string
	gib       int64
	bandwidth float64
}

type desk struct {
	gib    int64
	stream float64
}

func cards() []card {
	return []card{{"RTX 4060, 8 GB", 8, 272e9}, {"RTX 4070, 12 GB", 12, 504e9}, {"RTX 4090, 24 GB", 24, 1008e9}}
}

func desks() []desk {
	const two, eight = 60e9, 200e9
	return []desk{{32, two}, {64, two}, {128, two}, {256, eight}}
}

// Expectation is what is expected of a model with experts on a described machine.
type Expectation struct {
	Model  string
	Type   string
	Card   string
	Memory int64 // GiB of RAM
	Stream float64
	Bytes  int64 // bytes of the model, keys and values included
	Ways   []Way
}

// ExpertsContext is the context that Expect plans for.
const ExpertsContext = 8192

// Expect plans for a described model with experts on cards of 8, 12 and 24 GB in machines with 32 to 256 GB of RAM.
func Expect(description string) ([]Expectation, error) {
	b, err := modelcost.Described(description, modelcost.Options{Context: ExpertsContext})
	if err != nil {
		return nil, err
	}
	var list []Expectation
	for _, c := range cards() {
		solved := map[float64]Solution{}
		for _, d := range desks() {
			m := Described(d.gib<<30, d.stream)
			m.Add(c.name, c.gib<<30, c.bandwidth)
			s, ok := solved[d.stream]
			if !ok || s.Machine.Disk.Read > 0 { // what fits is placed alike, however much RAM is left
				if s, err = With(m, b, Options{}).Solve(); err != nil {
					return nil, err
				}
				solved[d.stream] = s
			}
			ways, err := Ways(&b, &s, m.Memory)
			if err != nil {
				return nil, err
			}
			list = append(list, Expectation{Model: b.Name, Type: b.Type, Card: c.name, Memory: d.gib, Stream: d.stream, Bytes: b.Model.Bytes() + b.Rest, Ways: ways})
		}
	}
	return list, nil
}

// Described returns a described machine without GPUs. It has that many bytes of RAM, read at a bandwidth in bytes per
// second.
func Described(memory int64, stream float64) *Machine {
	return &Machine{Memory: uint64(memory), stated: placement.Machine{Stream: stream, Rows: scatteredRows * stream, HandOff: assumedHandOff}}
}
