package planner

import (
	"slices"
	"strconv"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
)

// besideShare is the share of a GPU's memory that other computations, such as a picture's tower, may take. The model
// gains from most of it.
const besideShare = 0.5

// CPUBeside opens the CPU for computations other than the model's.
func (o *Options) CPUBeside() (compute.Device, error) {
	d, err := o.openCPU(false, 0)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Beside opens the GPU that ReserveBeside finds. The device is nil if no GPU has room.
func (o *Options) Beside(bytes int64) (compute.Device, error) {
	before := o.VRAM
	gpu, found, err := o.ReserveBeside(bytes)
	if !found || err != nil {
		return nil, err
	}
	g, err := vulkan.Open(vulkan.Options{Device: strconv.Itoa(gpu), Budget: bytes + bytes/8, Cache: pipelineCache(), Messages: o.Messages, Compiled: o.Compiling})
	if err != nil {
		o.VRAM = before
		return nil, err
	}
	return g, nil
}

// ReserveBeside finds a GPU for computations other than those of the model that o plans for: the first of the GPUs that o
// chooses with room for that many bytes. It returns the GPU's number. If o has budgets, the GPU's budget shrinks by the
// bytes. A device that is software, or that shares the CPU's memory, is taken only if o names it.
func (o *Options) ReserveBeside(bytes int64) (gpu int, found bool, err error) {
	if o.Devices == vulkan.None || o.Layers != nil && *o.Layers == 0 {
		return 0, false, nil
	}
	all, none := vulkan.Devices()
	infos, _, err := chosen(all, none, o.Devices)
	if err != nil || len(infos) == 0 {
		return 0, false, err
	}
	if err := checkCount(o.VRAM, len(infos)); err != nil {
		return 0, false, err
	}
	budgets := slices.Clone(o.VRAM)
	if len(budgets) == 1 {
		budgets = slices.Repeat(budgets, len(infos))
	}
	for i, info := range infos {
		room := Budget(info.Free)
		if budgets != nil {
			room = min(room, budgets[i])
		}
		if o.Devices == "" && info.Kind != vulkan.Discrete || float64(bytes) > besideShare*float64(room) {
			continue
		}
		if budgets != nil {
			budgets[i] -= bytes
			o.VRAM = budgets
		}
		return info.Index, true, nil
	}
	return 0, false, nil
}
