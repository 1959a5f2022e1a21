package convert

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// tensor is one tensor of the output.
type tensor struct {
	name   string
	shape  []int              // row length first
	stated []int              // what the file says instead, of as many elements; nil: shape
	from   *checkpoint.Tensor // where its elements lie, or nil
	// row gives the source row of an output row; nil is the identity.
	row    func(int) int
	more   []*checkpoint.Tensor // of a stack: where the others' elements lie, of as many rows
	ends   []int                // of the rows of from and more, where their numbers differ
	rows   int                  // of from; those behind them are zero. 0: all are there
	column bool                 // rows are the source's columns
	step   int                  // columns from one that becomes a row to the next; 0: 1
	first  int                  // of them
	scales *checkpoint.Tensor   // exponents of MXFP4 blocks, whose codes are from; nil: from holds no blocks
	small  []*smallFloats       // of NVFP4, whose codes are from and more; nil: from holds no blocks
	single bool                 // row gives elements, not rows
	wide   int                  // columns of the source, of which these are a part; 0: rows and step tell
	apart  int                  // rows of the source from one matrix to the next, of a stack whose matrices' columns become rows
	plus   float32              // added to every element
	order  func(int) int        // the element of a row in the source for one of the output; nil is the identity

	exp        float32              // every element e becomes exp·e^e; 0: it stays
	by         *checkpoint.Tensor   // elements are multiplied by this vector's
	unit       bool                 // rows are brought to a length of 1
	unitCols   bool                 // columns are
	ternary    bool                 // elements become −1, 0 or 1, times the mean of their magnitudes
	mean       float64              // that, of a tensor with ternary that is being written
	lengths    []float64            // of columns, of a tensor with unitCols that is being written
	multiplied []lineage.Multiplied // what rows of from are multiplied by; nil: nothing
	values     []float32            // computed elements, where from is nil
	whole      bool                 // values are whole numbers, and stay them
	factors    []float32            // of the matrices of mapped, which multiply elements; nil: one
	mapped     *gguf.Tensor         // a GGUF file's elements, where from is nil
	plain      bool                 // stays F32 whatever the output type: vectors, learned positions
	half       bool                 // is F16 where the output type is smaller than F32
	// importance holds one for each element of a row, matrix after matrix; nil: none are known.
	importance []float32
}

// plan collects the output's tensors and keeps the first error.
type plan struct {
	family    lineage.Family
	source    *checkpoint.Checkpoint
	used      map[string]bool
	gramShape []int                   // of the table of n-grams, row length first
	small     map[string]*smallFloats // the matrices in NVFP4, by the name of their codes
	tensors   []*tensor
	ranking   nn.Ranking                            // how a classification head would read states
	shapes    map[string][]int                      // of the family's tensors by their names, outermost dimension first
	keys      []gguf.KV                             // that tensors of the folder tell
	further   int                                   // planned layers that predict further tokens
	embedding string                                // the token embedding's name in the folder
	unneeded  []string                              // tensors that are used, as computing does without them
	notes     []string                              // what the user may want to know of the plan
	several   bool                                  // the folder has more of them than the family's files may hold
	pairs     map[string]pair                       // of an adapter, by the model's tensors, instead of these; nil: a model is planned
	factor    func(module string, rank int) float64 // of an adapter's matrices B
	err       error
}

// add plans output tensor name from checkpoint tensor from, whose shape must be dims (outermost first).
func (p *plan) add(name, from string, dims ...int) *tensor { return p.from(name, from, dims, dims) }

// from plans output tensor name of shape dims from checkpoint tensor from, whose shape must be stored (both outermost
// first).
func (p *plan) from(name, from string, dims, stored []int) *tensor {
	if p.pairs != nil {
		return p.pair(name, from, dims, stored)
	}
	t := &tensor{name: name, plain: len(dims) == 1}
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
	case !slices.Equal(s.Shape, stored):
		p.err = fmt.Errorf("%s: offset %d: tensor %q has shape %v, config.json makes it %v", s.Path(), s.Offset, from, s.Shape, stored)
		return t
	}
	if _, ok := s.Type(); !ok {
		p.err = fmt.Errorf("%s: offset %d: tensor %q has dtype %s; supported are F32, F16, BF16, and F8_E4M3 beside scales that config.json tells of", s.Path(), s.Offset, from, s.DType)
		return t
	}
	p.used[from] = true
	t.from = s
	t.shape = slices.Clone(dims)
	slices.Reverse(t.shape)
	p.tensors = append(p.tensors, t)
	return t
}

