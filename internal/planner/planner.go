// Package planner decides which processor stores and computes which part of a model, and opens the processors. It
// decides again if a GPU fails or has less memory than it reported. No other package above package model knows devices.
package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Processor says how the CPU computes. Zero values mean defaults.
type Processor struct {
	Threads      int               // for generation; 0: physical cores, but for one where a GPU works, too
	ThreadsBatch int               // for prompts; 0: as Threads
	Kernels      string            // for generation, which all give the same text: auto (measured while loading), usual, or a name that Note was told; empty: auto
	Note         func(line string) // is told in a line for each type of weights which kernel was chosen; may be nil
}

// GPUs says which GPUs a model is computed on, and what is placed there. Zero values leave it to the planner.
type GPUs struct {
	Devices      string   // GPUs by name or number, separated by commas, or none; empty: all GPUs, or the best of other devices
	VRAM         []int64  // bytes of memory to use, of each GPU or of all alike; nil: what is free, less a reserve
	Layers       *int     // number of whole layers on GPUs, the last ones, the head counted as one; negative: all; nil: attention and hot neurons come first
	Tensors      []string // where tensors are stored, each PATTERN=BUFFER as an item of llama.cpp's --override-tensor; the first that matches a name holds
	KVInRAM      bool     // keys and values stay in RAM, and attention is computed there, as with llama.cpp's --no-kv-offload
	StreamTokens *int     // length of a prompt's step from which on weights in RAM are sent to the GPU; 0: never; nil: where that is faster
	MoECache     *int64   // bytes of GPU memory, at most, for experts that follow the text, which RAM holds, too, unless experts stay on the disk; 0: experts stay; nil: they follow where it should pay
	ReadAhead    *bool    // whether the CPU reads neurons ahead while it waits for GPUs; nil: where the plan expects GPUs to wait for it
}

// KernelsAuto is Processor.Kernels' default.
const KernelsAuto = cpu.KernelsAuto

// Options are the choices of where a model is computed. Zero values leave them to the planner.
type Options struct {
	Processor
	GPUs
	HeadInRAM bool                              // a draft head stays in RAM
	Lock      bool                              // the CPU keeps weights out of swap (mlock)
	Model     modelcost.Options                 // how the model is planned for: context, largest step, sparse mode, statistics
	RAM       RAM                               // what the model may take in RAM
	Trace     *trace.Log                        // keeps when each processor did what; may be nil
	Messages  func(string)                      // switches the GPUs' validation layer on and is told what it finds; nil: it is off
	Notice    func(string)                      // is told in a line what the user should know, as why a GPU is given up; may be nil
	Measuring func(done, total int64)           // is told how far measuring the machine is, which is done once; may be nil
	Compiling func(gpu string, done, total int) // is told how many of a GPU's shaders are compiled, on any thread; may be nil
}

// asked reports whether the user said something of GPUs.
func (o *Options) asked() bool { return o.VRAM != nil || o.Layers != nil && *o.Layers != 0 }

func (o *Options) notice(format string, args ...any) {
	if o.Notice != nil {
		o.Notice(fmt.Sprintf(format, args...))
	}
}

// Planner opens what a model is computed on. It implements engine.Devices. One goroutine uses it at a time: the
// engine's, while a model is loaded or a step runs.
type Planner struct {
	o       Options
	machine *Machine // nil: nothing can be planned anew
	cost    modelcost.Cost
	share   float64          // the share of the GPUs' budgets that is used
	tries   int              // how often it was lowered
	failed  []bool           // [machine's GPUs] nothing more goes there
	used    []int            // [plan's GPUs] their numbers among the machine's
	plan    *Plan            // nil: the processor alone
	planned bool             // plan is what Open opens
	solved  bool             // at least once
	still   *Solution        // in which experts stay; nil: it is not known yet
	follow  *Solution        // in which experts follow the text; nil likewise
	err     error            // error of planning, which Open returns
	gpus    []*vulkan.Device // [plan's GPUs] as opened last
	alone   func() *Planner  // plans for a machine without GPUs, to tell its rates; nil, or returns nil: they are unknown
}

// CPU has the processor compute alone.
func CPU(p Processor) *Planner { return &Planner{o: Options{Processor: p}, planned: true} }

// Fixed opens the GPUs of plan and the processor, and has nothing else to try. A nil plan is the processor alone.
func Fixed(plan *Plan, o Options) *Planner { return &Planner{o: o, plan: plan, planned: true} }

// New chooses among this machine's GPUs for the model in f. Where there is none it is the processor alone. Measuring
// the machine, which takes seconds and is done once, ends with ctx.
func New(ctx context.Context, f *gguf.File, o Options) (*Planner, error) {
	m, err := gpusOf(ctx, &o)
	if err != nil {
		return nil, err
	}
	if m == nil {
		if _, err := modelcost.ParseOverrides(o.Tensors, nil); err != nil {
			return nil, err
		}
		p := Fixed(nil, o)
		p.alone = sync.OnceValue(func() *Planner { return alone(f, o) })
		return p, nil
	}
	cost, err := modelcost.Of(f, o.Model)
	if err != nil {
		return nil, err
	}
	m.KnowDisk(f.Path)
	return With(m, cost, o), nil
}

