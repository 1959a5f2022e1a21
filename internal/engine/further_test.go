package engine_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

var furtherSpec = synth.Spec{Arch: "glm4moe", Layers: 3, Embd: 64, FF: 32, Heads: 4, Type: quant.F16, Experts: 4, Used: 2, Activation: "silu", Seed: 3}

func openFile(t *testing.T, f *gguf.File, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestFurtherDrafts: drafts by the file's MTP layer, most of them wrong, change no logits.
func TestFurtherDrafts(t *testing.T) {
	f := synthtest.Further(t, furtherSpec, true)
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 2}), Limits: engine.Limits{Context: 128}}
	plain := openFile(t, f, o)
	o.Drafts.Most, o.Drafts.Further = 4, true
	guessing := openFile(t, f, o)
	rng := rand.New(rand.NewPCG(1, 2))
	prompt, text := make([]int32, 70), make([]int32, 50)
	for _, to := range [][]int32{prompt, text} {
		for i := range to {
			to[i] = rng.Int32N(int32(plain.Config().Vocab))
		}
	}
	sums := func(e *engine.Engine) []uint64 {
		d := &dictation{text: text, prompt: len(prompt)}
		if _, err := e.Generate(t.Context(), engine.Request{Prompt: prompt, Max: len(text), Sampler: d, IgnoreEOG: true}, nil); err != nil {
			t.Fatal(err)
		}
		return d.sums
	}
	want := sums(plain)
	for range 2 { // the second time the prompt is in the cache
		if !slices.Equal(sums(guessing), want) {
			t.Error("logits with guesses of a further layer are not those without")
		}
	}
	without, err := (&engine.Options{Limits: engine.Limits{Context: 128}}).Memory(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	o = engine.Options{Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 4, Further: true}}
	with, err := o.Memory(f, placement.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	for room, want := range map[int64]bool{with: true, with - 1: true, without - 1: false} { // without the layer it takes more than without drafts
		if o.Fits(f, placement.Layout{}, room) != want {
			t.Errorf("of %d bytes, %d without drafts, %d have room for it: %v", with, without, room, !want)
		}
	}
	if least := int64(len(f.Tensor("blk.2.nextn.shared_head_head.weight").Data) + len(f.Tensor("blk.2.attn_q.weight").Data)); with-without < least {
		t.Errorf("%d bytes of memory with the further layer, %d without", with, without)
	}
	if guessing.CacheBytes()*2 != plain.CacheBytes()*3 {
		t.Errorf("a cache of %d bytes for two layers and a further one, %d without", guessing.CacheBytes(), plain.CacheBytes())
	}
}

// TestRecurrentFurtherDrafts: in a model with recurrent layers, drafts by the MTP layer change no logits either. The
// layers' states are restored after wrong drafts.
func TestRecurrentFurtherDrafts(t *testing.T) {
	f := synthtest.Further(t, synth.Spec{Arch: "qwen35", Type: quant.F32, Layers: 6, Embd: 64, FF: 128, Heads: 2, HeadDim: 32, Seed: 5}, false)
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 256}}
	plain := openFile(t, f, o)
	o.Drafts.Most, o.Drafts.Further, o.Drafts.NoLookup = 3, true, true
	guessing := openFile(t, f, o)
	engine.SetTimes(guessing, cheapGuesses)
	rng := rand.New(rand.NewPCG(1, 2))
	prompt := randomTokens(rng, 40)
	own, res := greedy(t, guessing, prompt, 60)
	if want, _ := greedy(t, plain, prompt, 60); !slices.Equal(own, want) {
		t.Errorf("%v with guesses of a further layer, %v without", own, want)
	}
	if res.FurtherDrafted == 0 || res.FurtherAccepted == res.FurtherDrafted {
		t.Errorf("%d of %d guesses came: too many or too few to tell", res.FurtherAccepted, res.FurtherDrafted)
	}
	if s, u := guessing.CacheBytes(), plain.CacheBytes(); s <= u {
		t.Errorf("the cache takes %d bytes with a further layer and room for taking states back, %d without", s, u)
	}
}

// TestFurtherHidden: an MTP layer that knows the second next token only from the hidden state drafts right. Layers add
// nothing to the embeddings. Row v+1 of the head is token v's embedding, and so is row v+2 of the MTP layer's own head.
func TestFurtherHidden(t *testing.T) {
	f := countingModel(t, "glm4moe", 1)
	counts(t, openFile(t, f, engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 1, Further: true}}))
}

