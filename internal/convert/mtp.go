package convert

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
)

// furtherNames says where a folder keeps a layer that predicts a further token, and how it names the parts that other
// layers lack.
type furtherNames struct {
	block                                        string // what its block's tensors begin with
	join, embdNorm, hiddenNorm, norm, embd, head string
}

// mtp is the prefix of the tensors of the layer that predicts a further token in Qwen3-Next and Qwen3.5, whose folders
// keep it apart from the other layers.
const mtp = "mtp."

// findFurther returns the layers that predict further tokens, if the folder holds any and the family's files do.
func (p *plan) findFurther(c *config, root, layer string) (found []furtherNames) {
	if !p.family.Further || p.pairs != nil {
		return nil
	}
	if p.family.Delta {
		n := furtherNames{
			block: mtp + "layers.0.", join: mtp + "fc", embdNorm: mtp + "pre_fc_norm_embedding", hiddenNorm: mtp + "pre_fc_norm_hidden", norm: mtp + "norm",
			embd: mtp + "embed_tokens", head: mtp + "shared_head.head",
		}
		p.several = p.source.Tensors[mtp+"layers.1.input_layernorm.weight"] != nil
		if p.several || p.source.Tensors[n.hiddenNorm+".weight"] == nil {
			return nil
		}
		return []furtherNames{n}
	}
	for i := range c.Further {
		from := root + fmt.Sprintf(layer, c.Layers+i)
		if p.source.Tensors[from+"hnorm.weight"] == nil {
			return nil
		}
		found = append(found, furtherNames{
			block: from, join: from + "eh_proj", embdNorm: from + "enorm", hiddenNorm: from + "hnorm", norm: from + "shared_head.norm",
			embd: from + "embed_tokens", head: from + "shared_head.head",
		})
	}
	return found
}

// furtherParts plans what layer l, which predicts a further token, has besides a block. Its norms are stored as the
// norm before the head.
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
		optional     bool // the model's own is used where it is missing
	}{
		{"eh_proj", names.join, []int{c.Hidden, 2 * c.Hidden}, false},
		{"enorm", names.embdNorm, []int{c.Hidden}, false},
		{"hnorm", names.hiddenNorm, []int{c.Hidden}, false},
		{"embed_tokens", names.embd, []int{c.Vocab, c.Hidden}, true},
		{"shared_head_head", names.head, []int{c.Vocab, c.Hidden}, true},
		{"shared_head_norm", names.norm, []int{c.Hidden}, true},
	} {
		from := t.source + ".weight"
		if t.optional && p.source.Tensors[from] == nil {
			continue
		}
		w := p.add(fmt.Sprintf("blk.%d.nextn.%s.weight", l, t.name), from, t.shape...)
		if len(t.shape) == 1 && stored == lineage.PlusOne {
			w.plus = 1
		}
	}
	if last := names.block + "final_layernorm.weight"; p.source.Tensors[last] != nil { // as Ling's folders name it
		p.add(fmt.Sprintf("blk.%d.layer_output_norm.weight", l), last, c.Hidden)
	}
}

// leaveOutFurther marks the tensors of layers that predict further tokens as used where they are not planned, and says
// so.
func (p *plan) leaveOutFurther(c *config, notes func(string)) {
	left := false
	for name := range p.source.Tensors {
		_, rest, ok := strings.Cut("."+name, ".layers.")
		number, _, _ := strings.Cut(rest, ".")
		if l, err := strconv.Atoi(number); ok && err == nil && p.further == 0 && l >= c.Layers && l-c.Layers < c.Further {
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
	notes(fmt.Sprintf("%s: layers from %d on, which predict further tokens, are left out%s", p.source.Path, c.Layers, why))
}
