package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Tower converts the part of the model in folder dir that turns pictures into rows (the tower, and the projector to the
// text model's width) to the GGUF file outfile, as llama.cpp's --mmproj reads it. Vectors, positions and the filters of
// patches stay F32. Errors name the file and the key or tensor.
func Tower(ctx context.Context, dir, outfile string, o Options) error {
	if err := o.Output.check(); err != nil {
		return err
	}
	if !slices.Contains([]quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q8_0}, o.Output.base) {
		return fmt.Errorf("a tower is written in f32, f16, bf16 or q8_0, not in %s", strings.ToLower(o.Output.String()))
	}
	t, err := openTower(dir)
	if err != nil {
		return err
	}
	defer t.source.Close()
	t.exact = o.Output.base == quant.F32
	t.kind.plan(t)
	if err := t.finish(o.tell); err != nil {
		return err
	}
	return o.write(ctx, outfile, t.keys(dir, &o), t.tensors)
}

// HasTower reports whether Tower converts a part of the folder dir.
func HasTower(dir string) bool {
	c, err := readFields(filepath.Join(dir, "config.json"))
	if err != nil || !c.has("vision_config") {
		return false
	}
	_, ok := towerKindOf(c)
	return ok
}

// Limits of towers, as in the engine.
const (
	maxSide  = 1 << 12 // pixels of squares
	maxPatch = 1 << 8  // pixels of a patch's side
)

// towerKind is a kind of towers.
type towerKind struct {
	name          string   // clip.projector_type
	mixed         bool     // it is clip.vision.projector_type instead, as of models that also hear
	architectures []string // architectures in config.json
	parts         []string // prefixes of its tensors' names, with and without "model." before them
	plan          func(*towerPlan)
}

func towerKindOf(c *fields) (towerKind, bool) {
	var architectures []string
	c.read("architectures", &architectures)
	for _, k := range towerKinds() {
		if slices.ContainsFunc(architectures, func(a string) bool { return slices.Contains(k.architectures, a) }) {
			return k, true
		}
	}
	return towerKind{}, false
}

// towerPlan collects a tower's keys and tensors.
type towerPlan struct {
	*plan
	kind      towerKind
	config    *fields // config.json
	vision    *fields // vision_config
	processor *fields // from preprocessor_config.json and processor_config.json
	dir       string
	name      string // config.json's name

	width, layers, heads int
	unused               int  // the folder's layers after the used ones
	textWidth            int  // numbers of a row that the text model reads
	image, patch         int  // sides in pixels
	exact                bool // the output is F32
	more                 []gguf.KV
}

func readFields(path string) (*fields, error) {
	f := &fields{path: path}
	return f, checkpoint.ReadJSON(path, &f.of)
}

// openTower reads the folder's configuration and which tensors it holds.
func openTower(dir string) (*towerPlan, error) {
	path, data, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	c := &fields{path: path}
	if err := checkpoint.DecodeJSON(path, data, &c.of); err != nil {
		return nil, err
	}
	if !c.has("vision_config") {
		return nil, fmt.Errorf("%s: there is no vision_config in it: the model sees no pictures, so convert the folder without --mmproj", c.path)
	}
	kind, ok := towerKindOf(c)
	if !ok {
		var all []string
		for _, k := range towerKinds() {
			all = append(all, k.architectures...)
		}
		named, _ := c.find("architectures")
		return nil, fmt.Errorf("%s: the tower of %.80s is not supported; supported are those of %s", c.path, named, strings.Join(all, ", "))
	}
	t := &towerPlan{kind: kind, config: c, vision: c.within("vision_config"), dir: dir, name: c.text("", "_name_or_path")}
	if t.processor, err = readProcessor(dir); err != nil {
		return nil, err
	}
	var quantised *quantizing
	c.read("quantization_config", &quantised)
	for _, f := range []*fields{c, t.vision} {
		if f.err != nil {
			return nil, f.err
		}
	}
	source, err := openFolder(dir, quantised.packing())
	if err != nil {
		return nil, err
	}
	t.plan = &plan{source: source, used: map[string]bool{}}
	return t, nil
}

