package placement

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Plan is a priced placement.
type Plan struct {
	Layers  []Priced // the head is the last
	Seconds float64  // of one token
	VRAM    []int64  // bytes on each GPU, overhead included
	RAM     int64    // bytes in RAM
	Disk    Tier
}

// Priced is one layer's place with its share of a token's time, in seconds. Dense, the larger of HotTime and ColdTime,
// and Wait add up to Seconds. With units on the disk, ColdTime includes the wait for them, see Rate.waits.
type Priced struct {
	compute.Place
	VRAM     int64   // bytes on the GPU
	RAM      int64   // bytes in RAM
	Disk     int64   // bytes on the disk only, in the long run
	ReadDisk float64 // bytes that a token reads from the disk
	Dense    float64 // attention and predictor, and launches
	HotTime  float64 // the hot units on the GPU
	ColdTime float64 // the others, meanwhile, in RAM
	Wait     float64 // hand-offs: within the layer, and from where the layer before ended
	Seconds  float64
}

// Price returns the cost of one token for places, one for each layer and one for the head:
//
//	token = Σ dense + max(hot, cold) + hand-offs
//
// A layer that needs both processors costs two hand-offs, there and back, see handOffs. A layer with attention on
// another processor than the layer before costs half of one. Tokens begin and end in RAM, and go from GPU to GPU
// through it.
func Price(m *Model, on *Machine, places []compute.Place) (Plan, error) {
	if err := m.Check(); err != nil {
		return Plan{}, err
	}
	if err := on.Check(); err != nil {
		return Plan{}, err
	}
	return priceStep(m, on, places, 1)
}

// priceStep returns the cost of a step of n tokens, each of another text. A weight is read once for all tokens that need
// it, and each token beyond the first adds Speeds.Each. Check of both was called.
func priceStep(m *Model, on *Machine, places []compute.Place, n int) (Plan, error) {
	if len(places) != len(m.Layers)+1 {
		return Plan{}, fmt.Errorf("%d places for %d layers and the head", len(places), len(m.Layers))
	}
	p := Plan{VRAM: make([]int64, len(on.GPUs))}
	for l, at := range places {
		y := m.layer(l)
		if at.Tier < compute.RAM || int(at.Tier) >= len(on.GPUs) || at.Bound < 0 || at.Bound > len(y.Units.Sometimes) {
			return Plan{}, fmt.Errorf("layer %d: %d of %d units on GPU %d of %d", l, at.Bound, len(y.Units.Sometimes), at.Tier, len(on.GPUs))
		}
		p.Layers = append(p.Layers, price(y, on, at, n))
	}
	p.fromDisk(m, on)
	home := compute.RAM
	for l, at := range places {
		r := &p.Layers[l]
		next := compute.RAM
		if at.Attention {
			next = at.Tier
		}
		r.Wait += on.moves(home, next)
		home = next
		if l == len(m.Layers) {
			r.Wait += on.moves(home, compute.RAM)
		}
		r.Seconds = r.Dense + max(r.HotTime, r.ColdTime) + r.Wait
		p.Seconds += r.Seconds
		p.RAM += r.RAM
		if at.Tier != compute.RAM {
			p.VRAM[at.Tier] += r.VRAM
		}
	}
	for j := range p.VRAM {
		if p.VRAM[j] > 0 {
			p.VRAM[j] += on.GPUs[j].Overhead
		}
	}
	return p, nil
}

// Reads returns the bytes that a token is expected to read with p, from RAM and from GPUs' memory.
func (m *Model) Reads(p *Plan) (ram, gpus float64) {
	for l, at := range p.Layers {
		y := m.layer(l)
		read := func(bytes float64, gpu bool) {
			if gpu {
				gpus += bytes
			} else {
				ram += bytes
			}
		}
		read(float64(y.Attention+y.KV), at.Attention)
		read(float64(y.Predictor), at.Predictor)
		for i, b := range y.Units.Sometimes {
			read(float64(y.Units.Always)+b, i < at.Bound)
		}
	}
	return ram, gpus
}

// Hits returns the share of the uses of experts that are expected on a GPU with p; 0 without experts.
func (m *Model) Hits(p *Plan) float64 {
	var hits, all float64
	for l := range m.Layers {
		y := &m.Layers[l]
		if !y.Experts {
			continue
		}
		for i, b := range y.Units.Sometimes {
			share := b / float64(y.Units.Size)
			if all += share; i < p.Layers[l].Bound {
				hits += share
			}
		}
	}
	return hits / max(all, 1e-30)
}

