package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// multiply makes the configuration's factors multiply t, which the family calls name.
func (p *plan) multiply(c *config, t *tensor, layer int, name string) {
	if p.family.Multiplied == nil || p.err != nil {
		return
	}
	rows := p.family.Multiplied(&c.Config, layer, name)
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
	t.change(rowsTimes(rows))
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
			if s := p.stacked(name, i.from+single, shape); staysFloat(t.Name) {
				s.as = asFloats
			}
			return
		}
		t.Source, t.Change = whole, lineage.Same
		if s := p.source.Tensors[i.from+whole].Shape; len(s) == 3 && s[1] == 2*shape[1] { // gates and ups together
			t.Change = map[string]lineage.Change{"ffn_gate_exps.weight": lineage.FirstHalf, "ffn_up_exps.weight": lineage.SecondHalf}[t.Name]
		}
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
	case lineage.TokenMap:
		p.tokenMap(c, name, source, shape)
		return
	}
	of := c.sizes(i.layer)
	stem, _, _ := strings.Cut(t.Name, ".")
	part, packed := packedAt(of)[stem]
	packed = packed && p.family.QKV != "" && strings.HasPrefix(source, i.from+p.family.QKV+".")
	out := p.from(name, source, shape, p.stored(c, of, t, source, shape, packed))
	if staysFloat(t.Name) {
		out.as = asFloats
	}
	p.rearrange(c, of, t.Change, shape, out)
	if c.halved > 0 && (stem == "attn_q" || stem == "attn_k") {
		out.row = halves(c.HeadDim, c.halved)
	}
	if p.family.Tiled && p.pairs != nil && stem == "ssm_out" && out.stack != nil {
		p.err = fmt.Errorf("%s: adapters of %q are not supported; merge the adapter into the model and convert that", p.source.Path, source)
	}
	if p.family.Tiled {
		out.tile(stem, deltaSizes(of.StateSpace))
	}
	p.multiply(c, out, i.layer, t.Name)
	if packed {
		out.row = chained(out.row, part, nil)
		if p.family.Grouped {
			out.row = chained(out.row, 0, p.ungrouped(c, of))
		}
	}
}

// ungrouped returns ungrouped's mapping for a layer of those sizes; nil if its heads are no equal groups.
func (p *plan) ungrouped(c *config, of sizes) func(int) int {
	if p.err == nil && (of.Heads%c.KVHeads != 0 || of.KVHeads%c.KVHeads != 0) {
		p.err = c.Errorf("num_key_value_heads", "%d heads and %d KV heads of a layer are not %d equal groups", of.Heads, of.KVHeads, c.KVHeads)
	}
	if p.err != nil {
		return nil
	}
	return ungrouped(of, c.KVHeads)
}

// product plans output tensor name, the product of two vectors of that shape; the folder may have the second as a row.
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
		var factors times
		var values []float64
		values, p.err = by.Numbers()
		for _, v := range values {
			factors = append(factors, float32(v))
		}
		out.change(factors)
	}
}

// numbers plans output tensor name of shape dims, which are whole numbers, from checkpoint tensor from.
func (p *plan) numbers(name, from string, dims []int) {
	p.readWhole(name, from, dims, asWhole, func(_ int, v float64) (float64, string) {
		if v != math.Trunc(v) || math.Abs(v) > 1<<24 {
			return 0, fmt.Sprintf("has the element %g, which is no number of an expert; the model is damaged", v)
		}
		return v, ""
	})
}

// readWhole plans output tensor name of shape dims from all elements of checkpoint tensor from. value returns what
// element i becomes, or what is wrong with it.
func (p *plan) readWhole(name, from string, dims []int, as storage, value func(i int, v float64) (float64, string)) {
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
	t := &tensor{name: name, as: as, shape: slices.Clone(dims)}
	slices.Reverse(t.shape)
	for i, v := range all {
		becomes, wrong := value(i, v)
		if wrong != "" {
			p.err = fmt.Errorf("%s: offset %d: tensor %q %s", s.Path(), s.Offset, from, wrong)
			return
		}
		t.values = append(t.values, float32(becomes))
	}
	p.used[from] = true
	p.tensors = append(p.tensors, t)
}

