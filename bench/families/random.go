package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// tries bounds the shapes that are drawn for one that a family can have.
const tries = 1000

// random returns n models of random shapes of a family. Widths are whole blocks of 32 elements.
func random(f lineage.Family, n int, seed uint64) (all []synth.Spec) {
	name := fnv.New64a()
	name.Write([]byte(f.Name))
	r := rand.New(rand.NewPCG(seed, name.Sum64()))
	for range tries {
		if len(all) == n {
			break
		}
		if s := draw(f, r); s.Check() == nil {
			all = append(all, s)
		}
	}
	return all
}

// What llama.cpp knows of a family. denseFirst are families that may have models with first layers without experts.
// headsFill are families that only have models with heads that are together as wide as the model. ownHead are families
// with a head that is never the embedding.
var (
	denseFirst = []string{"deepseek", "deepseek2", "ernie4_5-moe", "glm4moe", "lfm2moe"}
	headsFill  = []string{
		"chatglm", "cohere2", "command-r", "deepseek", "exaone4", "jais2", "lfm2", "lfm2moe", "nemotron", "olmo2", "olmoe", "phi3", "qwen2", "qwen2moe", "qwen2vl", "stablelm", "starcoder2",
	}
	ownHead = []string{"baichuan", "dbrx", "gpt-oss", "gptneox", "internlm2", "minimax-m2", "nemotron", "olmo2", "olmoe", "qwen2moe", "stablelm"}
)

// leastLayers returns the fewest layers of a family's models with one of each kind: llama.cpp fails an assertion if a
// kind's cache has none, and refuses tensors that no layer reads.
func leastLayers(f lineage.Family) int {
	switch {
	case f.Name == "llama4":
		return 4
	case f.StateSpace && !f.OnlyRecurrent() && f.AllLayers == 0:
		return 3 // the last layer of these synthetic models has attention
	case f.WindowHeads:
		return 2
	}
	return 1
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// draw returns a shape that a family may have.
func draw(f lineage.Family, r *rand.Rand) synth.Spec {
	s := synth.Spec{
		Arch: f.Name, Layers: max(leastLayers(f), 1+r.IntN(6)), Heads: pick(r, 1, 2, 3, 4, 5, 6, 8, 12), Vocab: 512 + r.IntN(300), FF: 32 * (1 + r.IntN(12)),
		Activation: f.Activation.String(), Seed: r.Uint64(), Tied: !slices.Contains(ownHead, f.Name) && r.IntN(4) == 0,
	}
	if f.Experts != nil && (!f.Experts.Optional || r.IntN(3) > 0) {
		s.Experts = 2 + r.IntN(22)
	}
	s.HeadDim = 8 * (2 + r.IntN(15))
	s.Embd = 32 * (2 + r.IntN(12))
	if f.HeadsFillWidth || r.IntN(2) == 0 {
		s.Embd = s.Heads * s.HeadDim
	}
	if s.KVHeads = pick(r, 1, 2, 3, 4, s.Heads); slices.Contains(ownKeys, f.Name) || f.Latent {
		s.KVHeads = s.Heads
	}
	if s.Experts > 0 {
		s.Used = 1 + r.IntN(min(8, s.Experts))
	}
	if s.Experts > 0 && f.Experts.Counted {
		s.Shared = 1 + r.IntN(3)
	}
	if s.Experts > 0 && s.Layers > 1 && slices.Contains(denseFirst, f.Name) {
		s.Dense = r.IntN(min(3, s.Layers))
	}
	if slices.Contains(headsFill, f.Name) {
		s.Embd = s.Heads * s.HeadDim
	}
	if f.Latent {
		s.RopeDims, s.Latent, s.QueryLatent = 8*(1+r.IntN(s.HeadDim/8)), 32*(1+r.IntN(5)), 32*(1+r.IntN(5))
		s.Keys = latentKeys(f, &s, r)
	} else if f.PartialRotary && r.IntN(2) == 0 {
		s.RopeDims = 8 * (1 + r.IntN(s.HeadDim/8))
	}
	return s
}

// latentKeys returns keys of DeepSeek's form: groups of experts, the scores, whether weights are divided by their sum,
// and a factor of the weights.
func latentKeys(f lineage.Family, s *synth.Spec, r *rand.Rand) (keys []gguf.KV) {
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: f.Name + ".expert_" + key, Value: v}) }
	add("gating_func", uint32(1+r.IntN(2)))
	add("weights_norm", r.IntN(2) == 0)
	add("weights_scale", float32(1)+float32(r.IntN(4))/2)
	if groups := 2 + r.IntN(3); r.IntN(2) == 0 {
		each := 2 + r.IntN(4)
		s.Experts = groups * each
		used := 1 + r.IntN(groups-1)
		s.Used = min(s.Used, used*each)
		add("group_count", uint32(groups))
		add("group_used_count", uint32(used))
	}
	return keys
}

// title returns what a table calls a model.
func title(f lineage.Family, s synth.Spec) string {
	if s.HeadDim == 0 { // the usual shape
		if s.Experts > 0 {
			return fmt.Sprintf("%s with experts, %d layers", f.Name, s.Layers)
		}
		return fmt.Sprintf("%s, %d layers", f.Name, s.Layers)
	}
	text := fmt.Sprintf("%s, %d layers, %d wide, %d of %d heads of %d", f.Name, s.Layers, s.Embd, s.KVHeads, s.Heads, s.HeadDim)
	if s.Experts > 0 {
		text += fmt.Sprintf(", %d of %d experts of %d", s.Used, s.Experts, s.FF)
	} else {
		text += fmt.Sprintf(", %d neurons", s.FF)
	}
	for _, more := range []struct {
		n    int
		what string
	}{{s.Dense, "dense layers"}, {s.Shared, "shared"}, {s.RopeDims, "rotated"}, {s.Latent, "latent"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	for _, k := range s.Keys {
		text += fmt.Sprintf(", %s %v", k.Key[len(f.Name)+1:], k.Value)
	}
	return text
}
