package hybrid_test

import (
	"errors"
	"math/bits"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// idleTapes is a GPU that leaves the host time.
type idleTapes struct{ *tapes }

type idleTape struct {
	*tape
	idle func(ready, done func() bool)
	legs int
	turn int // where the last one ended
}

func (c *idleTapes) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	if c.kept[seg] == nil {
		c.kept[seg] = newTape(c.Device, seg)
		body(compute.NewVerbs(&idleTape{tape: c.kept[seg]}))
	}
	return c.tapes.Run(seg, p, body)
}

func (t *idleTape) Idles() bool { return true }

func (t *idleTape) Meanwhile(f func(ready, done func() bool)) { t.idle = f }

// Overlap simulates the earliest or the latest end of the host's idle time, alternating. Idle time begins where the
// previous turn ended, and ends when this one begins.
func (t *idleTape) Overlap(host func(p *compute.Params) error, during func()) {
	idle := t.idle
	t.idle = nil
	meanwhile := func(*compute.Params) error {
		if idle != nil {
			looks := 0
			look := func() bool { looks++; return looks > 2 }
			idle(look, look)
		}
		return nil
	}
	if t.legs++; t.legs%2 == 0 {
		t.ops = slices.Insert(t.ops, t.turn, meanwhile)
		t.tape.Overlap(host, during)
	} else {
		t.tape.Overlap(func(p *compute.Params) error { return errors.Join(meanwhile(p), host(p)) }, during)
	}
	t.turn = len(t.ops)
}

// reader is a host that keeps what it was told to read ahead, and what sets it then computed.
type reader struct {
	*cpu.Device
	whole        int // layers without a set
	last         []uint32
	guess        []uint32
	hits, missed int // neurons of sets that had been predicted
	useless      int // predicted, but not in the set
}

func (r *reader) FillSet(s compute.Set, words []uint32, perRow, first int) {
	r.Device.FillSet(s, words, perRow, first)
	if s.Rows != 1 {
		return
	}
	r.last = make([]uint32, (s.N+31)/32)
	r.SetWords(s, r.last, len(r.last))
	for i, g := range r.guess { // nil: this is a prediction itself, or the first layer's
		r.hits += bits.OnesCount32(g & r.last[i])
		r.missed += bits.OnesCount32(r.last[i] &^ g)
		r.useless += bits.OnesCount32(g &^ r.last[i])
	}
	r.guess = nil
}

func (r *reader) ReadAhead(s compute.Set, w compute.SparseWeights, done func() bool) {
	r.Device.ReadAhead(s, w, done)
	if s.Mem == nil {
		r.whole++
		return
	}
	r.guess = r.last
}

// TestReadAhead: reading ahead while the host waits changes no byte. Without sets the host reads ahead in every layer that
// is split and computes one row. With sets it reads most of each set, in every such layer but the first.
func TestReadAhead(t *testing.T) {
	place := func(hot int) compute.Place {
		return compute.Place{Split: compute.Split{Bound: hot}, Attention: true, Predictor: true}
	}
	plan := []compute.Place{place(160), place(33), place(96), {Attention: true}}
	const alone = layers*2*5 + 2 // layers that compute one row: all in steps of one token, the last in a prompt's
	for _, c := range []struct {
		spec synth.Spec
		mode model.SparseMode
	}{
		{synth.Spec{Arch: "llama", Type: quant.F32}, model.Off},
		{synth.Spec{Arch: "llama", Type: quant.Q4_0}, model.Exact},
		{synth.Spec{Arch: "llama", Type: quant.F16, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "bamboo", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict},
		{synth.Spec{Arch: "opt", Type: quant.F16, Magic: "PWRI"}, model.Predict},
	} {
		f := synthtest.Sparse(t, c.spec, layers)
		attention := []bool{true, true, true}
		o := model.Options{Neurons: model.Neurons{Sparse: c.mode}, Places: plan}
		want, wantUse := logits(t, f, hybrid.New(newTapes(host(t), false), host(t), attention), o)
		r := &reader{Device: host(t)}
		got, use := logits(t, f, hybrid.New(&idleTapes{newTapes(host(t), false)}, r, attention), o)
		name := c.spec.Arch + " " + c.mode.String()
		if apart(got, want) != 0 || !slices.Equal(use, wantUse) {
			t.Errorf("%s: other bytes, or other neurons, where the host reads ahead", name)
		}
		guessed := r.hits + r.useless
		switch {
		case c.mode != model.Predict:
			if r.whole != alone || guessed != 0 {
				t.Errorf("%s: %d layers were read ahead of %d, and %d neurons guessed", name, r.whole, alone, guessed)
			}
		case c.spec.Arch == "opt": // predictions do not support its norm
			if guessed != 0 {
				t.Errorf("%s: %d neurons were guessed", name, guessed)
			}
		default:
			t.Logf("%s: guessed %d of %d neurons, and %d others", name, r.hits, r.hits+r.missed, r.useless)
			if r.whole != 0 || 2*r.hits < r.hits+r.missed || r.useless > r.hits {
				t.Errorf("%s: guessed %d of %d neurons, and %d others", name, r.hits, r.hits+r.missed, r.useless)
			}
		}
	}
}
