package model_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestAssistantFits: a damaged draft model of Gemma 4, or one for another model, is refused in a sentence.
func TestAssistantFits(t *testing.T) {
	spec := synth.Spec{Arch: "gemma4", Layers: 6, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, HeadDim: 16, Seed: 5, Activation: "gelu"}
	f := synthtest.File(t, spec)
	other := func(change func(s *synth.Spec)) *gguf.File {
		s := spec
		change(&s)
		return synthtest.File(t, s)
	}
	with := func(key string, value any) *gguf.File {
		head := synthtest.Assistant(t, f, 3)
		head.Set("gemma4-assistant."+key, value)
		return head
	}
	lacking := func(name string) *gguf.File {
		head := synthtest.Assistant(t, f, 3)
		var tensors []gguf.Source
		for _, w := range head.Tensors {
			if w.Name != name {
				tensors = append(tensors, synthtest.Copied(w, w.Name))
			}
		}
		return synthtest.Made(t, slices.Clone(head.Keys), tensors)
	}
	for _, c := range []struct {
		f, head *gguf.File
		want    string // empty: it fits
	}{
		{f, synthtest.Assistant(t, f, 3), ""},
		{other(func(s *synth.Spec) { s.Embd = 96 }), synthtest.Assistant(t, f, 3), "hidden states of 64 elements, and the model's have 96"},
		{other(func(s *synth.Spec) { s.KVHeads = 4 }), synthtest.Assistant(t, f, 3), "keys and values of 2 heads of 16 and 16 elements, and the model has 4 of 16 and 16"},
		{other(func(s *synth.Spec) { s.HeadDim = 32 }), synthtest.Assistant(t, f, 3), "and the model has 2 of 32 and 32"},
		{other(func(s *synth.Spec) { s.Vocab = 300 }), synthtest.Assistant(t, f, 3), "the draft model has 512 tokens, and the model 300"},
		{other(func(s *synth.Spec) { s.Arch = "llama" }), synthtest.Assistant(t, f, 3), "a kind of layer that the model does not have"},
		{f, with("attention.sliding_window", uint32(1)), "a window of 1 position"},
		{f, with("nextn_predict_layers", uint32(5)), "5 of 4 layers"},
		{f, lacking("nextn.pre_projection.weight"), `tensor "nextn.pre_projection.weight" is missing`},
		{f, lacking("blk.2.attn_q.weight"), `tensor "blk.2.attn_q.weight" is missing`},
	} {
		config, err := model.ReadConfig(c.f, "")
		if err != nil {
			t.Fatal(err)
		}
		switch err := config.TakeHead(c.f, c.head); {
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("error %v, which does not say %q", err, c.want)
		}
	}
}