// layerNumbers reads the numbers for t's key from the folder's tensors, one of each layer. block is the prefix of their
// names, with %d for the layer.
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

// staysFloat reports whether a tensor stays in F32 whatever the type of the matrices.
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
		stored[0] = (of.Heads+of.KVHeads)*of.Key + of.KVHeads*of.Value
	}
	switch t.Change {
	case lineage.Transposed:
		if p.pairs == nil { // an adapter's matrices are stored the usual way
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

// rearrange maps the rows and columns of out, which has that shape, to those of the folder's tensor.
func (p *plan) rearrange(c *config, of sizes, change lineage.Change, shape []int, out *tensor) {
	both := keyValueRows(of)
	switch change {
	case lineage.Transposed:
		if p.pairs == nil {
			out.columns = &stride{step: 1}
		}
	case lineage.JoinedColumns, lineage.LatentKeys:
		out.columns = &stride{step: 1}
	case lineage.LatentValues:
		out.row = func(r int) int { return r/of.Value*both + both - of.Value + r%of.Value }
	case lineage.Pairs:
		out.row = interleaved(c.HeadDim)
	case lineage.Ungroup:
		out.row = p.ungrouped(c, of)
	case lineage.Ternary:
		if p.pairs == nil && out.stack != nil && !out.stack[0].Packed() {
			out.change(&ternary{})
		}
	case lineage.IndexKeys:
		out.row = chained(nil, c.MeanHeads*c.MeanDim, nil)
	case lineage.PlusOne:
		out.change(plus(1))
	case lineage.Flat:
		out.as = asFloats
	case lineage.PlusFifth:
		out.change(plus(1. / 5))
	case lineage.PlusEleventh:
		out.change(plus(math.Pow(5, -1.5)))
	case lineage.NegatedExp, lineage.Exp, lineage.Column, lineage.Groups, lineage.Taps:
		out.as = asFloats
		switch change {
		case lineage.NegatedExp:
			out.change(exponential(-1))
		case lineage.Exp:
			out.change(exponential(1))
		}
	case lineage.FirstHalf:
		out.row = half(shape[len(shape)-2], 0)
	case lineage.SecondHalf:
		out.row = half(shape[len(shape)-2], 1)
	case lineage.BehindPadding:
		out.row = chained(nil, c.PaddingRows, nil)
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
	if product(s.Shape) == product(shape) {
		return s.Shape
	}
	return shape
}

// gathered plans output tensor name of shape dims [n, …] from n of the folder's tensors: from followed by each of
// names.
func (p *plan) gathered(name, from string, names []string, dims []int) {
	one := append([]int{1}, dims[1:]...)
	first := p.from(name, from+names[0], dims, p.likewise(from+names[0], one))
	for _, n := range names[1:] {
		if p.err != nil {
			return
		}
		next := p.from(name, from+n, dims, p.likewise(from+n, one))
		p.tensors = p.tensors[:len(p.tensors)-1]
		first.stack = first.stack.and(next.stack...)
	}
	first.as = asFloats
}

// stacked plans output tensor name of shape dims [n, …] from n checkpoint tensors. Their numbers replace %d in from.
func (p *plan) stacked(name, from string, dims []int) *tensor {
	first := p.from(name, fmt.Sprintf(from, 0), dims, dims[1:])
	for i := 1; i < dims[0] && p.err == nil; i++ {
		next := p.from(name, fmt.Sprintf(from, i), dims, dims[1:])
		p.tensors = p.tensors[:len(p.tensors)-1]
		first.stack = first.stack.and(next.stack...)
	}
	return first
}