// found returns the first of names that the checkpoint holds after prefix with end, or the last of them.
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
		if t.Name == "output.bias" {
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
	p.tensors = append(p.tensors, &tensor{name: name, shape: []int{len(v)}, values: v, plain: true})
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

// ofOwnKV are the tensors that layers need which have keys and values of their own.
var ofOwnKV = []string{"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}

// sizes are those of a layer.
type sizes struct {
	FF                 int
	Heads, KVHeads     int
	Key, Value         int // elements of a head's key and of its value
	Latent, Rotated    int // of latent attention: elements that keys and values follow from, and rotated ones of a head
	lineage.StateSpace     // of recurrent layers
}

// sizes returns those of layer l.
func (c *config) sizes(l int) sizes {
	s := sizes{FF: c.neurons(l), Heads: c.Heads, KVHeads: c.KVHeads, Key: c.HeadDim, Value: c.value(), Latent: c.Latent, Rotated: c.Turned, StateSpace: c.StateSpace}
	if c.LayerParts != nil && c.LayerParts[l]&lineage.Attention == 0 {
		s.KVHeads = 0
	}
	if n := len(c.LayerHeads); n > 0 { // those of layers behind the last are the last's
		s.Heads = c.LayerHeads[min(l, n-1)]
	}
	if n := len(c.LayerKV); n > 0 {
		s.KVHeads = c.LayerKV[min(l, n-1)]
	}
	if l == 0 { // see lineage.Family.InLayer
		s.Ranks.Value = s.Ranks.Rate
	}
	if c.GlobalHead > 0 && l < len(c.LayerTypes) && c.LayerTypes[l] == "full_attention" {
		s.KVHeads, s.Key, s.Value = c.GlobalKV, c.GlobalHead, c.GlobalHead
	}
	return s
}

// neurons returns those of layer l.
func (c *config) neurons(l int) int {
	n := c.FF
	if c.LayerParts != nil {
		switch {
		case c.LayerParts[l]&lineage.FeedForward == 0:
			return 0
		case c.Mixture.Count > 0 && c.LayerParts[l] == lineage.FeedForward:
			return c.Mixture.Width
		}
	}
	if len(c.Widths) == c.Layers {
		n = c.Widths[l]
	}
	if c.Wider && l >= c.Layers-c.Shares() {
		n *= 2
	}
	return n
}

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

// multiply has t, which the family calls name, be multiplied by the factors that the configuration has of it.
func (p *plan) multiply(c *config, t *tensor, name string) {
	if p.family.Multiplied == nil || p.err != nil {
		return
	}
	rows := p.family.Multiplied(&c.Config, name)
	if !slices.ContainsFunc(rows, func(m lineage.Multiplied) bool { return m.By != 1 }) {
		return
	}
	for _, m := range rows {
		switch {
		case !(math.Abs(m.By) <= maxScale):
			p.err = fmt.Errorf("%s: tensor %q is multiplied by %g, which is not a factor up to %g; config.json is damaged", p.source.Path, name, m.By, maxScale)
		case p.pairs != nil:
			p.err = fmt.Errorf("%s: adapters of %q are not supported, whose rows the configuration multiplies; merge the adapter into the model and convert that", p.source.Path, name)
		}
	}
	t.multiplied = rows
}

// one plans the tensor of the family that i describes.
func (p *plan) one(c *config, i *item) {
	if i.Change == lineage.Stacked && p.pairs != nil {
		return
	}
	shape, name, t := p.shape(i), i.prefix+i.Name, i.Tensor
	if p.err != nil {
		return
	}
	if t.Change == lineage.Stacked {
		single, whole, _ := strings.Cut(t.Source, " ")
		if whole == "" || p.source.Tensors[i.from+whole] == nil {
			p.stacked(name, i.from+single, shape).plain = staysFloat(t.Name)
			return
		}
		t.Source = whole
		t.Change = map[string]lineage.Change{"ffn_gate_exps.weight": lineage.FirstHalf, "ffn_up_exps.weight": lineage.SecondHalf}[t.Name]
	}
	source := i.from + p.found(i.from, strings.Fields(t.Source), "")
	switch t.Change {
	case lineage.Product:
		p.product(name, i.from, strings.Fields(t.Source), shape)
		return
	case lineage.Gathered:
		p.gathered(name, i.from, strings.Fields(t.Source), shape)
		return
	case lineage.Outputs, lineage.EvenOutputs, lineage.OddOutputs:
		p.outputs(name, source, shape, t.Change)
		return
	case lineage.FirstOutputs, lineage.SecondOutputs:
		p.halfOfOutputs(name, source, shape, t.Change)
		return
	case lineage.Numbers:
		p.numbers(name, source, shape)
		return
	}
	of := c.sizes(i.layer)
	stem, _, _ := strings.Cut(t.Name, ".")
	part, packed := packedAt(of)[stem]
	packed = packed && p.family.QKV != "" && strings.HasPrefix(source, i.from+p.family.QKV+".")
	stored := p.stored(c, of, t, source, shape, packed)
	out := p.from(name, source, shape, stored)
	if len(out.shape) == 2 && stored[0] < shape[0] {
		out.rows = stored[0]
	}
	p.multiply(c, out, t.Name)
	out.plain = out.plain || staysFloat(t.Name)
	p.rearrange(c, of, t.Change, shape, out)
	if c.halved > 0 && (stem == "attn_q" || stem == "attn_k") {
		out.row = halves(c.HeadDim, c.halved)
	}
	if p.family.Tiled && p.pairs != nil && stem == "ssm_out" && out.from != nil {
		p.err = fmt.Errorf("%s: adapters of %q are not supported; merge the adapter into the model and convert that", p.source.Path, source)
	}
	if p.family.Tiled {
		out.tile(stem, deltaSizes(of.StateSpace))
	}
	if packed {
		out.row = behind(out.row, part, nil)
		if p.family.Grouped {
			out.row = behind(out.row, 0, ungrouped(c.Heads, c.KVHeads, c.HeadDim))
		}
	}
}

// product plans output tensor name, the product of two vectors of that shape, of which the folder may have the second as
// a row.
func (p *plan) product(name, from string, factors []string, shape []int) {
	out := p.from(name, from+factors[0], shape, shape)
	by := p.source.Tensors[from+factors[1]]
	switch {
	case p.err != nil || p.pairs != nil:
	case by == nil:
		p.err = fmt.Errorf("%s: tensor %q is missing: the folder is incomplete, or not of the architecture that config.json names; download it again", p.source.Path, from+factors[1])
	case !slices.Equal(by.Shape, shape) && !slices.Equal(by.Shape, []int{1, shape[0]}):
		p.err = fmt.Errorf("%s: offset %d: tensor %q has shape %v, config.json makes it %v", by.Path(), by.Offset, from+factors[1], by.Shape, shape)
	default:
		p.used[from+factors[1]] = true
		out.by = by
	}
}

// numbers plans output tensor name of shape dims, which are whole numbers, from checkpoint tensor from.
func (p *plan) numbers(name, from string, dims []int) {
	if p.err != nil || p.pairs != nil {
		return
	}
	s := p.source.Tensors[from]
	if !slices.Equal(s.Shape, dims) {
		p.err = fmt.Errorf("%s: offset %d: tensor %q has shape %v, config.json makes it %v", s.Path(), s.Offset, from, s.Shape, dims)
		return
	}
	all, err := s.Numbers()
	if err != nil {
		p.err = err
		return
	}
	t := &tensor{name: name, whole: true, shape: slices.Clone(dims)}
	slices.Reverse(t.shape)
	for _, v := range all {
		if v != math.Trunc(v) || math.Abs(v) > 1<<24 {
			p.err = fmt.Errorf("%s: offset %d: tensor %q has the element %g, which is no number of an expert; the model is damaged", s.Path(), s.Offset, from, v)
			return
		}
		t.values = append(t.values, float32(v))
	}
	p.used[from] = true
	p.tensors = append(p.tensors, t)
}

// layerNumbers reads the key that t names from the folder's tensors, one of each layer; block is what their names begin
// with, with %d for the layer.
func (p *plan) layerNumbers(c *config, t lineage.Tensor, block string) {
	if p.err != nil || p.pairs != nil {
		return
	}
	var all []float32
	for l := range c.Layers {
		from := fmt.Sprintf(block, l) + t.Source
		s := p.source.Tensors[from]
		if s == nil {
			p.err = fmt.Errorf("%s: tensor %q is missing: the folder is incomplete, or not of the architecture that config.json names; download it again", p.source.Path, from)
			return
		}
		values, err := s.Numbers()
		if err == nil && (len(values) != 1 || math.IsNaN(values[0]) || math.Abs(values[0]) > maxScale) {
			err = fmt.Errorf("%s: offset %d: tensor %q is no number up to %g; the model is damaged", s.Path(), s.Offset, from, maxScale)
		}
		if p.err = err; err != nil {
			return
		}
		p.used[from] = true
		all = append(all, float32(values[0]))
	}
	p.keys = append(p.keys, gguf.KV{Key: t.Name, Value: all})
}

// staysFloat reports whether a tensor is kept in F32 whatever type the matrices get.
func staysFloat(name string) bool {
	return strings.HasPrefix(name, "altup_predict") || strings.HasPrefix(name, "altup_correct") || name == "ffn_gate_inp.weight" || strings.Contains(name, "hc_") && strings.HasSuffix(name, "_fn.weight") || strings.HasSuffix(name, "_ape.weight") ||
		name == "indexer.proj.weight" || name == "indexer.q_proj.weight" || name == "indexer.k_proj.weight" || name == "time_mix_w1.weight" || name == "time_mix_w2.weight" ||
		strings.HasSuffix(name, "_norm.weight") || strings.HasSuffix(name, "_res_score.weight") || strings.HasPrefix(name, "ssm_conv1d_") || name == "position_embd.weight" || name == "token_types.weight"
}

// stored returns the shape that the folder's tensor source has, from which the file's tensor t of that shape is taken;
// packed: one tensor holds queries, keys and values.
func (p *plan) stored(c *config, of sizes, t lineage.Tensor, source string, shape []int, packed bool) []int {
	stored := slices.Clone(shape)
	if packed {
		stored[0] = (of.Heads + 2*of.KVHeads) * of.Key
	}
	switch t.Change {
	case lineage.Transposed:
		if p.pairs == nil { // an adapter's matrices lie the usual way
			slices.Reverse(stored)
		}
	case lineage.LatentKeys, lineage.LatentValues:
		stored = []int{of.Heads * keyValueRows(of), of.Latent}
	case lineage.FirstHalf, lineage.SecondHalf:
		stored[len(stored)-2] *= 2
	case lineage.NegatedExp, lineage.Exp, lineage.Column, lineage.Groups:
		if len(shape) > 1 {
			stored = p.likewise(source, []int{shape[0] * shape[1]})
		}
	case lineage.GroupedMixed, lineage.GroupedGates:
		stored[0] = of.Channels() + of.Inner
	case lineage.Taps:
		stored = []int{shape[0], 1, shape[len(shape)-1]}
	case lineage.Joined:
		stored = []int{shape[0] * shape[1], shape[2]}
	case lineage.IndexQueries, lineage.IndexKeys:
		stored[0] = (c.MeanHeads + 1) * c.MeanDim
	case lineage.Flat:
		stored = p.likewise(source, shape)
	case lineage.JoinedColumns:
		stored = []int{shape[0] * shape[2], shape[1]}
	}
	if t.Name == "ffn_gate_inp_shexp.weight" {
		stored = []int{1, stored[0]}
	}
	if s := p.source.Tensors[source]; t.Name == "ssm_a" && s != nil && len(s.Shape) > 1 && slices.Max(s.Shape) == shape[0] { // the others are 1
		stored = s.Shape
	}
	if s := p.source.Tensors[source]; t.Name == "exp_probs_b.bias" && s != nil && len(s.Shape) == 2 {
		stored = []int{1, stored[0]}
	}
	if t.Change == lineage.BehindPadding {
		stored[0] += c.PaddingRows
	}
	if n := c.InputVocab; t.Name == "per_layer_token_embd.weight" && n > 0 && n < c.Vocab {
		stored[0] = n
	}
	return stored
}

// keyValueRows returns the rows that a head has in the matrix that makes keys and values of latent vectors: its key's
// unrotated ones, then its value's.
func keyValueRows(s sizes) int { return s.Key - s.Rotated + s.Value }

// rearrange has out, of that shape, take its rows and columns from where the folder has them.
func (p *plan) rearrange(c *config, of sizes, change lineage.Change, shape []int, out *tensor) {
	both := keyValueRows(of)
	switch change {
	case lineage.Transposed:
		out.column = p.pairs == nil
	case lineage.JoinedColumns:
		out.column, out.apart = true, shape[2]
	case lineage.LatentKeys:
		out.column, out.apart = true, both
	case lineage.LatentValues:
		out.row = func(r int) int { return r/of.Value*both + both - of.Value + r%of.Value }
	case lineage.Pairs:
		out.row = interleaved(c.HeadDim)
	case lineage.Ungroup:
		out.row = ungrouped(c.Heads, c.KVHeads, c.HeadDim)
	case lineage.Ternary:
		out.ternary = p.pairs == nil
	case lineage.IndexKeys:
		out.row = behind(nil, c.MeanHeads*c.MeanDim, nil)
	case lineage.PlusOne:
		out.plus = 1
	case lineage.Flat:
		out.plain = true
	case lineage.PlusFifth:
		out.plus = 1. / 5
	case lineage.PlusEleventh:
		out.plus = float32(math.Pow(5, -1.5))
	case lineage.NegatedExp, lineage.Exp, lineage.Column, lineage.Groups, lineage.Taps:
		out.plain = true
		switch change {
		case lineage.NegatedExp:
			out.exp = -1
		case lineage.Exp:
			out.exp = 1
		}
	case lineage.FirstHalf:
		out.row = half(shape[len(shape)-2], 0)
	case lineage.SecondHalf:
		out.row = half(shape[len(shape)-2], 1)
	case lineage.BehindPadding:
		out.row = behind(nil, c.PaddingRows, nil)
	case lineage.GroupedMixed:
		out.row = deltaSizes(of.StateSpace).mixed
	case lineage.GroupedGates:
		out.row = deltaSizes(of.StateSpace).gates
	}
}

// likewise returns the shape of the folder's tensor, if it has as many elements as shape, else shape.
func (p *plan) likewise(source string, shape []int) []int {
	s := p.source.Tensors[source]
	if s == nil {
		return shape
	}
	elements := func(dims []int) int {
		n := 1
		for _, d := range dims {
			n *= d
		}
		return n
	}
	if elements(s.Shape) == elements(shape) {
		return s.Shape
	}
	return shape
}

// gathered plans output tensor name of shape dims [n, …] from n of the folder's tensors, whose names begin with from.
func (p *plan) gathered(name, from string, names []string, dims []int) {
	one := append([]int{1}, dims[1:]...)
	first := p.from(name, from+names[0], dims, p.likewise(from+names[0], one))
	for _, n := range names[1:] {
		if p.err != nil {
			return
		}
		next := p.from(name, from+n, dims, p.likewise(from+n, one))
		p.tensors = p.tensors[:len(p.tensors)-1]
		first.more = append(first.more, next.from)
	}
	first.plain = true
}

// stacked plans output tensor name of shape dims [n, …] from n checkpoint tensors, whose numbers stand for %d
// in from.
func (p *plan) stacked(name, from string, dims []int) *tensor {
	first := p.from(name, fmt.Sprintf(from, 0), dims, dims[1:])
	for i := 1; i < dims[0] && p.err == nil; i++ {
		next := p.from(name, fmt.Sprintf(from, i), dims, dims[1:])
		p.tensors = p.tensors[:len(p.tensors)-1]
		first.more, first.small = append(first.more, next.from), append(first.small, next.small...)
	}
	return first
}

// otherParts are the prefixes of tensors of pictures and sound in folders that hold such a model beside the text model,
// with and without "model." before them.
var otherParts = []string{"vision_tower.", "vision_model.", "vision_embedder.", "embed_vision.", "visual.", "multi_modal_projector.", "audio_tower.", "embed_audio.", "mm_projector.", "mlp1."}

// leaveOut marks the tensors of other parts than the text model as used, and says how many they are.
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

// expertPredictors plans the predictors of one layer's experts, where the folder holds some. All experts of a layer
// have predictors of the same rank.
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

// leaveOutPredictors marks the predictors that belong to no expert which is converted as used, and says so. By their
// publisher's definition neurons are zero that a predictor takes for zero; without predictors those are zero whose gate
// or up is not positive.
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

// finish reports the first error, or tensors that were left over, and names those that are left out.
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
