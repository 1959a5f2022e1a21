package planner

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// Plan says which parts of a model are stored on which GPUs.
type Plan struct {
	GPUs   []GPU
	Places []compute.Place    // [layers+1], of each layer and of the head
	Bytes  int64              // bytes of weights and cache that Places put on GPUs
	Rate   float64            // tokens per second that are expected of generation, 0 where nothing is known; only told
	Priced []placement.Priced // [layers+1] a token's time as it is expected, nil where nothing is known; only told
	Ahead  hybrid.Ahead       // whether the processor reads ahead while it waits for GPUs
}

// GPU is a GPU of a plan.
type GPU struct {
	Device  string           // as vulkan.Options has it
	Budget  int64            // bytes of its memory that may be in use
	Planned int64            // bytes that are expected to be; only told
	Stream  hybrid.Streaming // which prompts weights in RAM are sent to the GPU for
	Slots   hybrid.Slots     // how experts of layers that Places gives slots follow the text
	Expert  int64            // bytes of the largest of these experts; 0: there are none
}

// Layers returns how many layers have something on a GPU.
func (p *Plan) Layers() int {
	n := 0
	for _, y := range p.Places[:max(0, len(p.Places)-1)] {
		if y.Attention || y.Predictor || y.Bound > 0 {
			n++
		}
	}
	return n
}

// Layout returns where the parts of a model are stored. A nil plan stores everything in RAM.
func (p *Plan) Layout() placement.Layout {
	if p == nil {
		return placement.Layout{}
	}
	y := placement.Layout{Places: p.places(), Bytes: p.Bytes}
	for i := range p.GPUs {
		y.Staged += p.GPUs[i].Stream.Staged() + residency.Copies*p.GPUs[i].Expert
	}
	return y
}

// openCPU opens the CPU. company says that GPUs compute, too. It keeps unitCache bytes of the experts that stay on the
// disk.
func (o *Options) openCPU(company bool, unitCache int64) (*cpu.Device, error) {
	p, idle := o.Processor, 0
	if p.Threads <= 0 {
		p.Threads, idle = hw.DefaultThreads(), hw.IdleCores()
		if company { // with every core at work, waiting for a GPU takes far longer
			p.Threads = max(1, p.Threads-1)
		}
	}
	if p.ThreadsBatch <= 0 {
		p.ThreadsBatch = p.Threads
	}
	if p.Kernels == "" {
		p.Kernels = KernelsAuto
	}
	return cpu.New(cpu.Options{Threads: p.Threads, Idle: idle, ThreadsBatch: p.ThreadsBatch, Lock: o.Lock, UnitCache: unitCache, Kernels: p.Kernels, Note: p.Note})
}

// open makes one device of the plan's GPUs, which it opens, and host.
func (p *Plan) open(host hybrid.Host, o *Options) (d compute.Device, gpus []*vulkan.Device, err error) {
	for j := range p.GPUs {
		c := &p.GPUs[j]
		g, err := vulkan.Open(vulkan.Options{Device: c.Device, Budget: c.Budget, Cache: pipelineCache(), Messages: o.Messages, Compiled: o.Compiling, Trace: o.Trace.OfGPU(j)})
		if err != nil {
			for _, g := range gpus {
				g.Close()
			}
			return nil, nil, &hybrid.GPUError{Err: err, GPU: j}
		}
		gpus = append(gpus, g)
	}
	return p.join(gpus, host, o), gpus, nil
}

// join makes one device of the plan's GPUs and host.
func (p *Plan) join(gpus []*vulkan.Device, host hybrid.Host, o *Options) compute.Device {
	var pairs []*hybrid.Device
	for j, g := range gpus {
		d := hybrid.New(g, host, p.attention(j))
		d.Trace(o.Trace)
		d.Stream(p.GPUs[j].Stream)
		d.ReadAhead(p.Ahead)
		d.FollowUse(p.GPUs[j].Slots)
		if layout := p.Layout(); layout.Further() && int(layout.Places[len(layout.Places)-1].Tier) == j {
			d.HoldFurther()
		}
		pairs = append(pairs, d)
	}
	if len(pairs) == 1 {
		return pairs[0]
	}
	return hybrid.NewMultiGPU(pairs, p.homes())
}

// homes returns the GPU that each layer belongs to. A layer in RAM belongs to its neighbour's GPU, so that a pass need
// not change GPUs for it. [layers]
func (p *Plan) homes() []int {
	var homes []int
	for _, place := range p.places() {
		homes = append(homes, int(place.Tier))
	}
	return homes[:max(0, len(homes)-1)]
}

// places are Places with a GPU for every layer, and for the head.
func (p *Plan) places() []compute.Place {
	first := max(0, slices.IndexFunc(p.Places, func(y compute.Place) bool { return y.Tier != compute.RAM }))
	var home compute.Tier
	if len(p.Places) > 0 {
		home = max(0, p.Places[first].Tier)
	}
	all := slices.Clone(p.Places)
	for l := range all {
		if all[l].Tier != compute.RAM {
			home = all[l].Tier
		}
		all[l].Tier = home
	}
	return all
}

// attention returns for each of GPU j's layers whether its keys and values are there.
func (p *Plan) attention(j int) []bool {
	var on []bool
	for l, home := range p.homes() {
		if home == j {
			on = append(on, p.Places[l].Attention)
		}
	}
	return on
}

// pipelineCache returns the folder where compiled shaders are kept; empty where there is no home for it.
func pipelineCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "powerinfer")
}
