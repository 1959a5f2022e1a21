package blueprint

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Setting is a measurement that was published of the original PowerInfer: what ran where, and its tokens per second.
type Setting struct {
	PC         string // a name that PC knows
	Shape      string
	Type       quant.Type
	PowerInfer float64 // 0 where not published
	LlamaCPP   float64 // of the same hardware, at that time; 0 where not published
	Source     string
}

// publishedContext is the longest prompt and answer of the paper's runs, 128 and 512 tokens.
const publishedContext = 640

// Sources of the published figures.
const (
	paperF16  = "SOSP'24 paper, figure 10"
	paperLow  = "SOSP'24 paper, figure 11"
	paperInt4 = "SOSP'24 paper, figure 13"
	card      = "Hugging Face card"
)

// Published are the figures of "PowerInfer: Fast Large Language Model Serving with a Consumer-grade GPU" (SOSP 2024, arXiv 2312.12456)
// for answers of 512 tokens, prompts and their time counted in, and those of the models' cards on Hugging Face (SparseLLM),
// whose sparse and dense runs used the processor of PC-High alone.
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
		{"pc-high-cpu", "llama-7b", quant.F16, 8.21, 5.17, card},
		{"pc-high-cpu", "llama-13b", quant.F16, 0, 2.69, card},
		{"pc-high-cpu", "llama-70b", quant.F16, 0, 0.52, card},
		{"pc-high-cpu", "falcon-40b", quant.F16, 0, 0.85, card},
	}
}

// What is assumed of described PCs beside the bandwidths that the paper states: scattered rows get this share of RAM's, cards
// this share of their stated one, and hand-offs and launches take this long.
const (
	AssumedRows    = 0.75
	AssumedCard    = 0.85
	AssumedHandOff = 50e-6
	AssumedLaunch  = 30e-6
)

// reserve is the share of a card that the driver, a desktop and fragmentation leave.
const reserve = 0.94

// Budget is how much of a card's bytes is used where nobody says how much.
func Budget(bytes int64) int64 { return int64(reserve * float64(bytes)) }

// PC is a described machine of that name and the bytes of its RAM: those of the paper's section 8.1.
func PC(name string) (placement.Machine, uint64, error) {
	m := placement.Machine{Stream: 67.2e9, HandOff: AssumedHandOff}
	memory := uint64(192 << 30)
	switch name {
	case "pc-high":
		m.GPUs = []placement.GPU{stated("RTX 4090", 1008e9, 24<<30)}
	case "pc-low":
		m.Stream, memory = 38.4e9, 64<<30
		m.GPUs = []placement.GPU{stated("RTX 2080 Ti", 616e9, 11<<30)}
	case "pc-high-cpu":
	default:
		return m, 0, fmt.Errorf("machine %.40q is none of pc-high, pc-low, pc-high-cpu", name)
	}
	m.Rows = AssumedRows * m.Stream
	return m, memory, nil
}

func stated(name string, read float64, bytes int64) placement.GPU {
	return placement.GPU{Name: name, Read: AssumedCard * read, Launch: AssumedLaunch, Budget: Budget(bytes)}
}

// Simulation is a setting beside what the cost model says of it.
type Simulation struct {
	Setting
	Plan     placement.Plan // by neuron, with predictors
	ByLayers placement.Plan // whole layers, dense, as many as fit
	Whole    int            // layers of these
	Hot      float64        // share of the activations on the card
}

// Simulate plans for every published setting.
func Simulate() ([]Simulation, error) {
	var list []Simulation
	for _, s := range Published() {
		shape, err := named(s.Shape)
		if err != nil {
			return nil, err
		}
		shape.Type = s.Type
		on, _, err := PC(s.PC)
		if err != nil {
			return nil, err
		}
		b := shape.Blueprint(publishedContext)
		for j := range on.GPUs {
			on.GPUs[j].Overhead = b.Buffers
		}
		r := Simulation{Setting: s}
		if r.Plan, err = placement.Solve(b.Model, on); err != nil {
			return nil, err
		}
		shape.Mode = model.Off
		dense := shape.Blueprint(publishedContext)
		if r.Whole, r.ByLayers, err = placement.MostWhole(dense.Model, on); err != nil {
			return nil, err
		}
		r.Hot = hotShare(&b.Model, &r.Plan)
		list = append(list, r)
	}
	return list, nil
}

// hotShare is the share of the bytes that active units read which are read on a card.
func hotShare(m *placement.Model, p *placement.Plan) float64 {
	var hot, all float64
	for l := range m.Layers {
		for i, v := range m.Layers[l].Units.Sometimes {
			all += v
			if i < p.Layers[l].Hot {
				hot += v
			}
		}
	}
	return hot / max(all, 1)
}