// Late returns how long GPUs wait, during one token, for the neurons of layers that are computed in RAM.
func (p *Plan) Late() float64 {
	late := 0.0
	for _, y := range p.Layers {
		if y.Tier != compute.RAM {
			late += max(0, y.ColdTime-y.HotTime)
		}
	}
	return late
}

// layer is layer l, or the head as a layer without units.
func (m *Model) layer(l int) *Layer {
	if l < len(m.Layers) {
		return &m.Layers[l]
	}
	return &Layer{Attention: m.Head, Pins: m.HeadPins}
}

// moves returns the time in which activations get from one home to the next.
func (m *Machine) moves(from, to compute.Tier) float64 {
	switch {
	case from == to:
		return 0
	case from != compute.RAM && to != compute.RAM:
		return m.HandOff
	}
	return m.HandOff / 2
}

// handOffs returns how often a layer with a part on a GPU goes there and back. The residual and the norms are then on
// the GPU. So attention in RAM and neurons in RAM each wait there for a norm, and a predictor in RAM with that
// attention for one more turn.
func handOffs(attention, whole, predictorInRAM bool) float64 {
	switch {
	case attention && whole:
		return 0
	case attention:
		return 1
	case predictorInRAM:
		return 3
	}
	return 2
}

// price returns one layer by itself, in a step of tokens.
func price(y *Layer, on *Machine, at compute.Place, tokens int) Priced {
	r := Priced{Place: at}
	if at.Tier == compute.RAM {
		at = compute.Place{Split: compute.Split{Tier: compute.RAM}}
		r.Place = at
	}
	host, gpu := on.speeds(), Speeds{}
	if at.Tier != compute.RAM {
		gpu = on.GPUs[at.Tier].speeds()
	}
	read := func(weights, kv int64, onGPU bool, part func(*Speeds) Rate) {
		s := &host
		if onGPU {
			s = &gpu
			r.VRAM += weights + kv
		} else {
			r.RAM += weights + kv
		}
		r.Dense += part(s).seconds(float64(weights+int64(tokens)*kv)) + float64(tokens-1)*s.Each*float64(weights)
	}
	read(y.Attention, y.KV, at.Attention, y.attention)
	if !at.Attention {
		r.RAM += y.Expanded
	}
	read(y.Predictor, 0, at.Predictor, func(s *Speeds) Rate { return s.Predictor })
	u := &y.Units
	n := len(u.Sometimes)
	if at.Bound > 0 {
		var bytes, needed, every float64
		for _, b := range u.Sometimes[:at.Bound] {
			once, whole := u.step(b, tokens, &gpu)
			bytes, needed, every = bytes+b, needed+once, every+whole
		}
		var everyRow bool
		if r.HotTime, everyRow = gpu.faster(u, needed, every); everyRow {
			r.EveryRow = 1
		} else {
			r.EveryRow = gpu.everyRowFrom(u, at.Bound, bytes)
		}
	}
	if at.Bound < n {
		r.ColdTime = host.units(u).Start
	}
	for _, b := range u.Sometimes[at.Bound:] {
		needed, _ := u.step(b, tokens, &host)
		r.ColdTime += needed
	}
	r.VRAM += u.Size * int64(at.Bound)
	r.RAM += u.Size * int64(n-at.Bound)
	if at.Attention || at.Bound > 0 || at.Predictor && y.Predictor > 0 {
		r.Dense += on.GPUs[at.Tier].launch()
		r.Wait = on.HandOff * handOffs(at.Attention, at.Bound == n, y.Predictor > 0 && !at.Predictor)
	}
	return r
}

// attention returns the rate of what a token reads of the layer before its units; the head is such a layer.
func (y *Layer) attention(s *Speeds) Rate {
	if len(y.Units.Sometimes) == 0 {
		return s.Dense
	}
	return s.Attention
}

// launch returns what starting a layer's kernels takes that the parts' rates do not count.
func (g *GPU) launch() float64 {
	if g.Speeds != nil {
		return 0
	}
	return g.Launch
}

// seconds returns the time of a unit that reads b bytes beyond Always. One that is active often enough is read in order
// with its neighbours.
func (u *Units) seconds(b float64, s *Speeds) float64 {
	if u.inOrder() {
		return (float64(u.Always) + b) / s.Dense.Read
	}
	return min(float64(u.Always)/s.Dense.Read+b/s.Sparse.Read, float64(u.Size)/s.Dense.Read)
}
