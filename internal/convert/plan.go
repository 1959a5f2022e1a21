package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// unblock converts sources in blocks to floats for tensors that cannot be made from blocks.
func (p *plan) unblock() {
	for _, t := range p.tensors {
		if !slices.ContainsFunc(t.stack, func(p section) bool { return p.Blocks() }) {
			continue
		}
		same := !slices.ContainsFunc(t.stack, func(p section) bool { return p.DType != t.stack[0].DType })
		if t.intact() && t.as == asAsked && same {
			continue
		}
		for i := range t.stack {
			t.stack[i].Tensor = t.stack[i].Floats()
		}
	}
}

// plan collects the output's tensors and keeps the first error.
type plan struct {
	family    lineage.Family
	source    *checkpoint.Checkpoint
	used      map[string]bool
	gramShape []int                   // shape of the table of n-grams, row length first
	small     map[string]*smallFloats // the matrices in NVFP4, by the name of their codes
	tensors   []*tensor
	ranking   nn.Ranking                            // how a classification head would read states
	shapes    map[string][]int                      // shapes of the family's tensors by name, outermost dimension first
	keys      []gguf.KV                             // keys found from the folder's tensors
	further   int                                   // number of planned MTP layers
	embedding string                                // the token embedding's name in the folder
	unneeded  []string                              // tensors marked as used that computing does not need
	notes     []string                              // notes for the user about the plan
	several   bool                                  // the folder has more MTP layers than the family's files may hold
	pairs     map[string]pair                       // an adapter's pairs, by the model's tensors; nil: a model is planned
	factor    func(module string, rank int) float64 // factor of an adapter's matrices B
	err       error
}

// add plans output tensor name from checkpoint tensor from, which must have shape dims (outermost first).
func (p *plan) add(name, from string, dims ...int) *tensor { return p.from(name, from, dims, dims) }

// from plans output tensor name of shape dims from checkpoint tensor from, which must have shape stored (both outermost
// first).
func (p *plan) from(name, from string, dims, stored []int) *tensor {
	if p.pairs != nil {
		return p.pair(name, from, dims, stored)
	}
	t := &tensor{name: name}
	if len(dims) == 1 {
		t.as = asFloats
	}
	if p.err != nil {
		return t
	}
	s := p.source.Tensors[from]
	switch {
	case s == nil:
		p.err = fmt.Errorf("%s: tensor %q is missing: the folder is incomplete, or not of the architecture that config.json names; download it again", p.source.Path, from)
		return t
	case p.small[from] != nil:
		return p.fromSmall(name, from, p.small[from], dims, stored)
	case !slices.Equal(squeezed(s.Shape), squeezed(stored)):
		p.err = fmt.Errorf("%s: offset %d: tensor %q has shape %v, config.json makes it %v", s.Path(), s.Offset, from, s.Shape, stored)
		return t
	}
	if _, ok := s.Type(); !ok {
		p.err = fmt.Errorf("%s: offset %d: tensor %q has dtype %s; supported are F32, F16, BF16, and packed ones beside scales that config.json tells of", s.Path(), s.Offset, from, s.DType)
		return t
	}
	p.used[from] = true
	if !slices.Equal(s.Shape, stored) {
		s = s.Reshaped(stored)
	}
	t.stack = t.stack.and(section{Tensor: s})
	t.shape = slices.Clone(dims)
	slices.Reverse(t.shape)
	p.tensors = append(p.tensors, t)
	return t
}

// squeezed returns shape without dimensions of 1, which some folders have more of.
func squeezed(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(d int) bool { return d == 1 })
}

// found returns the first of names that the checkpoint holds between prefix and end, or else the last name.
func (p *plan) found(prefix string, names []string, end string) string {
	for _, name := range names {
		if p.source.Tensors[prefix+name+end] != nil {
			return name
		}
	}
	return names[len(names)-1]
}

