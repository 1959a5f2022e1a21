package modelcost_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestAdapters: adapters of a layer's matrices have the layer's place, in floats and with ranks of whole blocks. Of
// matrices of neurons, one half has the neurons' place.
func TestAdapters(t *testing.T) {
	f := synthtest.File(t, synth.Spec{Arch: "llama", Layers: 2, Embd: 64, FF: 96, Heads: 4, Type: quant.F16, Seed: 1})
	adapter := func(tensor string, cols, rows int) model.Adapter {
		path := filepath.Join(t.TempDir(), "adapter.gguf")
		source := func(end string, cols, rows int) gguf.Source {
			return gguf.Source{Name: tensor + end, Type: quant.F16, Shape: []int{cols, rows}, Write: func(w io.Writer) error {
				_, err := w.Write(make([]byte, 2*rows*cols))
				return err
			}}
		}
		if err := gguf.Create(t.Context(), path, "GGUF", nil, []gguf.Source{source(".lora_a", cols, 5), source(".lora_b", 5, rows)}, nil); err != nil {
			t.Fatal(err)
		}
		file, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return model.Adapter{File: file, Scale: 1}
	}
	cost := func(adapters ...model.Adapter) modelcost.Cost {
		b, err := modelcost.Of(f, modelcost.Options{Context: 128, Law: modelcost.UsualLaw(), Adapters: adapters})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	without := cost()
	with := cost(adapter("blk.1.attn_q.weight", 64, 64), adapter("output.weight", 64, 512))
	const rank = 32
	for l, want := range []int64{0, 4 * rank * (64 + 64)} {
		if got := with.Model.Layers[l].Attention - without.Model.Layers[l].Attention; got != want {
			t.Errorf("layer %d takes %d bytes more, want %d", l, got, want)
		}
	}
	if got, want := with.Model.Head-without.Model.Head, int64(4*rank*(64+512)); got != want {
		t.Errorf("the head takes %d bytes more, want %d", got, want)
	}
	neurons := cost(adapter("blk.0.ffn_up.weight", 64, 96), adapter("blk.0.ffn_down.weight", 96, 64))
	if neurons.Mode != model.Exact {
		t.Errorf("with an adapter of neurons the mode is %v", neurons.Mode)
	}
	then, now := without.Model.Layers[0], neurons.Model.Layers[0]
	if got, want := now.Units.Size-then.Units.Size, int64(4*rank*2); got != want {
		t.Errorf("a neuron takes %d bytes more, want %d", got, want)
	}
	if got, want := now.Attention-then.Attention, int64(4*rank*(64+64)); got != want {
		t.Errorf("what lies with the attention takes %d bytes more, want %d", got, want)
	}
}