// readProcessor returns the settings of the folder's image processor: preprocessor_config.json, overridden by
// processor_config.json, each with the object for pictures that older or newer folders have.
func readProcessor(dir string) (*fields, error) {
	all := &fields{path: filepath.Join(dir, "preprocessor_config.json"), of: map[string]json.RawMessage{}}
	for _, file := range []struct{ name, part string }{{"preprocessor_config.json", "media_proc_cfg"}, {"processor_config.json", "image_processor"}} {
		path := filepath.Join(dir, file.name)
		if !checkpoint.Exists(path) {
			continue
		}
		f, err := readFields(path)
		if err != nil {
			return nil, err
		}
		part := f.within(file.part)
		if part.err != nil {
			return nil, part.err
		}
		maps.Copy(all.of, f.of)
		maps.Copy(all.of, part.of)
	}
	if len(all.of) == 0 && checkpoint.Exists(filepath.Join(dir, paramsFile)) { // Mistral's pictures are normalised as CLIP's
		all.of["image_mean"], all.of["image_std"] = json.RawMessage("[0.48145466,0.4578275,0.40821073]"), json.RawMessage("[0.26862954,0.26130258,0.27577711]")
	}
	return all, nil
}

// key adds a key of the tower.
func (t *towerPlan) key(name string, v any) {
	t.more = append(t.more, gguf.KV{Key: "clip." + name, Value: v})
}

// keys returns the file's keys.
func (t *towerPlan) keys(dir string, o *Options) []gguf.KV {
	projector := "clip.projector_type"
	if t.kind.mixed {
		projector = "clip.vision.projector_type"
	}
	return append([]gguf.KV{
		{Key: "general.architecture", Value: "clip"},
		{Key: "general.type", Value: "mmproj"},
		{Key: "general.name", Value: o.name(dir, &config{beside: beside{Source: t.name}})},
		{Key: "general.file_type", Value: o.Output.fileType},
		{Key: "general.quantization_version", Value: uint32(quantizationVersion)},
		{Key: "clip.has_vision_encoder", Value: true},
		{Key: projector, Value: t.kind.name},
	}, t.more...)
}

// towerSizes are the published defaults of sizes that a folder may lack.
type towerSizes struct{ width, layers, heads, image, patch int }

// read reads the sizes, and adds the keys that all towers have, except the width of feed-forward layers.
func (t *towerPlan) read(def towerSizes, eps float64) {
	v := t.vision
	t.width = v.count(def.width, maxWidth, "embed_dim", "hidden_size", "vt_hidden_size") // Qwen2-VL's hidden_size is the text model's
	t.layers = v.count(def.layers, maxLayers, "num_hidden_layers", "depth", "vt_num_hidden_layers") - t.unused
	t.heads = v.count(def.heads, maxWidth, "num_attention_heads", "num_heads", "vt_num_attention_heads")
	t.image = v.count(def.image, maxSide, "image_size")
	t.patch = v.count(def.patch, maxPatch, "patch_size")
	t.readRows()
	if v.err == nil && (t.width%t.heads != 0 || t.width/t.heads%4 != 0) {
		v.fail("num_attention_heads", "%d heads do not share a width of %d in parts of 4", t.heads, t.width)
	}
	t.common(eps)
}

// readRows reads the text model's width.
func (t *towerPlan) readRows() {
	text := t.config
	for _, part := range []string{"text_config", "llm_config"} {
		if in := t.config.within(part); in.has("hidden_size") || in.err != nil {
			text = in
			break
		}
	}
	t.textWidth = text.count(0, maxWidth, "hidden_size")
	if t.vision.err == nil {
		t.vision.err = text.err
	}
}