// model plans all tensors. keys are the file's, and computed the tensors that follow from the configuration, by name.
func (p *plan) model(c *config, keys []gguf.KV, computed map[string][]float32) {
	root := p.family.Root[0]
	embedding := strings.Fields(p.family.Outer[0].Source)
	for _, r := range p.family.Root {
		if p.source.Tensors[r+p.found(r, embedding, "")] != nil {
			root = r
			break
		}
	}
	if p.pairs != nil {
		root = p.beginning("", p.family.Root)
	}
	layer := p.layer(root)
	var items []item
	var steps []func()
	plan := func(i item) {
		if p.lacks(&i) {
			return
		}
		items, steps = append(items, i), append(steps, func() { p.one(c, &i) })
	}
	for i, t := range p.family.Outer {
		switch t.Change {
		case lineage.Computed:
			if v := computed[t.Name]; v != nil {
				steps = append(steps, func() { p.given(t.Name, v) })
			}
			continue
		case lineage.LayerNumbers:
			p.layerNumbers(c, t, root+layer)
			continue
		case lineage.Shards:
			if table := p.shards(c, t.Name, t.Source); table != nil {
				p.gramShape = table.shape
				steps = append(steps, func() { p.tensors = append(p.tensors, table) })
				items = append(items, item{Tensor: t})
			}
			continue
		}
		from := root
		if t.Rootless {
			from = ""
		}
		plan(item{Tensor: t, from: from})
		if i == 0 {
			p.embedding = from + p.found(from, embedding, "")
			steps = append(steps, func() { p.head(c) })
		}
	}
	further := p.findFurther(c, root, layer)
	p.further = len(further)
	for l := 0; l < c.Layers+p.further; l++ {
		prefix, from := fmt.Sprintf("blk.%d.", l), root+fmt.Sprintf(layer, l)
		if l >= c.Layers {
			from = further[l-c.Layers].block
			if up, _ := p.family.InBlock("ffn_up.weight"); c.Mixture.In(l) && p.source.Tensors[from+up.Source] != nil { // it has no experts
				c.Mixture.Dense = append(c.Mixture.Dense, l)
			}
			steps = append(steps, func() { p.furtherParts(c, l, &further[l-c.Layers]) })
			if c.LayerParts != nil {
				c.LayerParts = append(c.LayerParts, lineage.Attention|lineage.FeedForward)
			}
		}
		for _, t := range p.family.Block {
			if with := c.Mixture.In(l); with && !p.family.Experts.Beside && lineage.InsteadOfExperts(t.Name) || !with && lineage.OfExperts(t.Name) {
				continue
			}
			if part := p.family.PartOf(t.Name); c.LayerParts != nil && part != 0 && part&c.LayerParts[l] == 0 {
				continue
			}
			if c.Absent != nil && c.Absent(l, t.Name) {
				for _, name := range strings.Fields(t.Source) {
					p.leave(from + name)
				}
				continue
			}
			if t.Change == lineage.Computed {
				if v := c.Given[t.Name]; v != nil && p.pairs == nil {
					steps = append(steps, func() { p.given(prefix+t.Name, v) })
				}
				continue
			}
			t = p.family.InLayer(t, l)
			if l >= c.Layers-c.Shares() && slices.Contains(ofOwnKV, t.Name) {
				t.Optional = true
			}
			plan(item{t, l, prefix, from})
		}
		if c.Mixture.In(l) {
			steps = append(steps, func() { p.expertPredictors(c, prefix, from) })
		}
	}
	p.list(c, keys, items)
	for _, step := range steps {
		if p.err == nil {
			step()
		}
	}
}

// given plans a vector that follows from the configuration.
func (p *plan) given(name string, v []float32) {
	p.tensors = append(p.tensors, &tensor{name: name, shape: []int{len(v)}, values: v, as: asFloats})
}

// lacks reports whether the folder lacks a tensor that it may lack.
func (p *plan) lacks(i *item) bool {
	if !i.Optional {
		return false
	}
	if i.Change == lineage.Stacked && p.pairs == nil {
		single, whole, _ := strings.Cut(i.Source, " ")
		return p.source.Tensors[i.from+fmt.Sprintf(single, 0)] == nil && (whole == "" || p.source.Tensors[i.from+whole] == nil)
	}
	return p.source.Tensors[i.from+p.found(i.from, strings.Fields(i.Source), "")] == nil
}