// With plans for a machine and a model that may both be described. Options.Devices and Options.Model are not read.
func With(m *Machine, cost modelcost.Cost, o Options) *Planner {
	return &Planner{o: o, machine: m, cost: cost, share: 1, failed: make([]bool, len(m.gpus))}
}

// Anew returns a planner like p that has not planned yet, for use once more of the machine is measured. It does not
// repeat p's notices.
func (p *Planner) Anew() *Planner {
	o := p.o
	o.Notice = nil
	return With(p.machine, p.cost, o)
}

// Machine returns the machine that is planned for; nil: nothing can be planned anew.
func (p *Planner) Machine() *Machine { return p.machine }

// Cost returns the model that is planned for.
func (p *Planner) Cost() *modelcost.Cost { return &p.cost }

// Memory returns the bytes of RAM that the model may take with all of it in memory; 0: it is not known.
func (p *Planner) Memory() uint64 {
	m := p.machine.Memory
	if b := p.o.RAM.Whole; b > 0 && (m == 0 || uint64(b) < m) {
		m = uint64(b)
	}
	return m
}

// Plan returns what Open opened last, or will open; nil: the processor alone.
func (p *Planner) Plan() (*Plan, error) {
	p.choose()
	return p.plan, p.err
}

// choose plans, unless what is planned still holds.
func (p *Planner) choose() {
	if !p.planned {
		p.planned = true
		p.plan, p.used, p.err = p.place()
	}
}

// Layout implements engine.Devices.
func (p *Planner) Layout() (placement.Layout, error) {
	plan, err := p.Plan()
	return plan.Layout(), err
}

// Open opens the plan's GPUs and the CPU, which keeps unitCache bytes of the experts that stay on the disk.
func (p *Planner) Open(ctx context.Context, unitCache int64) (compute.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	plan, err := p.Plan()
	if err != nil {
		return nil, err
	}
	host, err := p.o.openCPU(plan != nil && plan.Bytes > 0, unitCache) // generation does not wait for GPUs that only prompts use
	if err == nil {
		host.Trace(p.o.Trace)
	}
	if err != nil || plan == nil {
		p.gpus = nil
		return host, err
	}
	d, gpus, err := plan.open(host, &p.o)
	if err != nil {
		host.Close()
		return nil, err
	}
	if p.cost.File != nil {
		foresee(&p.cost, plan, gpus)
	}
	p.gpus = gpus
	return d, nil
}

// A GPU that has less memory than it reported is tried again with a smaller share of it, smallerTries times. Then the
// other devices go on without it.
const (
	smallerTries = 3
	smaller      = 0.85
)

// After plans anew where err is a GPU's: with less of the GPUs' memory, or without the GPU. It reports whether it did.
func (p *Planner) After(err error) bool {
	var failed *hybrid.GPUError
	if p.plan == nil || p.machine == nil || !errors.As(err, &failed) {
		return false
	}
	p.planned, p.still, p.follow = false, nil, nil
	var full *vulkan.OutOfMemory
	if errors.As(err, &full) && p.tries < smallerTries {
		p.tries++
		p.share *= smaller
		p.o.notice("%v; trying with less", full)
		return true
	}
	several := len(p.plan.GPUs) > 1
	p.failed[p.used[failed.GPU]] = true
	p.choose()
	if p.err != nil {
		p.plan, p.err = nil, nil // the processor can always go on
	}
	if several && p.plan == nil {
		p.o.notice("%v; going on without GPUs", failed)
	} else {
		p.o.notice("%v; going on without it", failed)
	}
	return true
}

// Usage is the use of a GPU's memory, in bytes.
type Usage struct {
	Name                  string
	Used, Planned, Budget int64
	Note                  string // what a user may want to know of the GPU
}

// Usage returns the usage of the opened GPUs. It is empty if there are none, or none any more. No step may be running.
func (p *Planner) Usage() []Usage {
	var all []Usage
	for j, d := range p.gpus {
		plan := &p.plan.GPUs[j]
		all = append(all, Usage{Name: d.Name(), Used: d.Used(), Planned: plan.Planned, Budget: plan.Budget, Note: d.Note()})
	}
	return all
}

// place plans for what is left of the machine's GPUs; nil where nothing is to be put there. used are the GPUs that the
// plan has a use for.
func (p *Planner) place() (plan *Plan, used []int, err error) {
	s, err := p.Solve()
	if err != nil {
		return nil, nil, err
	}
	follow := false
	if f, pays, err := p.Following(&s); err != nil {
		return nil, nil, err
	} else if pays {
		s, follow = f, true
	}
	if plan, err = p.with(&s, follow); err != nil {
		return nil, nil, err
	}
	for j, g := range p.machine.gpus {
		if !slices.Contains(p.used, j) && !p.failed[j] && (p.o.Devices != "" || p.o.VRAM != nil) && p.o.Layers == nil {
			p.o.notice("nothing of the model is worth its place within %.0f MiB of %s", mib(s.Machine.GPUs[j].Budget), g.name)
		}
	}
	if len(plan.GPUs) == 0 {
		return nil, nil, nil
	}
	return plan, p.used, nil
}