// common adds the keys that the files of all towers have.
func (t *towerPlan) common(eps float64) {
	t.key("vision.projection_dim", uint32(t.textWidth))
	t.key("vision.image_size", uint32(t.image))
	t.key("vision.patch_size", uint32(t.patch))
	t.key("vision.embedding_length", uint32(t.width))
	t.key("vision.block_count", uint32(t.layers))
	t.key("vision.attention.head_count", uint32(t.heads))
	t.key("vision.attention.layer_norm_epsilon", float32(eps))
	if !(eps > 0 && eps < 1) {
		t.vision.fail("layer_norm_eps", "%g is not an epsilon", eps)
	}
	t.key("vision.image_mean", t.colour("image_mean", 0))
	t.key("vision.image_std", t.colour("image_std", 1))
}

// colour returns a number each for red, green and blue, or three times none if the processor does not normalise.
func (t *towerPlan) colour(key string, none float32) []float32 {
	c, normalises := []float32(nil), true
	t.processor.read(key, &c)
	if t.processor.read("do_normalize", &normalises); !normalises {
		return []float32{none, none, none}
	}
	if t.processor.err == nil && len(c) != 3 {
		t.processor.fail(key, "the folder says no three numbers of it; download preprocessor_config.json, too")
	}
	return c
}

// activation adds the key of the nonlinearity that vision_config names.
func (t *towerPlan) activation(key, def string) {
	switch name := t.vision.text(def, key); name {
	case "gelu", "gelu_pytorch_tanh", "gelu_new":
		t.key("use_gelu", true)
	case "silu":
		t.key("use_silu", true)
	case "quick_gelu": // files do not state it
	default:
		t.vision.fail(key, "activation %.40q is not supported; supported are gelu, silu and quick_gelu", name)
	}
}

// in returns the first of parts that begins names of the folder's tensors, with "model." before it if the folder has
// that.
func (t *towerPlan) in(parts ...string) string {
	for _, part := range parts {
		for _, root := range []string{part, "model." + part} {
			for name := range t.source.Tensors {
				if strings.HasPrefix(name, root) {
					return root
				}
			}
		}
	}
	return parts[len(parts)-1]
}

func (t *towerPlan) has(name string) bool { return t.source.Tensors[name] != nil }

// rowsOf returns the rows of a matrix of the folder, or 1 if it is absent or no matrix.
func (t *towerPlan) rowsOf(name string) int {
	s := t.source.Tensors[name]
	if s == nil || len(s.Shape) < 2 || s.Shape[0] < 1 || s.Shape[0] > maxWidth {
		return 1
	}
	return s.Shape[0]
}

// linear plans a product, and its bias if the folder has one.
func (t *towerPlan) linear(name, from string, out, in int) {
	t.product(name, from, out, in, out, nil)
}

// product is linear for a matrix with stored rows in the folder. row gives the folder's row for a row of the file; nil
// is the identity.
func (t *towerPlan) product(name, from string, out, in, stored int, row func(int) int) *tensor {
	w := t.from(name+".weight", from+".weight", []int{out, in}, []int{stored, in})
	w.row = row
	if t.has(from + ".bias") {
		t.from(name+".bias", from+".bias", []int{out}, []int{stored}).row = row
	}
	return w
}

// halved stores a matrix as F16, or as F32 if exact. Programs transpose it or read it as a filter, which excludes blocks
// and BF16.
func (t *towerPlan) halved(w *tensor) {
	if w.as = asHalves; t.exact {
		w.as = asFloats
	}
}

// norm plans a norm, and its bias if the folder has one.
func (t *towerPlan) norm(name, from string, width int) *tensor {
	w := t.from(name+".weight", from+".weight", []int{width}, []int{width})
	if t.has(from + ".bias") {
		t.from(name+".bias", from+".bias", []int{width}, []int{width})
	}
	return w
}

// float plans a tensor that stays F32.
func (t *towerPlan) float(name, from string, shape ...int) *tensor {
	w := t.from(name, from, shape, shape)
	w.as = asFloats
	return w
}

