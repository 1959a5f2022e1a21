package model

import "github.com/powerinfer-go/powerinfer/internal/compute"

// mostBins is the largest number of counters of a layer, which its neurons share: about the columns of a picture.
const mostBins = 256

// Watch switches the counting of Work, and of Bins, which costs a little more, for the model's next steps.
func (m *Model) Watch(work, bins bool) {
	m.watch.On = work
	for i := range m.parts {
		b := m.parts[i].Bins()
		if b == nil {
			continue
		}
		if b.On = bins; b.Counts == nil {
			b.Neurons = m.Blocks[i].FF
			if m.Blocks[i].Experts {
				b.Neurons = m.Experts.Count
			}
			b.Counts = make([]uint32, min(mostBins, b.Neurons))
		}
	}
}

// Work returns how long each part of the model was computed while it was watched.
func (m *Model) Work() compute.Work { return m.watch.Work }

// SetWork discards what was counted since Work returned w.
func (m *Model) SetWork(w compute.Work) { m.watch.Work = w }

// Bins returns how often layer l's neurons were needed while the model was watched, the hottest first where they are
// sorted: see compute.NeuronBins. The memory is the model's. [bins]
func (m *Model) Bins(l int) []uint32 {
	if b := m.parts[l].Bins(); b != nil {
		return b.Counts
	}
	return nil
}

// Read counts the bytes that steps have read of the feed-forward layers' weights.
type Read struct {
	All   int64
	RAM   int64 // by the processor
	Dense int64 // bytes that a dense model reads in as many steps
}

// Read returns the bytes read since the model was loaded. Dense layers, which are always read whole, are not counted.
func (m *Model) Read() (r Read) {
	for i := range m.parts {
		if f := m.parts[i].FFN; f != nil {
			predictor := m.predictorRead(f)
			r.All += f.Count.Bytes + predictor
			if r.RAM += f.Count.RAM; !m.place(i).Predictor {
				r.RAM += predictor
			}
			r.Dense += f.Count.Steps * f.Bytes()
		}
		if x := m.parts[i].Experts; x != nil {
			r.All += x.Uses.Bytes
			r.RAM += x.Uses.RAM
			r.Dense += x.Uses.Steps * x.UsedBytes()
		}
	}
	return r
}

// Placed returns which parts of layer l are on a GPU, and how many of its neurons or experts.
func (m *Model) Placed(l int) compute.Place {
	p, units := m.place(l), m.Blocks[l].FF
	if m.parts[l].Experts != nil {
		units = m.Experts.Count
	}
	p.Bound = min(p.Bound, units)
	return p
}
