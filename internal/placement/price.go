package placement

import "fmt"

// Plan is a priced placement.
type Plan struct {
	Layers  []Priced // the head is the last
	Seconds float64  // of one token
	VRAM    []int64  // bytes on each card, overhead included
	RAM     int64    // bytes in RAM
}

// Priced is one layer's place with its share of a token's time, in seconds. Dense, the larger of HotTime and ColdTime,
// and Wait add up to Seconds.
type Priced struct {
	Place
	VRAM     int64   // bytes on the card
	RAM      int64   // bytes in RAM
	Dense    float64 // attention and predictor where they lie, and launches
	HotTime  float64 // the hot units on the card
	ColdTime float64 // the others, meanwhile, in RAM
	Wait     float64 // hand-offs: within the layer, and from where the layer before ended
	Seconds  float64
}

// Price is DESIGN's cost of one token for places, one for each layer and one for the head:
//
//	token = Σ dense + max(hot, cold) + hand-offs
//
// A layer that needs both processors costs hand-offs, there and back, see handOffs; a layer whose attention lies elsewhere than the
// layer's before it half of one. Tokens begin and end in RAM, and go from card to card through it.
func Price(m *Model, on *Machine, places []Place) (Plan, error) {
	if err := m.Check(); err != nil {
		return Plan{}, err
	}
	if err := on.Check(); err != nil {
		return Plan{}, err
	}
	if len(places) != len(m.Layers)+1 {
		return Plan{}, fmt.Errorf("%d places for %d layers and the head", len(places), len(m.Layers))
	}
	p := Plan{VRAM: make([]int64, len(on.GPUs))}
	home := RAM
	for l, at := range places {
		y := m.layer(l)
		if at.GPU < RAM || at.GPU >= len(on.GPUs) || at.Hot < 0 || at.Hot > len(y.Units.Sometimes) {
			return Plan{}, fmt.Errorf("layer %d: %d of %d units on card %d of %d", l, at.Hot, len(y.Units.Sometimes), at.GPU, len(on.GPUs))
		}
		r := price(y, on, at)
		next := RAM
		if at.Attention {
			next = at.GPU
		}
		r.Wait += on.moves(home, next)
		home = next
		if l == len(m.Layers) {
			r.Wait += on.moves(home, RAM)
		}
		r.Seconds = r.Dense + max(r.HotTime, r.ColdTime) + r.Wait
		p.Layers = append(p.Layers, r)
		p.Seconds += r.Seconds
		p.RAM += r.RAM
		if at.GPU != RAM {
			p.VRAM[at.GPU] += r.VRAM
		}
	}
	for j := range p.VRAM {
		if p.VRAM[j] > 0 {
			p.VRAM[j] += on.GPUs[j].Overhead
		}
	}
	return p, nil
}

// Late is how long cards wait, during one token, for the neurons of layers that are computed in RAM.
func (p *Plan) Late() float64 {
	late := 0.0
	for _, y := range p.Layers {
		if y.GPU != RAM {
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
	return &Layer{Attention: m.Head}
}

// moves is the time in which activations get from one home to the next.
func (m *Machine) moves(from, to int) float64 {
	switch {
	case from == to:
		return 0
	case from != RAM && to != RAM:
		return m.HandOff
	}
	return m.HandOff / 2
}

// handOffs is how often a layer that a card has a part of goes there and back. The residual is on the card then, and so are the norms:
// attention in RAM is a second turn, for each of both waits for its norm, and a predictor in RAM beside it a third.
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

// price is one layer by itself.
func price(y *Layer, on *Machine, at Place) Priced {
	r := Priced{Place: at}
	read := func(bytes int64, card bool) {
		if card {
			r.VRAM += bytes
			r.Dense += float64(bytes) / on.GPUs[at.GPU].Read
			return
		}
		r.RAM += bytes
		r.Dense += float64(bytes) / on.Stream
	}
	if at.GPU == RAM {
		at = Place{GPU: RAM}
		r.Place = at
	}
	read(y.Attention+y.KV, at.Attention)
	read(y.Predictor, at.Predictor)
	u := &y.Units
	n := len(u.Sometimes)
	for _, b := range u.Sometimes[:at.Hot] {
		r.HotTime += u.hot(b, &on.GPUs[at.GPU])
	}
	for _, b := range u.Sometimes[at.Hot:] {
		r.ColdTime += u.cold(b, on)
	}
	r.VRAM += u.Size * int64(at.Hot)
	r.RAM += u.Size * int64(n-at.Hot)
	card := at.Attention || at.Hot > 0 || at.Predictor && y.Predictor > 0
	if card {
		r.Dense += on.GPUs[at.GPU].Launch
	}
	if card {
		r.Wait = on.HandOff * handOffs(at.Attention, at.Hot == n, y.Predictor > 0 && !at.Predictor)
	}
	return r
}

// hot is the time that a unit which reads b bytes beyond Always takes on g.
func (u *Units) hot(b float64, g *GPU) float64 { return (float64(u.Always) + b) / g.Read }

// cold is its time in RAM, where a unit that is active often enough is read in order with its neighbours.
func (u *Units) cold(b float64, on *Machine) float64 {
	return min(float64(u.Always)/on.Stream+b/on.Rows, float64(u.Size)/on.Stream)
}
