package planner

import (
	"context"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// used returns what each GPU of the plan has in use once the model is loaded, in bytes: the model's header is bound to
// devices that count, and its forward pass is recorded there, as engine does it with GPUs. infos describe the plan's
// GPUs.
func used(b *modelcost.Cost, plan *Plan, infos []vulkan.Info) ([]int64, error) {
	var gpus []*vulkan.Device
	for _, info := range infos {
		gpus = append(gpus, vulkan.Counter(info))
	}
	if _, err := rehearsed(b, plan, gpus); err != nil {
		return nil, fmt.Errorf("counting what a GPU will hold: %w", err)
	}
	var bytes []int64
	for _, g := range gpus {
		bytes = append(bytes, g.Used())
	}
	return bytes, nil
}

// foresee makes opened GPUs compile in the background the shaders that the model will need: first those that loading
// waits for, then, where steps are rehearsed early, those of usual steps. If the need cannot be foreseen, shaders are
// compiled when they are needed.
func foresee(b *modelcost.Cost, plan *Plan, gpus []*vulkan.Device) {
	var twins []*vulkan.Device
	early := true
	for _, g := range gpus {
		early = early && g.RehearsesEarly()
		twins = append(twins, g.Foresight())
	}
	if m, err := rehearsed(b, plan, twins); err == nil && early {
		go func() { // the twins are its own, and what it finds after the GPUs are closed is left
			for _, step := range m.UsualSteps() {
				_ = step()
			}
		}()
	}
}

// rehearsed binds the model's header to GPUs that count and records its forward pass there.
func rehearsed(b *modelcost.Cost, plan *Plan, gpus []*vulkan.Device) (*model.Model, error) {
	d := shapes{plan.join(gpus, host{}, &Options{})}
	m, err := model.Load(context.Background(), b.File, d, model.Options{
		Neurons: model.Neurons{Activation: b.Activation, Sparse: b.Mode}, Further: b.Further.Bytes() > 0, Head: b.DraftHead, Places: plan.places(), Batch: b.Step, Outputs: b.Outputs,
		Cache: b.Cache, CacheTypes: b.CacheTypes, Adapters: b.Adapters, Pinned: true, // no page of the file is given up
	})
	if err == nil {
		err = m.Rehearse()
	}
	return m, err
}

// shapes hands on weights without their data.
type shapes struct{ compute.Device }

func (d shapes) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	src.Data = nil
	return d.Device.Matrix(src, use)
}

func (d shapes) Vector(src compute.Source) (*compute.Vector, error) {
	src.Data = nil
	return d.Device.Vector(src)
}

// host is a processor that holds nothing and is never run.
type host struct {
	compute.Plain
	compute.Unforeseeing
}

func (host) Name() string { return "no processor" }

func (host) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	return &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols, Mem: use}, nil
}

func (host) Vector(src compute.Source) (*compute.Vector, error) {
	return &compute.Vector{Name: src.Name, Len: src.Cols}, nil
}

func (host) Tensor(rows, cols int) (compute.Tensor, error) {
	return compute.Tensor{Rows: rows, Cols: cols, Mem: host{}}, nil
}

func (host) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	return &compute.Cache{CacheSpec: spec}, nil
}

func (host) Set(rows, n int) (compute.Set, error) {
	return compute.Set{Rows: rows, N: n, Mem: host{}}, nil
}

func (host) Choice(rows, used, n int) (compute.Choice, error) {
	return compute.Choice{Rows: rows, Used: used, N: n, Mem: host{}}, nil
}

func (host) Run(compute.Segment, *compute.Params, func(compute.Verbs)) error { return nil }
func (host) Read(t compute.Tensor, _ int) ([]float32, error)                 { return make([]float32, t.Cols), nil }
func (host) CopyPage(*compute.Cache, compute.Page, compute.Page)             {}
func (host) ReadPage(*compute.Cache, compute.Page, [][]byte) error           { return nil }
func (host) WritePage(*compute.Cache, compute.Page, [][]byte) error          { return nil }
func (host) Close() error                                                    { return nil }
func (host) Data(t compute.Tensor) []float32                                 { return make([]float32, t.Rows*t.Cols) }
func (host) Over(t compute.Tensor, _ []float32) compute.Tensor               { return t }
func (host) FillSet(compute.Set, []uint32, int, int)                         {}
func (host) FillChoice(compute.Choice, []float32)                            {}
func (host) ChoiceData(compute.Choice, []float32)                            {}
func (host) SetWords(compute.Set, []uint32, int)                             {}
func (host) ReadAhead(compute.Set, compute.SparseWeights, func() bool)       {}

func (host) GuessUnits(*compute.Matrix, []int32)              {}
func (host) Lend(int, int64) bool                             { return false }
func (host) Lends(*compute.Matrix) bool                       { return false }
func (host) Fetch(*compute.Matrix, []int32) compute.UnitFetch { return nil }
func (host) Borrow(*compute.Matrix, int32) compute.UnitFetch  { return nil }
func (host) HasPlanes(*compute.Matrix) bool                   { return false }
func (host) Planes(*compute.Matrix, int, [][]byte)            {}

// Restorable does what the CPU's device does: columns of quantised types stay columns, in whole blocks.
func (host) Restorable(m *compute.Matrix) compute.Use {
	if m.Mem == compute.Columns && m.Type.Quantised() {
		return compute.Columns
	}
	return compute.Rows
}

// KeepsRows does what the CPU's device does.
func (host) KeepsRows(m *compute.Matrix) bool { return m.Mem != compute.Columns }

func (host) Rows(m *compute.Matrix, from, to int, _ []byte) compute.Source {
	return compute.Source{Name: m.Name, Type: m.Type, Rows: to - from, Cols: m.Cols}
}

func (host) Restore(m *compute.Matrix, from, to int, _ []byte) compute.Source {
	return compute.Source{Name: m.Name, Type: m.Type, Rows: to - from, Cols: m.Cols}
}

// onto returns the plan of places on the machine's GPUs, and which GPUs it uses: those with vram bytes.
func onto(places []compute.Place, vram []int64, streams []hybrid.Streaming, ahead hybrid.Ahead) (plan *Plan, gpus []int) {
	plan = &Plan{Places: slices.Clone(places), Ahead: ahead}
	index := make([]int, len(vram)) // the index of each GPU in plan.GPUs
	for j, v := range vram {
		if v > 0 {
			index[j] = len(gpus)
			gpus = append(gpus, j)
			plan.GPUs = append(plan.GPUs, GPU{Planned: v, Stream: streams[j]})
		}
	}
	for l := range plan.Places {
		if y := &plan.Places[l]; y.Tier != compute.RAM {
			y.Tier = compute.Tier(index[y.Tier])
		}
	}
	return plan, gpus
}