// ofOwnKV are the tensors that layers need which have keys and values of their own.
var ofOwnKV = []string{"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}

// layer returns the prefix of a block after root, with %d for the layer.
func (p *plan) layer(root string) string {
	prefixes := strings.Fields(p.family.Layer)
	if p.pairs != nil {
		return p.beginning(root, prefixes)
	}
	for _, prefix := range prefixes {
		from := root + fmt.Sprintf(prefix, 0)
		if first := strings.Fields(p.family.Block[0].Source); p.source.Tensors[from+p.found(from, first, "")] != nil {
			return prefix
		}
	}
	return prefixes[0]
}

// otherParts are the prefixes of tensors for pictures and sound in folders with such models in addition to the text
// model, with and without "model." before them.
var otherParts = []string{"vision_tower.", "vision_model.", "vision_embedder.", "embed_vision.", "visual.", "multi_modal_projector.", "audio_tower.", "embed_audio.", "mm_projector.", "mlp1.", "connector.", "vision_encoder.", "audio_encoder.", "vision_projection.", "vit_large_projector.", "vision.", "aligner.", "image_", "sam_model.", "qwen2_model.", "projector.", "view_seperator"}

// leaveOut marks the tensors of parts other than the text model as used, and says how many there are.
func (p *plan) leaveOut(notes func(string)) {
	var left []string
	for name := range p.source.Tensors {
		rest := strings.TrimPrefix(name, "model.")
		if !p.used[name] && slices.ContainsFunc(otherParts, func(part string) bool { return strings.HasPrefix(rest, part) }) {
			p.used[name] = true
			left = append(left, name)
		}
	}
	if slices.Sort(left); len(left) > 0 {
		notes(fmt.Sprintf("%s: the text model is converted; %d tensors of pictures and sound are left out: %s", p.source.Path, len(left), checkpoint.Listed(left)))
	}
}

// expertPredictors plans the predictors of one layer's experts, if the folder holds any. All experts of a layer have
// predictors of the same rank.
func (p *plan) expertPredictors(c *config, prefix, from string) {
	name := p.family.Experts.Predictor
	if name == "" || p.pairs != nil {
		return
	}
	from += name
	first := p.source.Tensors[fmt.Sprintf(from+"fc1.weight", 0)]
	if first == nil || len(first.Shape) != 2 {
		return
	}
	n, ff, rank := c.Mixture.Count, c.Mixture.Width, first.Shape[0]
	p.stacked(prefix+"fc1_exps.weight", from+"fc1.weight", []int{n, rank, c.Hidden})
	p.stacked(prefix+"fc2_exps.weight", from+"fc2.weight", []int{n, ff, rank})
}

// leaveOutPredictors marks predictors as used that belong to no converted expert, and says so. By their publisher's
// definition, neurons that a predictor takes for zero are zero. Without predictors, neurons are zero if the gate or up
// is not positive.
func (p *plan) leaveOutPredictors(notes func(string)) {
	n := 0
	for name := range p.source.Tensors {
		if !p.used[name] && (strings.HasSuffix(name, ".predictor.fc1.weight") || strings.HasSuffix(name, ".predictor.fc2.weight")) {
			p.used[name] = true
			n++
		}
	}
	if n > 0 {
		notes(fmt.Sprintf("%s: %d tensors of predictors of neurons are left out; neurons whose gate or up is not positive are zero without them", p.source.Path, n))
	}
}

// finish returns the first error, or an error for unused tensors. It notes which tensors are left out.
func (p *plan) finish(notes func(string)) error {
	if p.err != nil {
		return p.err
	}
	left, err := p.source.Surplus(p.used, p.family.Buffers)
	if err != nil {
		return err
	}
	left = append(left, p.unneeded...)
	if slices.Sort(left); len(left) > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%s: %d tensors that computing does not need are left out: %s", p.source.Path, len(left), checkpoint.Listed(left)))
	}
	for _, line := range p.notes {
		notes(line)
	}
	return nil
}
