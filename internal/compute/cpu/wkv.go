package cpu

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// wkvs is the state of one WKV. Workers share the runs' heads, and each goes through a run's positions in order.
type wkvs struct {
	d       *Device
	chunkFn func(chunk, worker int)
	o       compute.WKV
	runs    []compute.Run
}

func (v *wkvs) init(d *Device) { v.d, v.chunkFn = d, v.chunk }

// WKV carries the state of every head through its positions.
func (d *Device) WKV(o *compute.WKV) {
	v := &d.wkvs
	v.o, v.runs = *o, d.p.AppendRuns(v.runs[:0])
	d.pool.Run(len(v.runs)*o.Heads, v.chunkFn)
}

// chunk computes a head of a run.
func (v *wkvs) chunk(chunk, worker int) {
	o, k, n := &v.o, v.d.k, v.o.Dim
	r, h := v.runs[chunk/o.Heads], chunk%o.Heads
	of := func(x []float32) []float32 { return x[h*n:][:n] }
	state := states(o.Cache, o.Layer, r.Slot)[o.At+h*n*n:][:n*n]
	if r.Fresh {
		clear(state)
	}
	room := grown(&v.d.worker(worker).floats, 7*n)
	part := func(i int) []float32 { return room[i*n:][:n] }
	decay, rate, unit, erased, key, known, zeros := part(0), part(1), part(2), part(3), part(4), part(5), part(6)
	clear(zeros)
	keyNorm, keyRate, bonus := of(vector(o.KeyNorm)), of(vector(o.KeyRate)), of(vector(o.Bonus))
	weight, bias := of(vector(o.Scale)), of(vector(o.Scale)[o.Heads*n:])
	for t := r.From; t < r.To; t++ {
		read, written, out := of(row(o.R, t)), of(row(o.V, t)), of(row(o.Out, t))
		k.Activate(rate, of(row(o.A, t)), nil, compute.Activation{Kind: compute.Logistic})
		k.Activate(decay, of(row(o.W, t)), nil, compute.Activation{Kind: compute.Logistic})
		k.Vector.Scale(decay, decay, float32(-math.Exp(-0.5)))
		k.Exp(decay, decay)
		square, own := 0.0, 0.0
		for j, e := range of(row(o.K, t)) {
			unit[j] = e * keyNorm[j]
			key[j] = e * (1 + (rate[j]-1)*keyRate[j])
			square += float64(unit[j]) * float64(unit[j])
			own += float64(read[j]) * float64(key[j]) * float64(bonus[j])
		}
		k.Vector.Scale(unit, unit, float32(1/max(math.Sqrt(square), 1e-12)))
		copy(erased, unit)
		k.Mul(erased, rate)

		k.Scan(known, state, zeros, unit, unit, 1) // S·κ
		k.Vector.Scale(known, known, -1)
		for i := range n {
			k.Mul(state[i*n:][:n], decay)
		}
		k.Scan(out, state, known, erased, read, 1) // what it gives is not complete yet
		k.Scan(out, state, written, key, read, 1)
		k.LayerNorm(out, out, weight, bias, o.Epsilon)
		k.AddScaled(out, written, float32(own))
	}
}