// with returns the plan of a solution, in which experts follow the text or stay, and sets which GPUs it has a use for.
func (p *Planner) with(s *Solution, follow bool) (plan *Plan, err error) {
	m := p.machine
	plan, p.used = onto(s.Plan.Places(), s.Plan.VRAM, s.Streams, ahead(p.o.ReadAhead, &s.Plan))
	if m.Predictable() {
		plan.Rate, plan.Priced = 1/s.Plan.Seconds, s.Plan.Layers
	}
	for i, j := range p.used {
		plan.GPUs[i].Device, plan.GPUs[i].Budget = m.gpus[j].device, s.Machine.GPUs[j].Budget
	}
	for _, y := range s.Plan.Layers {
		plan.Bytes += y.VRAM
	}
	if len(plan.GPUs) == 0 {
		return plan, p.sendAll(plan, s)
	}
	if follow {
		p.addSlots(plan, s)
	}
	return plan, p.addFurther(plan)
}

// sendAll makes a GPU compute prompts for a model that is stored in RAM alone, by sending it all weights. It takes the
// first GPU that makes prompts faster and has room for the buffers.
func (p *Planner) sendAll(plan *Plan, s *Solution) error {
	for j, g := range p.machine.gpus {
		stream, budget := s.Streams[j], s.Machine.GPUs[j].Budget
		if p.failed[j] || stream.Tokens == 0 || stream.Tokens > p.cost.Step {
			continue
		}
		with := *plan
		with.GPUs = []GPU{{Device: g.device, Budget: budget, Stream: stream}}
		bytes, err := used(&p.cost, &with, []vulkan.Info{g.info})
		if err != nil {
			return err
		}
		if with.GPUs[0].Planned = bytes[0]; bytes[0] <= budget {
			plan.GPUs, p.used = with.GPUs, []int{j}
			return nil
		}
	}
	return nil
}

// Further returns the GPU that has the MTP layer in the plan of s, with experts that follow the text or stay, and the
// bytes that each GPU then uses. It returns -1 and nil if the layer is in RAM, or predicts nothing.
func (p *Planner) Further(s *Solution, follow bool) (gpu int, vram []int64, err error) {
	if p.cost.Further.Bytes() == 0 {
		return -1, nil, nil
	}
	plan, err := p.with(s, follow)
	if err != nil {
		return -1, nil, err
	}
	if layout := plan.Layout(); !layout.Further() {
		return -1, nil, nil
	}
	vram = make([]int64, len(s.Plan.VRAM))
	for i, j := range p.used {
		vram[j] = plan.GPUs[i].Planned
	}
	return p.used[plan.Places[len(plan.Places)-1].Tier], vram, nil
}

// addFurther puts the MTP layer on the head's GPU, which has the last layer's hidden states, if the plan leaves room
// for it there and the user did not choose what is on GPUs.
func (p *Planner) addFurther(plan *Plan) error {
	places, head := plan.places(), len(plan.Places)-1
	few := p.o.Layers != nil && *p.o.Layers >= 0 && *p.o.Layers <= head
	if p.cost.Further.Bytes() == 0 || few || p.o.KVInRAM || p.o.HeadInRAM || len(p.o.Tensors) > 0 || !places[head].Attention || places[head].Tier != places[head-1].Tier {
		return nil
	}
	with := *plan
	with.Places = slices.Clone(plan.Places)
	with.Places[head].Further = true
	var infos []vulkan.Info
	for _, j := range p.used {
		infos = append(infos, p.machine.gpus[j].info)
	}
	bytes, err := used(&p.cost, &with, infos)
	if err != nil {
		return err
	}
	for i, n := range bytes {
		if n > plan.GPUs[i].Budget {
			return nil
		}
	}
	plan.Places = with.Places
	plan.Bytes += p.cost.Further.Bytes()
	for i, n := range bytes {
		plan.GPUs[i].Planned = n
	}
	return nil
}

// leastLate is the share of a token's time that GPUs must wait for the processor's neurons for it to pay that it reads
// ahead: the GPUs guess which, and that takes them about a hundredth.
const leastLate = 0.03

// ahead reports whether the processor reads ahead.
func ahead(asked *bool, p *placement.Plan) hybrid.Ahead {
	switch {
	case asked != nil && *asked:
		return hybrid.Always
	case asked != nil || p.Late() < leastLate*p.Seconds:
		return hybrid.Never
	}
	return hybrid.IfIdle
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func gib(n int64) float64 { return float64(n) / (1 << 30) }
