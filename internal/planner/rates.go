package planner

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Rate returns the expected tokens per second of generation, from the speeds at which memory and GPUs can be read; 0:
// unknown, because the machine was not measured.
func (p *Planner) Rate() float64 {
	if q := p.known(); q != nil {
		return q.plan.Rate
	}
	return 0
}

// RateTogether returns the tokens per second of that many texts that are generated at the same time; 0: it is not
// known.
func (p *Planner) RateTogether(texts int) float64 {
	q := p.known()
	if q == nil || q.plan.Rate == 0 || texts < 1 {
		return 0
	}
	m, plan := q.machineOf(), q.placed()
	one, err := plan.Together(&q.cost.Model, &m, 1)
	if err != nil {
		return 0
	}
	all, err := plan.Together(&q.cost.Model, &m, texts)
	if err != nil || all == 0 {
		return 0
	}
	return float64(texts) / (1/q.plan.Rate + all - one) // experts that follow the text are in the rate alone
}

// PromptRate returns the tokens per second of reading a prompt of that many tokens; 0: it is not known. It counts
// products and the bytes that they read, not what attention does with the positions before.
func (p *Planner) PromptRate(tokens int) float64 {
	q := p.known()
	if q == nil || q.plan.Rate == 0 || tokens < 1 {
		return 0
	}
	m, plan := q.machineOf(), q.placed()
	priced, err := placement.Price(&q.cost.Model, &m, plan.Places())
	if err != nil || priced.FromDisk() {
		return 0
	}
	seconds := priced.Layers[len(priced.Layers)-1].Seconds // the head's, for the last token
	for left := tokens; left > 0; left -= q.cost.Step {
		s := q.step(&m, min(left, q.cost.Step))
		if s == 0 {
			return 0
		}
		seconds += s
	}
	return float64(tokens) / seconds
}

// known returns the planner with the plan that is in effect, on a machine that was measured; nil: there is none.
func (p *Planner) known() *Planner {
	plan, err := p.Plan()
	switch {
	case err != nil:
		return nil
	case plan != nil && p.machine != nil && p.machine.Predictable():
		return p
	case plan == nil && p.alone != nil:
		return p.alone()
	}
	return nil
}

// alone plans for the model in f on this machine's processor alone, if the machine was measured earlier.
func alone(f *gguf.File, o Options) *Planner {
	figures, ok := kept()
	if !ok {
		return nil
	}
	cost, err := modelcost.Of(f, o.Model)
	if err != nil {
		return nil
	}
	m := On(figures, nil)
	m.KnowDisk(f.Path)
	p := With(m, cost, Options{Model: o.Model, RAM: o.RAM})
	s, err := p.Solve()
	if err != nil || s.Plan.Seconds <= 0 {
		return nil
	}
	p.plan, p.planned = &Plan{Places: s.Plan.Places(), Rate: 1 / s.Plan.Seconds}, true
	return p
}

// machineOf returns the machine with the GPUs of the plan, in its order.
func (p *Planner) machineOf() placement.Machine {
	m := p.machine.on(p.cost.RowBytes, p.cost.Type)
	all := m.GPUs
	m.GPUs = nil
	for _, j := range p.used {
		m.GPUs = append(m.GPUs, all[j])
	}
	return m
}

// placed returns the plan's places as a placement.
func (p *Planner) placed() *placement.Plan {
	var plan placement.Plan
	for _, y := range p.plan.Places {
		plan.Layers = append(plan.Layers, placement.Priced{Place: y})
	}
	return &plan
}

// share is a part of a layer in a step with a prompt: bytes of weights that each token is multiplied with, and bytes
// that all tokens together read.
type share struct{ work, read float64 }

func (s *share) add(work, read float64) { s.work, s.read = s.work+work, s.read+read }

// step returns the seconds of a step of n tokens of a prompt, without the head; 0: they are not known. Weights in RAM
// are sent to a GPU where the plan says so. Then the slower of sending all of them and the GPU's products decides.
func (p *Planner) step(m *placement.Machine, n int) float64 {
	cores := p.machine.products()
	if cores == 0 {
		return 0
	}
	elements := float64(p.cost.RowElems) / float64(p.cost.RowBytes) // of a byte
	products := func(s share, rate, read float64) float64 {
		return max(s.work*elements*float64(n)/rate, s.read/read)
	}
	homes := p.plan.places()
	inRAM, onGPU, sending := 0.0, 0.0, 0.0
	for l := range p.cost.Model.Layers {
		y, at := &p.cost.Model.Layers[l], p.plan.Places[l]
		var before, units [2]share // in RAM, on the GPU
		before[side(at.Attention)].add(float64(y.Attention), float64(y.Attention))
		before[side(at.Predictor)].add(float64(y.Predictor), float64(y.Predictor))
		for i, b := range y.Units.Sometimes {
			work, read := float64(y.Units.Size), float64(y.Units.Size)
			if y.Experts {
				work = float64(y.Units.Always) + b
				read *= placement.AnyOf(work/read, n)
			}
			units[side(i < at.Bound)].add(work, read)
		}
		gpu := int(homes[l].Tier) // that a layer in RAM is sent to, too
		var k *measure.GPU
		var sent hybrid.Streaming
		if gpu < len(p.used) {
			k, sent = p.machine.gpus[p.used[gpu]].known, p.plan.GPUs[gpu].Stream
		}
		if k != nil && k.Products > 0 {
			rate := func(s share) float64 { return products(s, k.Products, m.GPUs[gpu].Read) }
			if sends(&sent, y.Experts, n) {
				all := share{}
				for _, s := range [...]share{before[0], before[1], units[0], units[1]} {
					all.add(s.work, s.read)
				}
				onGPU += rate(all)
				sending += (before[0].read + units[0].read) / float64(p.cost.RowBytes) * p.machine.sending(k, &p.cost).seconds()
				continue
			}
			onGPU += rate(before[1])
			inRAM += products(before[0], cores, m.Stream) + max(products(units[0], cores, m.Stream), rate(units[1]))
			continue
		}
		if at.Tier != compute.RAM {
			return 0
		}
		inRAM += products(before[0], cores, m.Stream) + products(units[0], cores, m.Stream)
	}
	return inRAM + max(onGPU, sending)
}

// side is 1 for the GPU and 0 for RAM.
func side(onGPU bool) int {
	if onGPU {
		return 1
	}
	return 0
}

// sends reports whether the weights in RAM of a layer are sent for n tokens.
func sends(s *hybrid.Streaming, experts bool, n int) bool {
	if experts {
		return s.Experts > 0 && n >= s.Experts
	}
	return s.Tokens > 0 && n >= s.Tokens
}