// TestSeveralFurtherLayers: each of several MTP layers drafts the token of its number, and all are right. The head of
// layer k knows the token k further, and no layer drafts twice.
func TestSeveralFurtherLayers(t *testing.T) {
	for _, family := range []string{"glm4moe", "step35", "mimo2"} {
		t.Run(family, func(t *testing.T) {
			e := openFile(t, countingModel(t, family, 3), engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 5, Further: true, NoLookup: true}})
			engine.SetTimes(e, cheapGuesses)
			if drafted := counts(t, e); drafted <= 60/2 { // of 60 tokens, more than drafts of one token could be
				t.Errorf("%d tokens were drafted", drafted)
			}
		})
	}
}

// TestFurtherHiddenOnGPU: the MTP layer drafts right on whichever devices the model's layers are.
func TestFurtherHiddenOnGPU(t *testing.T) {
	testenv.Thorough(t)
	f := countingModel(t, "glm4moe", 3)
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	whole := testenv.Exhaustive(t)
	for name, plan := range furtherPlans(c) {
		if name != "mixed and further" && name != "head" && !whole {
			continue
		}
		t.Run(name, func(t *testing.T) {
			e := openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 1, Further: true, Hot: engine.HotNever}}, plan)
			engine.SetTimes(e.Engine, cheapGuesses)
			counts(t, e.Engine)
		})
	}
}

// counts checks that all drafts of countingModel are accepted, and returns how many there are.
func counts(t *testing.T, e *engine.Engine) (drafted int) {
	t.Helper()
	accepted := 0
	for at := int32(100); at < 150 && drafted == 0; at += 5 { // on a busy machine drafts may not pay off in one text
		got, res := greedy(t, e, []int32{at - 2, at - 1, at}, 60)
		for i, id := range got {
			if id != at+1+int32(i) {
				t.Fatalf("the model that counts says %v behind %d", got, at)
			}
		}
		drafted, accepted = drafted+res.FurtherDrafted, accepted+res.FurtherAccepted
	}
	if drafted == 0 || accepted != drafted {
		t.Errorf("%d of %d guesses came", accepted, drafted)
	}
	return drafted
}

// furtherPlans are plans of layers on lavapipe: all layers, some neurons or experts of some layers, only the head, and
// all layers on two GPUs. Each has the MTP layer in RAM or on the head's GPU.
func furtherPlans(c model.Config) map[string]planner.Plan {
	units := max(c.FF, c.Experts.Count)
	mixed := share(c.Layers, units/2)
	mixed[c.Layers-1] = compute.Place{Split: compute.Split{Tier: compute.RAM}}
	head := make([]compute.Place, c.Layers+1)
	for l := range c.Layers {
		head[l].Tier = compute.RAM
	}
	head[c.Layers].Attention = true
	plans := map[string]planner.Plan{
		"whole": gigabyte(share(c.Layers, units)), "mixed": gigabyte(mixed), "head": gigabyte(head), "two": two(cut(share(c.Layers, units), 1), hybrid.Streaming{}),
	}
	for name, p := range maps.Clone(plans) {
		p.Places = slices.Clone(p.Places)
		p.Places[c.Layers].Further = true
		plans[name+" and further"] = p
	}
	return plans
}

// TestFurtherDraftsOnGPU: drafts by the MTP layer change no token, on whichever devices it and the model's layers are.
func TestFurtherDraftsOnGPU(t *testing.T) {
	testenv.Thorough(t)
	whole := testenv.Exhaustive(t)
	for family, spec := range map[string]synth.Spec{
		"glm4moe":   furtherSpec,
		"deepseek2": {Arch: "deepseek2", Layers: 3, Embd: 64, FF: 32, Heads: 4, Type: quant.F16, Experts: 4, Used: 2, Activation: "silu", Seed: 3},
		"qwen35":    {Arch: "qwen35", Type: quant.F16, Layers: 6, Embd: 64, FF: 128, Heads: 2, HeadDim: 32, Seed: 5},
	} {
		f := synthtest.Further(t, spec, family == "glm4moe")
		c, err := model.ReadConfig(f, "")
		if err != nil {
			t.Fatal(err)
		}
		prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 40)
		for name, plan := range furtherPlans(c) {
			mixed := strings.HasPrefix(name, "mixed")
			if family != "glm4moe" && !mixed || (name != "mixed and further" || family == "deepseek2") && !whole {
				continue
			}
			t.Run(family+" "+name, func(t *testing.T) {
				text := func(further bool) []int32 {
					e := openGPU(t, f, engine.Options{Limits: engine.Limits{Context: 256}, Drafts: engine.Drafts{Most: 3, Further: further, NoLookup: true, Hot: engine.HotNever}}, plan)
					engine.SetTimes(e.Engine, cheapGuesses)
					ids, res := greedy(t, e.Engine, prompt, 24)
					if guessed := res.FurtherDrafted > 0; guessed != further {
						t.Errorf("%d guesses of the further layer", res.FurtherDrafted)
					}
					return ids
				}
				if got, want := text(true), text(false); !slices.Equal(got, want) {
					t.Errorf("%v with guesses of a further layer, %v without", got, want)
				}
			})
		}
	}
}