// filter plans the filter of patches that the folder has as a convolution, and its bias if it has one.
func (t *towerPlan) filter(from string) {
	t.float("v.patch_embd.weight", from+".weight", t.width, 3, t.patch, t.patch)
	t.filterBias(from)
}

func (t *towerPlan) filterBias(from string) {
	if t.has(from + ".bias") {
		t.float("v.patch_embd.bias", from+".bias", t.width)
	}
}

// filters plans two filters, one for each of the two frames of the folder's filter, and its bias if it has one.
func (t *towerPlan) filters(from string) {
	moment := t.patch * t.patch // numbers, of one colour
	for i, name := range []string{"v.patch_embd.weight", "v.patch_embd.weight.1"} {
		w := t.from(name, from+".weight", []int{3 * t.width, moment}, []int{t.width, 3, 2, t.patch, t.patch})
		w.row, w.as, w.stated = func(r int) int { return 2*r + i }, asFloats, []int{t.patch, t.patch, 3, t.width}
	}
	t.filterBias(from)
}

// pixelsLast plans the filter of patches that the folder has as a matrix, and its bias if it has one. The matrix's
// columns are ordered by place and then by colour. side is a patch's in pixels.
func (t *towerPlan) pixelsLast(from string, side int) *tensor {
	n := 3 * side * side
	w := t.from("v.patch_embd.weight", from+".weight", []int{t.width, n}, []int{t.width, n})
	w.change(reordered(coloursLast(side)))
	w.as, w.stated = asFloats, []int{side, side, 3, t.width}
	t.filterBias(from)
	return w
}

// coloursLast maps an element of a patch, ordered by colour and then by place, to its index in the order by place and
// then by colour.
func coloursLast(side int) func(int) int {
	return func(i int) int { return i%(side*side)*3 + i/(side*side) }
}

// towerBlock names the parts of a block in a folder. Empty names are of parts that there are not.
type towerBlock struct {
	layer               string // prefix of the names, with %d for the layer
	attnNorm, ffnNorm   string
	q, k, v, qkv, out   string
	qNorm, kNorm        string
	gate, up, down      string
	attnScale, ffnScale string                          // vectors
	attnAfter, ffnAfter string                          // norms of what attention and the feed-forward layer add
	scale               string                          // a number or vector
	split               bool                            // qkv becomes three matrices
	turned              func(headDim int) func(int) int // the folder's row of a row of queries and keys; nil: the same
	dim                 int                             // elements of a head; 0: the heads share the width
}

// blocks plans the blocks after root, and adds the key of their feed-forward layers' width, which it takes from the
// folder's tensors.
func (t *towerPlan) blocks(root string, b towerBlock) {
	first := root + fmt.Sprintf(b.layer, 0) + b.up
	ff := max(t.rowsOf(first+".weight"), t.rowsOf(first+".linear.weight"))
	t.key("vision.feed_forward_length", uint32(ff))
	dim := b.dim
	if dim == 0 && t.vision.err == nil {
		dim = t.width / t.heads
	}
	var turn func(int) int
	if b.turned != nil && t.vision.err == nil {
		turn = b.turned(dim)
	}
	for l := 0; l < t.layers && t.err == nil; l++ {
		to, from := fmt.Sprintf("v.blk.%d.", l), root+fmt.Sprintf(b.layer, l)
		t.norm(to+"ln1", from+b.attnNorm, t.width)
		t.attention(to, from, b, t.heads*dim, turn)
		for _, n := range []struct{ to, from string }{{"attn_q_norm", b.qNorm}, {"attn_k_norm", b.kNorm}} {
			if n.from != "" && t.has(from+n.from+".weight") {
				t.norm(to+n.to, from+n.from, t.normed(from+n.from, dim))
			}
		}
		for _, v := range []struct{ to, from string }{{"ls1", b.attnScale}, {"ls2", b.ffnScale}} {
			if v.from != "" {
				t.float(to+v.to+".weight", from+v.from, t.width)
			}
		}
		for _, n := range []struct{ to, from string }{{"attn_post_norm", b.attnAfter}, {"ffn_post_norm", b.ffnAfter}} {
			if n.from != "" {
				t.norm(to+n.to, from+n.from, t.width)
			}
		}
		if b.scale != "" && t.has(from+b.scale) {
			n := 1
			if s := t.source.Tensors[from+b.scale]; len(s.Shape) == 1 {
				n = s.Shape[0]
			}
			t.from(to+"out_scale.weight", from+b.scale, []int{n}, t.likewise(from+b.scale, []int{n}))
		}
		t.norm(to+"ln2", from+b.ffnNorm, t.width)
		if b.gate != "" {
			t.clamped(to+"ffn_gate", from+b.gate, ff, t.width)
		}
		t.clamped(to+"ffn_up", from+b.up, ff, t.width)
		t.clamped(to+"ffn_down", from+b.down, t.width, ff)
	}
}

