package placement

import (
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Together returns the time of a step of n tokens, each of another text, with m's parts at p's places on the machine, in
// seconds; 0: unknown. A weight is read once for all tokens that need it. Each token beyond the first adds Speeds.Each.
func (p *Plan) Together(m *Model, on *Machine, n int) (float64, error) {
	all, err := Price(m.together(n), on, p.Places())
	if err != nil || n == 1 {
		return all.Seconds, err
	}
	if all.FromDisk() {
		return 0, nil
	}
	host := on.speeds()
	for l, at := range all.Layers {
		y, gpu := m.layer(l), host
		if at.Tier != compute.RAM {
			gpu = on.GPUs[at.Tier].speeds()
		}
		each := func(onGPU bool, bytes float64) float64 {
			s := &host
			if onGPU {
				s = &gpu
			}
			if s.Each == 0 && bytes > 0 {
				return math.NaN()
			}
			return float64(n-1) * bytes * s.Each
		}
		hot, cold := at.HotTime, at.ColdTime
		for i, b := range y.Units.Sometimes {
			if more := each(i < at.Bound, float64(y.Units.Always)+b); i < at.Bound {
				hot += more
			} else {
				cold += more
			}
		}
		all.Seconds += each(at.Attention, float64(y.Attention)) + each(at.Predictor, float64(y.Predictor)) + max(hot, cold) - max(at.HotTime, at.ColdTime)
	}
	if math.IsNaN(all.Seconds) {
		return 0, nil
	}
	return all.Seconds, nil
}

// FromDisk reports whether a token reads from the disk.
func (p *Plan) FromDisk() bool {
	return slices.ContainsFunc(p.Layers, func(y Priced) bool { return y.Disk > 0 })
}

// together returns m as a step of n tokens reads it.
func (m *Model) together(n int) *Model {
	t := &Model{Head: m.Head, HeadPins: m.HeadPins}
	for _, y := range m.Layers {
		y.KV *= int64(n)
		u := &y.Units
		whole := float64(u.Size - u.Always)
		some := make([]float64, len(u.Sometimes))
		for i, b := range u.Sometimes {
			if whole > 0 {
				some[i] = whole * AnyOf(b/whole, n)
			}
		}
		u.Sometimes = some
		t.Layers = append(t.Layers, y)
	}
	return t
}

// AnyOf returns the probability that at least one of n tokens uses a unit, if each does with probability share.
func AnyOf(share float64, n int) float64 { return 1 - math.Pow(1-min(share, 1), float64(n)) }
