package planner

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Setting is a measurement that was published of the original PowerInfer: what ran where, and its tokens per second.
type Setting struct {
	PC         string // a name that PC knows
	Shape      string
	Type       quant.Type
	PowerInfer float64 // 0 where not published
	LlamaCPP   float64 // of the same hardware, at that time; 0 if not published
	Source     string
}

// publishedContext is the longest prompt and answer of the paper's runs, 128 and 512 tokens.
const publishedContext = 640

// Sources of the published figures.
const (
	paperF16  = "SOSP'24 paper, figure 10"
	paperLow  = "SOSP'24 paper, figure 11"
	paperInt4 = "SOSP'24 paper, figure 13"
	modelCard = "Hugging Face card"
)

// Published returns the figures of "PowerInfer: Fast Large Language Model Serving with a Consumer-grade GPU" (SOSP
// 2024, arXiv 2312.12456) for answers of 512 tokens, including the prompt's time, and those of the models' cards on
// Hugging Face (SparseLLM). The sparse and dense runs of the cards used only the CPU of PC-High.
func Published() []Setting {
	return []Setting{
		{"pc-high", "opt-30b", quant.F16, 16, 1.6, paperF16},
		{"pc-high", "opt-66b", quant.F16, 2.3, 0.6, paperF16},
		{"pc-high", "falcon-40b", quant.F16, 13, 1.1, paperF16},
		{"pc-high", "llama-70b", quant.F16, 1.9, 0.6, paperF16},
		{"pc-high", "opt-66b", quant.Q4_0, 12, 2.9, paperInt4},
		{"pc-high", "falcon-40b", quant.Q4_0, 29, 17, paperInt4},
		{"pc-high", "llama-70b", quant.Q4_0, 10, 3.2, paperInt4},
		{"pc-high", "opt-175b", quant.Q4_0, 1.9, 0.7, paperInt4},
		{"pc-low", "opt-13b", quant.F16, 13, 1.9, paperLow},
		{"pc-low", "opt-30b", quant.Q4_0, 16, 2.0, paperInt4},
		{"pc-low", "opt-66b", quant.Q4_0, 5.3, 1.1, paperInt4},
		{"pc-low", "falcon-40b", quant.Q4_0, 13, 3.8, paperInt4},
		{"pc-low", "llama-70b", quant.Q4_0, 4.2, 1.1, paperInt4},
		{"pc-high-cpu", "llama-7b", quant.F16, 8.21, 5.17, modelCard},
		{"pc-high-cpu", "llama-13b", quant.F16, 0, 2.69, modelCard},
		{"pc-high-cpu", "llama-70b", quant.F16, 0, 0.52, modelCard},
		{"pc-high-cpu", "falcon-40b", quant.F16, 0, 0.85, modelCard},
	}
}

// scatteredRows is the share of RAM's stated bandwidth that is assumed of reading scattered rows.
const scatteredRows = 0.75

// PC returns the described machine of that name, from the paper's section 8.1.
func PC(name string) (*Machine, error) {
	m := Described(192<<30, 67.2e9)
	switch name {
	case "pc-high":
		m.Add("RTX 4090", 24<<30, 1008e9)
	case "pc-low":
		m.stated.Stream, m.Memory = 38.4e9, 64<<30
		m.Add("RTX 2080 Ti", 11<<30, 616e9)
	case "pc-high-cpu":
	default:
		return nil, fmt.Errorf("machine %.40q is none of pc-high, pc-low, pc-high-cpu", name)
	}
	m.stated.Rows = scatteredRows * m.stated.Stream
	return m, nil
}

// Simulation is a published setting with the cost model's figures for it.
type Simulation struct {
	Setting
	Plan     placement.Plan // by neuron, with predictors
	ByLayers placement.Plan // whole layers, dense, as many as fit
	Whole    int            // how many of these are whole layers
	Hot      float64        // share of the activations on the GPU
}

// Simulate plans for every published setting.
func Simulate() ([]Simulation, error) {
	var list []Simulation
	for _, s := range Published() {
		shape, err := modelcost.Describe(s.Shape)
		if err != nil {
			return nil, err
		}
		shape.Type = s.Type
		m, err := PC(s.PC)
		if err != nil {
			return nil, err
		}
		b := shape.Cost(publishedContext, 0)
		on := m.on(b.RowBytes, b.Type)
		for j := range on.GPUs {
			if on.GPUs[j].Overhead, err = m.most(&b, j, hybrid.Streaming{}); err != nil {
				return nil, err
			}
		}
		r := Simulation{Setting: s}
		if r.Plan, err = placement.Solve(b.Model, on); err != nil {
			return nil, err
		}
		shape.Mode = model.Off
		dense := shape.Cost(publishedContext, 0)
		if r.Whole, r.ByLayers, err = placement.MostWhole(dense.Model, on); err != nil {
			return nil, err
		}
		r.Hot = hotShare(&b.Model, &r.Plan)
		list = append(list, r)
	}
	return list, nil
}

// hotShare returns the share of the bytes that active units read which are read on a GPU.
func hotShare(m *placement.Model, p *placement.Plan) float64 {
	var hot, all float64
	for l := range m.Layers {
		for i, v := range m.Layers[l].Units.Sometimes {
			all += v
			if i < p.Layers[l].Bound {
				hot += v
			}
		}
	}
	return hot / max(all, 1)
}