// countingModel returns TestFurtherHidden's model, of a family, with that many MTP layers.
func countingModel(t *testing.T, family string, further int) *gguf.File {
	spec := furtherSpec
	spec.Arch, spec.Layers = family, 2+further
	f := synthtest.FurtherLayers(t, spec, further, true)
	rng := rand.New(rand.NewPCG(3, 4))
	width, vocab := f.Tensor("token_embd.weight").Shape[0], f.Tensor("token_embd.weight").Rows()
	embd := make([]float32, width*vocab)
	for i := range embd {
		embd[i] = float32(rng.NormFloat64())
	}
	rolled := func(by int) []float32 {
		return append(slices.Clone(embd[(vocab-by)*width:]), embd[:(vocab-by)*width]...)
	}
	join := make([]float32, 2*width*width) // the hidden state alone
	for i := range width {
		join[i*2*width+width+i] = 1
	}
	made := map[string][]float32{"token_embd.weight": embd, "output.weight": rolled(1)}
	for k := range further {
		of := fmt.Sprintf("blk.%d.nextn.", 2+k)
		made[of+"shared_head_head.weight"], made[of+"eh_proj.weight"] = rolled(2+k), join
	}
	var tensors []gguf.Source
	for _, w := range f.Tensors {
		src := synthtest.Copied(w, w.Name)
		if data, ok := made[w.Name]; ok {
			src = synthtest.Floats(w.Name, data, w.Shape...)
			delete(made, w.Name)
		} else if strings.Contains(w.Name, "attn_output") || strings.Contains(w.Name, "ffn_down") {
			src.Write = func(to io.Writer) error {
				_, err := to.Write(make([]byte, len(w.Data)))
				return err
			}
		}
		tensors = append(tensors, src)
	}
	if data, ok := made["output.weight"]; ok {
		tensors = append(tensors, synthtest.Floats("output.weight", data, width, vocab))
	}
	return synthtest.Made(t, f.Keys, tensors)
}

// TestNoRoomForFurtherLayer: if RAM has room only for the model, one line says so and the model runs without its MTP
// layer. If it has no room for the model either, there is an error and no such line.
func TestNoRoomForFurtherLayer(t *testing.T) {
	f := synthtest.Further(t, furtherSpec, true)
	var lines []string
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: 1}), Limits: engine.Limits{Context: 128}, Drafts: engine.Drafts{Most: 4, Further: true, NoLookup: true}, Notice: func(line string) { lines = append(lines, line) }}
	need := func(o engine.Options) int64 {
		n, err := o.Memory(f, placement.Layout{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	plain := o
	plain.Drafts.Further = false
	with, without := need(o), need(plain)
	for _, c := range []struct {
		available int64
		lines     int
	}{{with, 0}, {with - 1, 1}, {without, 1}} {
		lines = nil
		engine.SetAvailable(t, c.available)
		e := openFile(t, f, o)
		engine.SetTimes(e, cheapGuesses)
		if len(lines) != c.lines || c.lines > 0 && !strings.Contains(lines[0], "the layer that predicts a further token guesses nothing") {
			t.Errorf("%d bytes available where %d are needed, %d without the layer: the lines %q", c.available, with, without, lines)
		}
		if _, res := greedy(t, e, []int32{5, 6, 7}, 40); (res.FurtherDrafted == 0) != (c.lines > 0) {
			t.Errorf("%d guesses with %d bytes available where %d are needed", res.FurtherDrafted, c.available, with)
		}
	}
	lines = nil
	engine.SetAvailable(t, without-1)
	var full *engine.MemoryError
	if _, err := engine.Open(t.Context(), f, o); !errors.As(err, &full) || len(lines) > 0 {
		t.Errorf("error %v and the lines %q where there is no room for the model", err, lines)
	}
}
