package convert_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestDraftReference: converted draft models give the logits of the published definition, from the target model's
// states, keys and values, for several tokens in a row.
func TestDraftReference(t *testing.T) {
	for _, name := range []string{"gemma4-small", "gemma4-large"} {
		target, _ := readReference(t, "testdata/reference/"+name+".json")
		file, r := readReference(t, "testdata/reference/drafts/"+name+".json")
		for dev, open := range map[string]func() (compute.Device, error){
			"ref": func() (compute.Device, error) { return ref.New(), nil },
			"cpu": func() (compute.Device, error) { return cpu.New(cpu.Options{Threads: 2}) },
		} {
			t.Run(name+" "+dev, func(t *testing.T) {
				dev, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				m, err := model.Load(t.Context(), target, dev, model.Options{Further: true, Head: file, Batch: len(r.Tokens), Outputs: 1, Cache: compute.CacheSpec{Pages: 1}})
				if err != nil {
					t.Fatal(err)
				}
				last := len(r.Tokens) - 1
				p := compute.Params{Decode: last, Tokens: r.Tokens[:last], Seq: make([]int32, last), Pages: [][]int32{{0}}, Out: []int32{int32(last - 1)}, Before: [][]float32{nil}}
				for i := range last {
					p.Pos = append(p.Pos, int32(i))
				}
				forward := m.ForwardBoth
				if m.Drafting().Last {
					forward = m.ForwardLast
				}
				if err := forward(&p); err != nil {
					t.Fatal(err)
				}
				token, at := r.Tokens[last], last-1
				for i, want := range r.Logits {
					state, err := m.State(at)
					if err != nil {
						t.Fatal(err)
					}
					before := append([]float32(nil), state...)
					p := compute.Params{Draft: true, Decode: 1, Tokens: []int32{token}, Pos: []int32{int32(last)}, Seq: []int32{0}, Pages: [][]int32{{0}}, Out: []int32{0}, Before: [][]float32{before}}
					if err := m.ForwardFurther(&p); err != nil {
						t.Fatal(err)
					}
					got, err := m.Logits(0)
					if err != nil {
						t.Fatal(err)
					}
					near(t, fmt.Sprintf("draft %d", i), got, want, referenceTolerance)
					token, at = 0, 0
					for id, v := range want {
						if v > want[token] {
							token = int32(id)
						}
					}
				}
			})
		}
	}
}

// TestHeadReference: converted draft heads give the logits of the published definition from the inputs of the target
// model's layers: EAGLE-3 heads for several tokens in a row, DFlash heads for a block.
func TestHeadReference(t *testing.T) {
	const target = "testdata/reference/drafts/heads-target.json"
	f, of := readReference(t, target)
	for _, name := range []string{"eagle3", "eagle3-speculator", "dflash"} {
		head, r := readHead(t, "testdata/reference/drafts/"+name+".json", &of)
		for dev, open := range map[string]func() (compute.Device, error){
			"ref": func() (compute.Device, error) { return ref.New(), nil },
			"cpu": func() (compute.Device, error) { return cpu.New(cpu.Options{Threads: 2}) },
		} {
			t.Run(name+" "+dev, func(t *testing.T) {
				dev, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				m, err := model.Load(t.Context(), f, dev, model.Options{Further: true, Head: head, Batch: len(r.Tokens), Outputs: 4, Cache: compute.CacheSpec{Pages: 1}, CacheTypes: compute.CacheTypes{Key: compute.KVF32, Value: compute.KVF32}})
				if err != nil {
					t.Fatal(err)
				}
				last := len(r.Tokens) - 1
				step := func(tokens []int32, at int, before []float32) *compute.Params {
					p := &compute.Params{Decode: len(tokens), Tokens: tokens, Seq: make([]int32, len(tokens)), Pages: [][]int32{{0}}, Before: [][]float32{before}}
					for i := range tokens {
						p.Pos = append(p.Pos, int32(at+i))
					}
					return p
				}
				if err := m.ForwardBoth(step(r.Tokens[:last], 0, nil)); err != nil {
					t.Fatal(err)
				}
				if shape := m.Drafting(); shape.Block > 0 {
					tokens := []int32{r.Tokens[last]}
					for len(tokens) < shape.Block {
						tokens = append(tokens, shape.Mask)
					}
					p := step(tokens, last, nil)
					p.Draft, p.Out = true, []int32{0, 1, 2, 3}
					if err := m.ForwardFurther(p); err != nil {
						t.Fatal(err)
					}
					for i, want := range r.Logits {
						got, err := m.Logits(i)
						if err != nil {
							t.Fatal(err)
						}
						near(t, fmt.Sprintf("row %d", i), got, want, referenceTolerance)
					}
					return
				}
				token, at := r.Tokens[last], last-1
				for i, want := range r.Logits {
					state, err := m.State(at)
					if err != nil {
						t.Fatal(err)
					}
					p := step([]int32{token}, last+i, slices.Clone(state))
					p.Draft, p.Out = true, []int32{0}
					if err := m.ForwardFurther(p); err != nil {
						t.Fatal(err)
					}
					got, err := m.Logits(0)
					if err != nil {
						t.Fatal(err)
					}
					near(t, fmt.Sprintf("draft %d", i), got, want, referenceTolerance)
					best := 0
					for row, v := range want {
						if v > want[best] {
							best = row
						}
					}
					shape := m.Drafting()
					token, at = shape.Token(int32(best)), 0
				}
			})
		}
	}
}

