package vulkan

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
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
		defer func() { d.every = nil }()
		for _, l := range layers {
			l.predictor, l.n, l.ff, l.members, l.seed = l.typ, 96, 352, 400, 4
			if l.all {
				l.members = l.ff
			}
			var outs [2][]float32
			var counts [2]compute.NeuronCount
			for i, every := range []bool{false, true} {
				d.every = &every
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

// TestReadsEvery: the first layer of a shape and share is timed both ways, and a later device takes what was kept. A
// share that nobody knows is not timed.
func TestReadsEvery(t *testing.T) {
	testenv.Thorough(t)
	folder := t.TempDir()
	w := &compute.SparseWeights{Up: &compute.Matrix{Type: quant.Q4_0, Rows: 320, Cols: 64}, Act: compute.Activation{Kind: compute.ReLU}, Share: 0.1}
	w.Gate = w.Up
	open := func() (*Device, *messages) {
		d, messages := software(t, Options{Cache: folder})
		d.long.timed = true
		return d, messages
	}
	d, messages := open()
	every := d.readsEvery(w, 2)
	unknown := *w
	unknown.Share = 0
	if d.readsEvery(&unknown, 2) {
		t.Error("every row is read where nobody knows how many are needed")
	}
	kept := loadTuned(d.pipelines.Beside("products", ".json"))
	if len(kept.Found) != 1 || d.Used() != 0 {
		t.Fatalf("kept is %v, and %d bytes are in use", kept.Found, d.Used())
	}
	for of, by := range kept.Found { // the other way
		kept.keep(of, map[bool]string{true: "every row", false: "members' rows"}[!every])
		if (by == "every row") != every {
			t.Errorf("every row: %t, and %q is kept", every, by)
		}
	}
	messages.check(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, messages = open()
	defer messages.check(t)
	defer d.Close()
	if d.readsEvery(w, 2) == every {
		t.Error("what was kept is not taken")
	}
}
