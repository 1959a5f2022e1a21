package model_test

import (
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// TestJoinedQKV: weights and biases of queries, keys and values may each be one tensor or three, in any family.
func TestJoinedQKV(t *testing.T) {
	for _, arch := range []string{"llama", "qwen2", "gptneox", "phi3"} {
		s := synth.Spec{Arch: arch, Layers: 2, Embd: 64, FF: 64, Heads: 4, KVHeads: 2, Type: quant.F16, Seed: 3}
		if arch == "gptneox" {
			s.KVHeads = 4
		}
		f := synthtest.File(t, s)
		tokens := []int32{5, 300, 7, 41, 12}
		want := evaluate(t, load(t, f, cpu.Options{Threads: 1}, model.Off), tokens, len(tokens))
		for _, joined := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
			g := withQKV(t, f, &s, map[string]bool{"weight": joined[0], "bias": joined[1]})
			if got := evaluate(t, load(t, g, cpu.Options{Threads: 1}, model.Off), tokens, len(tokens)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: weights joined: %v, biases joined: %v: other logits", arch, joined[0], joined[1])
			}
		}
	}
}

// withQKV returns f with weights and biases of queries, keys and values in one tensor each where joined says so, else in
// three.
func withQKV(t *testing.T, f *gguf.File, s *synth.Spec, joined map[string]bool) *gguf.File {
	t.Helper()
	head := s.Embd / s.Heads
	rows := []int{s.Heads * head, s.KVHeads * head, s.KVHeads * head}
	var out []gguf.Source
	for _, w := range f.Tensors {
		var layer int
		var part, kind string
		if _, err := fmt.Sscanf(w.Name, "blk.%d.attn_", &layer); err == nil {
			for _, p := range []string{"q", "k", "v", "qkv"} {
				for _, k := range []string{"weight", "bias"} {
					if w.Name == fmt.Sprintf("blk.%d.attn_%s.%s", layer, p, k) {
						part, kind = p, k
					}
				}
			}
		}
		name := func(p string) string { return fmt.Sprintf("blk.%d.attn_%s.%s", layer, p, kind) }
		one := func(p string, rows int, data ...[]byte) {
			shape := []int{rows}
			if kind == "weight" {
				shape = []int{s.Embd, rows}
			}
			out = append(out, gguf.Source{Name: name(p), Type: w.Type, Shape: shape, Write: func(to io.Writer) error {
				for _, d := range data {
					if _, err := to.Write(d); err != nil {
						return err
					}
				}
				return nil
			}})
		}
		switch {
		case part == "q" && joined[kind]:
			one("qkv", rows[0]+rows[1]+rows[2], w.Data, f.Tensor(name("k")).Data, f.Tensor(name("v")).Data)
		case (part == "k" || part == "v") && joined[kind]:
		case part == "qkv" && !joined[kind]:
			at, size := 0, len(w.Data)/(rows[0]+rows[1]+rows[2])
			for i, p := range []string{"q", "k", "v"} {
				one(p, rows[i], w.Data[at*size:(at+rows[i])*size])
				at += rows[i]
			}
		default:
			out = append(out, synthtest.Copied(w, w.Name))
		}
	}
	return synthtest.Made(t, f.Keys, out)
}