// TestHeadFolders: heads need the folder of their own model, and other models need none.
func TestHeadFolders(t *testing.T) {
	_, of := readReference(t, "testdata/reference/drafts/heads-target.json")
	target := of.folder(t)
	read := func(name string, change func(c map[string]any)) string {
		b, err := os.ReadFile("testdata/reference/drafts/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var r reference
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		change(r.Config)
		return r.folder(t)
	}
	for _, c := range []struct{ dir, target, want string }{
		{read("eagle3", func(map[string]any) {}), "", "--target-model-dir"},
		{target, target, "leave --target-model-dir out"},
		{read("eagle3", func(c map[string]any) { c["vocab_size"] = 49.0 }), target, "vocab_size"},
		{read("eagle3", func(c map[string]any) {
			c["eagle_config"] = map[string]any{"eagle_aux_hidden_state_layer_ids": []int{1, 3, 6}}
		}), target, "three layers of a model of 5"},
		{read("dflash", func(c map[string]any) {
			c["dflash_config"] = map[string]any{"mask_token_id": 47, "target_layer_ids": []int{0, 5}}
		}), target, "are not layers of a model of 5"},
		{read("dflash", func(c map[string]any) { c["dflash_config"] = map[string]any{"conv_kernel_size": 4} }), target, "DFlash 2"},
		{read("eagle3", func(c map[string]any) { c["draft_vocab_size"] = 21.0 }), target, "lm_head.weight"},
	} {
		err := convert.HuggingFace(t.Context(), c.dir, filepath.Join(t.TempDir(), "head.gguf"), convert.Options{Output: convert.OutputOf(quant.F32), Target: c.target})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, which does not say %q", err, c.want)
		}
	}
	likeLlama := read("eagle3", func(c map[string]any) { c["architectures"] = []string{"LlamaForCausalLM"} })
	out := filepath.Join(t.TempDir(), "head.gguf")
	if err := convert.HuggingFace(t.Context(), likeLlama, out, convert.Options{Output: convert.OutputOf(quant.F16), Target: target}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if arch, _, _ := f.String("general.architecture"); arch != "eagle3" || f.Tensor("d2t").Type != quant.I64 {
		t.Errorf("architecture %q with d2t of %s", arch, f.Tensor("d2t").Type)
	}
}

// readReference converts the folder of a reference.
func readReference(t *testing.T, path string) (*gguf.File, reference) {
	t.Helper()
	return readHead(t, path, nil)
}

// readHead converts the folder of a reference, which is a head's for the model of another.
func readHead(t *testing.T, path string, of *reference) (*gguf.File, reference) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "model.gguf")
	o := convert.Options{Output: convert.OutputOf(quant.F32)}
	if of != nil {
		o.Target = of.folder(t)
	}
	if err := convert.HuggingFace(t.Context(), r.folder(t), out, o); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, r
}
