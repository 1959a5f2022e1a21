package vulkan

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestEveryRow: a layer gives the same bytes and counts whether the gate and up rows of all neurons are computed or
// those of the sets alone, and of one token it reads more.
func TestEveryRow(t *testing.T) {
	layers := []layer{
		{typ: quant.Q4_0, tokens: 1, gated: true},
		{typ: quant.Q4_0, tokens: 5, gated: true, all: true, columns: true},
		{typ: quant.F16, tokens: 3},
		{typ: quant.F32, tokens: 2, gated: true, apart: true},
	}
	on(t, nil, func(d *Device) {
		for _, l := range layers {
			l.predictor, l.n, l.ff, l.members, l.seed = l.typ, 96, 352, 400, 4
			if l.all {
				l.members = l.ff
			}
			var outs [2][]float32
			var counts [2]compute.NeuronCount
			for i, from := range []int{l.tokens + 1, l.tokens} {
				l.everyRow = from
				out, count := l.play(t, d)
				outs[i], counts[i] = slices.Clone(out), count
				d.reset()
			}
			sameBits(t, l.typ.String(), outs[1], outs[0])
			if some, every := counts[0].Bytes, counts[1].Bytes; every < some || l.tokens == 1 && every == some {
				t.Errorf("%+v: %d bytes are read of every row, and %d of some", l, every, some)
			}
			if counts[1].Bytes = counts[0].Bytes; counts[1] != counts[0] || counts[0].Active == 0 {
				t.Errorf("%+v: counted %+v of every row, and %+v of some", l, counts[1], counts[0])
			}
		}
	})
}
