package synth

import (
	"fmt"
	"math"
)

// normal lists a matrix [rows, cols] of normally distributed elements.
func (m *model) normal(name string, rows, cols int, deviation float64) {
	k := m.stream(name)
	m.matrix(name, rows, cols, func(i int, row, _ []float32) { addNoise(row, k, i*cols, float32(deviation)) })
}

// selective lists one block's state space of Mamba's form. in is its input, and weight scales its output.
func (m *model) selective(layer int, in amplitudes, weight float32) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", layer, s) }
	s := m.stateSpace()
	m.reader(name("ssm_in.weight"), 2*s.Inner, in, 1, nil)
	m.taps(name("ssm_conv1d.weight"))
	m.random(name("ssm_conv1d.bias"), s.Inner, 0, 0.1)
	m.normal(name("ssm_x.weight"), s.StateHeads+2*s.StateSize, s.Inner, 2/math.Sqrt(float64(s.Inner)))
	m.plain(func() { m.normal(name("ssm_dt.weight"), s.Inner, s.StateHeads, 1/math.Sqrt(float64(s.StateHeads))) }) // rows are short
	m.random(name("ssm_dt.bias"), s.Inner, -3, 1)
	for _, norm := range []string{"ssm_dt_norm.weight", "ssm_b_norm.weight", "ssm_c_norm.weight"} {
		m.maybe(layer, norm, 1, 0.02)
	}
	rate := m.stream(name("ssm_a"))
	m.plain(func() {
		m.matrix(name("ssm_a"), s.Inner, s.StateSize, func(i int, row, _ []float32) {
			for j := range row {
				row[j] = -float32(math.Exp(float64(rate.normal(i*len(row) + j))))
			}
		})
	})
	m.random(name("ssm_d"), s.Inner, 1, 0.1)
	m.writer(name("ssm_out.weight"), s.Inner, false, func(i int) int { return i }, func(int) float32 { return weight })
}

// timeMix lists one block's time mixing of RWKV's form, and the shares of rows before of its channel mixing.
func (m *model) timeMix(layer int, in amplitudes, weight float32) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.time_mix_%s", layer, s) }
	s := m.stateSpace()
	shares := func(name string, n int, shape ...int) {
		k := m.stream(name)
		m.vector(name, n*m.Embd, func(i int) float32 { return float32(0.5 + 0.2*math.Tanh(float64(k.normal(i)))) })
		m.out[len(m.out)-1].Shape = shape
	}
	shares(name("lerp_fused.weight"), 6, m.Embd, 1, 1, 6)
	for _, product := range []string{"receptance", "key", "value"} {
		m.reader(name(product+".weight"), m.Embd, in, 1, nil)
	}
	for _, low := range []struct {
		name       string
		rank       int
		mean, size float32 // mean and size of the addend
	}{{"w", s.Ranks.Decay, -3, 1}, {"a", s.Ranks.Rate, 0, 0.5}, {"v", s.Ranks.Value, 0, 0.5}, {"g", s.Ranks.Gate, 0, 0}} {
		m.plain(func() {
			m.reader(name(low.name+"1.weight"), low.rank, in, 1, nil)
			m.normal(name(low.name+"2.weight"), m.Embd, low.rank, 1/math.Sqrt(float64(low.rank)))
		})
		if low.size > 0 {
			m.random(name(low.name+"0.weight"), m.Embd, low.mean, low.size)
		}
	}
	m.random(name("k_k.weight"), m.Embd, 0.85, 0.1)
	m.random(name("k_a.weight"), m.Embd, 1, 0.1)
	m.random(name("r_k.weight"), m.Embd, 0, 0.1)
	m.random(name("ln.weight"), m.Embd, 1, 0.02)
	m.random(name("ln.bias"), m.Embd, 0, 0.02)
	m.writer(name("output.weight"), m.Embd, false, func(i int) int { return i }, func(int) float32 { return weight })
	shares(fmt.Sprintf("blk.%d.channel_mix_lerp_k.weight", layer), 1, m.Embd, 1, 1)
}
