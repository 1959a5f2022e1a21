package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// furtherNames says where a folder keeps an MTP layer, and how it names the parts that other layers lack. For norm,
// embd and head the first name that the folder has counts; spaces separate them.
type furtherNames struct {
	block                                        string // prefix of its block's tensors
	join, embdNorm, hiddenNorm, norm, embd, head string
}

// mtp is the prefix of MTP layers' tensors in folders that keep them apart from the other layers.
const mtp = "mtp."

// findFurther returns the MTP layers, if the folder holds any and the family's files may. They follow the other layers,
// or are separate: with norms and a product that they share, as in Qwen3-Next, Qwen3.5 and K-EXAONE, or each with its
// own, as in MiMo.
func (p *plan) findFurther(c *config, root, layer string) (found []furtherNames) {
	if !p.family.Further || p.pairs != nil {
		return nil
	}
	const most = 16
	if p.source.Tensors[mtp+"pre_fc_norm_hidden.weight"] != nil {
		for i := range most {
			n := furtherNames{
				block: fmt.Sprintf(mtp+"layers.%d.", i), join: mtp + "fc", embdNorm: mtp + "pre_fc_norm_embedding", hiddenNorm: mtp + "pre_fc_norm_hidden", norm: mtp + "norm",
				embd: mtp + "embed_tokens", head: mtp + "shared_head.head",
			}
			if p.source.Tensors[n.block+"input_layernorm.weight"] == nil {
				break
			}
			found = append(found, n)
		}
		if p.several = p.family.Delta && len(found) > 1; p.several {
			return nil
		}
		return found
	}
	own := func(from string) bool {
		if p.source.Tensors[from+"hnorm.weight"] == nil {
			return false
		}
		const shared, apart = "shared_head.", "transformer.shared_head."
		found = append(found, furtherNames{
			block: from, join: from + "eh_proj", embdNorm: from + "enorm", hiddenNorm: from + "hnorm", norm: from + apart + "norm " + from + shared + "norm",
			embd: from + "embed_tokens", head: from + apart + "output " + from + shared + "output " + from + shared + "head",
		})
		return true
	}
	for i := 0; i < most && own(fmt.Sprintf(root+mtp+"layers.%d.", i)); i++ {
	}
	for i := 0; i < min(c.Further, most) && len(found) == i && own(root+fmt.Sprintf(layer, c.Layers+i)); i++ {
	}
	for i, window := range c.FurtherWindows { // all of them must have the same window
		if window != c.FurtherWindows[0] && i < len(found) {
			return found[:i]
		}
	}
	return found
}

// withFurther returns keys of the model with n additional MTP layers.
func (c *config) withFurther(keys []gguf.KV, f lineage.Family, n int) []gguf.KV {
	for i := range keys {
		kv := &keys[i]
		name := strings.TrimPrefix(kv.Key, f.Name+".")
		switch v := kv.Value.(type) {
		case uint32:
			if name == "block_count" {
				kv.Value = v + uint32(n)
			}
		case []int32:
			of := map[string]func(s sizes) int{
				"feed_forward_length": func(s sizes) int { return s.FF }, "attention.head_count": func(s sizes) int { return s.Heads },
				"attention.head_count_kv": func(s sizes) int { return c.cachedHeads(f, s) },
			}[name]
			for l := len(v); of != nil && l < c.Layers+n; l++ {
				v = append(v, int32(of(c.sizes(l))))
			}
			kv.Value = v
		case []bool:
			for l := len(v); name == "attention.sliding_window_pattern" && len(c.FurtherWindows) > 0 && l < c.Layers+n; l++ {
				v = append(v, c.FurtherWindows[min(l-c.Layers, len(c.FurtherWindows)-1)])
			}
			kv.Value = v
		case []float32:
			if strings.HasPrefix(name, "swiglu_clamp_") && len(v) >= c.Layers {
				kv.Value = append(v[:c.Layers:c.Layers], append(slices.Clone(v[c.Layers:]), make([]float32, n)...)[:n]...)
			}
		}
	}
	return append(keys, gguf.KV{Key: f.Name + ".nextn_predict_layers", Value: uint32(n)})
}

// furtherParts plans the parts of MTP layer l in addition to a block. Its norms are stored as the norm before the head.
func (p *plan) furtherParts(c *config, l int, names *furtherNames) {
	stored := lineage.Same
	for _, t := range p.family.Outer {
		if t.Name == "output_norm.weight" {
			stored = t.Change
		}
	}
	for _, t := range []struct {
		name, source string
		shape        []int
		optional     bool // if it is missing, the model's own is used
	}{
		{"eh_proj", names.join, []int{c.Hidden, 2 * c.Hidden}, false},
		{"enorm", names.embdNorm, []int{c.Hidden}, false},
		{"hnorm", names.hiddenNorm, []int{c.Hidden}, false},
		{"embed_tokens", names.embd, []int{c.Vocab, c.Hidden}, true},
		{"shared_head_head", names.head, []int{c.Vocab, c.Hidden}, true},
		{"shared_head_norm", names.norm, []int{c.Hidden}, true},
	} {
		from := p.found("", strings.Fields(t.source), ".weight") + ".weight"
		if t.optional && p.source.Tensors[from] == nil {
			continue
		}
		w := p.add(fmt.Sprintf("blk.%d.nextn.%s.weight", l, t.name), from, t.shape...)
		if len(t.shape) == 1 && stored == lineage.PlusOne {
			w.change(plus(1))
		}
	}
	if last := names.block + "final_layernorm.weight"; p.source.Tensors[last] != nil { // as Ling's folders name it
		p.add(fmt.Sprintf("blk.%d.layer_output_norm.weight", l), last, c.Hidden)
	}
}

// leaveOutFurther marks the tensors of MTP layers as used if they are not planned, and says so.
func (p *plan) leaveOutFurther(c *config, notes func(string)) {
	left := false
	for name := range p.source.Tensors {
		_, rest, ok := strings.Cut("."+name, ".layers.")
		number, _, _ := strings.Cut(rest, ".")
		if l, err := strconv.Atoi(number); ok && err == nil && l >= c.Layers+p.further && l-c.Layers < c.Further {
			p.used[name], left = true, true
		}
		known := p.family.Delta || c.Further > 0
		if (strings.HasPrefix(name, mtp) && known || strings.HasPrefix(name, "model."+mtp)) && !p.used[name] {
			p.used[name], left = true, true
		}
	}
	if !left {
		return
	}
	why := ""
	if p.several {
		why = fmt.Sprintf(": the folder has several, and files of %s hold one at most", p.family.Name)
	}
	notes(fmt.Sprintf("%s: layers from %d on, which predict further tokens, are left out%s", p.source.Path, c.Layers+p.further, why))
}