// normed returns the width of a norm of queries or keys: one head's, or all heads'.
func (t *towerPlan) normed(from string, dim int) int {
	if s := t.source.Tensors[from+".weight"]; len(s.Shape) == 1 && s.Shape[0] == t.width {
		return t.width
	}
	return dim
}

// attention plans the matrices of attention. All heads together have rows rows each of queries, keys and values. turn
// gives the folder's row of a row of queries and keys.
func (t *towerPlan) attention(to, from string, b towerBlock, rows int, turn func(int) int) {
	switch {
	case b.qkv == "":
		for _, p := range []struct {
			to, from string
			turn     func(int) int
		}{{"attn_q", b.q, turn}, {"attn_k", b.k, turn}, {"attn_v", b.v, nil}} {
			t.clampedRows(to+p.to, from+p.from, rows, t.width, p.turn)
		}
	case b.split:
		for i, name := range []string{"attn_q", "attn_k", "attn_v"} {
			t.product(to+name, from+b.qkv, rows, t.width, 3*rows, chained(nil, i*rows, nil))
		}
	default:
		var row func(int) int
		if turn != nil {
			row = func(r int) int {
				if r < 2*rows {
					return turn(r)
				}
				return r
			}
		}
		t.product(to+"attn_qkv", from+b.qkv, 3*rows, t.width, 3*rows, row)
	}
	t.clamped(to+"attn_out", from+b.out, t.width, rows)
}

// clampedRows plans a product, with the bounds of its inputs and outputs if the folder has them. Folders with bounds
// have the matrix in a separate object.
func (t *towerPlan) clampedRows(name, from string, out, in int, row func(int) int) {
	weight := from
	if t.has(from + ".linear.weight") {
		weight += ".linear"
	}
	t.product(name, weight, out, in, out, row)
	for _, bound := range []string{".input_min", ".input_max", ".output_min", ".output_max"} {
		if t.has(from + bound) {
			t.from(name+bound, from+bound, []int{1}, t.likewise(from+bound, []int{1}))
		}
	}
}

func (t *towerPlan) clamped(name, from string, out, in int) { t.clampedRows(name, from, out, in, nil) }

// finish reports the first error, and tensors of the tower that were left over.
func (t *towerPlan) finish(notes func(string)) error {
	for _, err := range []error{t.config.err, t.vision.err, t.processor.err, t.err} {
		if err != nil {
			return err
		}
	}
	for name := range t.source.Tensors {
		own := slices.ContainsFunc(t.kind.parts, func(part string) bool {
			return strings.HasPrefix(strings.TrimPrefix(name, "model."), part)
		})
		if !own {
			t.used[name] = true
		}
	}
	return t.plan.finish(notes)
}

// leaveOut marks tensors as used if their names begin with prefix.
func (t *towerPlan) leaveOut(prefix string) {
	for name := range t.source.Tensors {
		if strings.HasPrefix(name, prefix) {
			t.used[name] = true
		}
	}
}
