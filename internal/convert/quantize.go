package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/imatrix"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Quantization asks for a file with matrices of other types.
type Quantization struct {
	Output     Output
	Copy       bool        // every tensor as it is; Output is not looked at
	Pure       bool        // all matrices of Output's type
	Requantize bool        // decode quantised tensors; it loses quality twice
	KeepHead   bool        // leave output.weight as it is
	Head       *quant.Type // type of the matrix that gives the logits; nil: Output decides
	Embedding  *quant.Type // type of the token embedding
	Rules      []TypeRule  // the first that matches a tensor decides, before Output does
	Matrix     *imatrix.Matrix
	MatrixPath string // is written into the file
	KeepSplit  bool   // as many parts as the file has
	Prune      []int  // layers to leave out; later ones take their numbers
	Keys       []gguf.KV
	Threads    int                     // 0: all
	Progress   func(done, total int64) // bytes written and to write; may be nil
	Notes      func(line string)       // one line on each thing a user may want to know; may be nil
}

// TypeRule sets the type of tensors with names that Pattern matches.
type TypeRule struct {
	Pattern *regexp.Regexp
	Type    quant.Type
}

// ParseTypeRule reads PATTERN=TYPE; the pattern is a regular expression that a part of the name matches.
func ParseTypeRule(s string) (TypeRule, error) {
	pattern, name, ok := strings.Cut(s, "=")
	if !ok || pattern == "" || name == "" {
		return TypeRule{}, fmt.Errorf("%q is not PATTERN=TYPE, as attn_v=q8_0", s)
	}
	r, err := regexp.Compile(strings.ToLower(pattern))
	if err != nil {
		return TypeRule{}, fmt.Errorf("%q: the pattern is no regular expression: %w", s, err)
	}
	typ, err := ParseType(name)
	if err != nil {
		return TypeRule{}, err
	}
	return TypeRule{r, *typ}, nil
}

// ParseType reads an element type's name, in upper or lower case; nil stands for none.
func ParseType(name string) (*quant.Type, error) {
	if name == "" {
		return nil, nil
	}
	t, ok := quant.Named(name, quant.OutTypes())
	if !ok {
		return nil, fmt.Errorf("element type %q is not supported; supported are %s", name, strings.ToLower(quant.Names(quant.OutTypes())))
	}
	return &t, nil
}

// ReadMatrix reads the importance matrix at path. It keeps the entries with names that contain one of include, if
// include is not empty, and none of exclude.
func (q *Quantization) ReadMatrix(path string, include, exclude []string) error {
	m, err := imatrix.Open(path)
	if err != nil {
		return err
	}
	in := func(name string, words []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
	}
	m.Keep(func(name string) bool { return !in(name, exclude) && (len(include) == 0 || in(name, include)) })
	if len(m.Entries) == 0 {
		return fmt.Errorf("%s: no importances are left; loosen --include-weights or --exclude-weights", path)
	}
	q.Matrix, q.MatrixPath = m, path
	return nil
}

// Choice is the type of a tensor in the output.
type Choice struct {
	Tensor      *gguf.Tensor // has its name in the output, which differs if layers before it are left out
	Type        quant.Type
	NeedsMatrix bool // it needs importances, and there are none for it
	importance  *imatrix.Entry
	factors     []float32 // factors of its matrices that the new type cannot store; nil: one
}

// Bytes returns the tensor's size in its new type.
func (c Choice) Bytes() int64 { return int64(c.Type.RowBytes(c.Tensor.Elems())) }

// Quantize writes f to outfile with its matrices in other types. Vectors, learned positions, expert routers and all
// keys except types do not change, and so neither does the content of prepared files. It works on one tensor's rows at
// a time. The same file and options give the same bytes, for any number of threads.
func Quantize(ctx context.Context, f *gguf.File, outfile string, q Quantization) error {
	choices, err := q.Plan(f)
	if err != nil {
		return err
	}
	if err := q.Check(f, choices); err != nil {
		return err
	}
	if q.Threads < 0 {
		return errors.New("a negative number of threads")
	}
	threads := q.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	e := &encoder{lanes: make([]lane, threads)}
	sources := make([]gguf.Source, len(choices))
	for i, c := range choices {
		if sources[i], err = q.source(f, c, e); err != nil {
			return err
		}
	}
	keys, err := q.keys(f)
	if err != nil {
		return err
	}
	if parts := q.parts(choices); len(parts) > 1 {
		return gguf.CreateParts(ctx, f.Magic, q.split(keys, outfile, parts, choices, sources), q.Progress)
	}
	return gguf.Create(ctx, outfile, f.Magic, keys, sources, q.Progress)
}

// Check refuses choices that Quantize cannot follow: tensors without the importances that they need, or importances of
// another model.
func (q *Quantization) Check(f *gguf.File, choices []Choice) error {
	if q.Matrix != nil && !slices.ContainsFunc(choices, func(c Choice) bool { return c.importance != nil }) {
		return fmt.Errorf("%s holds no importances of the tensors of %s: it is of another model", q.MatrixPath, f.Path)
	}
	for _, c := range choices {
		t := c.Tensor
		if c.NeedsMatrix {
			return fmt.Errorf("%s: tensor %q would be %s, which is worth nothing without importances: give a file with --imatrix (powerinfer imatrix makes one), or choose a type of more bits",
				f.Path, t.Name, c.Type)
		}
		// embeddings are looked up: nothing is multiplied with them unless they give the logits
		if want := t.Shape[0] * matrices(t.Shape); c.weighed() && len(c.importance.Sums) != want && partOf(t.Name) != partEmbedding {
			return fmt.Errorf("%s: tensor %q takes %d importances, and %s has %d for it: that is of another model", f.Path, t.Name, want, q.MatrixPath, len(c.importance.Sums))
		}
	}
	return nil
}

// weighed reports whether there are importances by which c's tensor is encoded.
func (c Choice) weighed() bool {
	return c.importance != nil && c.Type != c.Tensor.Type && c.Type.Weighable()
}

// parts returns the numbers of the file's parts that the output keeps; nil if the output is not split.
func (q *Quantization) parts(choices []Choice) (parts []int) {
	if !q.KeepSplit {
		return nil
	}
	for _, c := range choices {
		if !slices.Contains(parts, c.Tensor.PartNo) {
			parts = append(parts, c.Tensor.PartNo)
		}
	}
	slices.Sort(parts)
	return parts
}

// split returns the parts to write: one for each part of the source, with the same tensors. The first has the keys.
func (q *Quantization) split(all []gguf.KV, outfile string, parts []int, choices []Choice, sources []gguf.Source) (out []gguf.Part) {
	for no, name := range gguf.PartNames(strings.TrimSuffix(outfile, ".gguf"), len(parts)) {
		p := gguf.Part{Path: name}
		for i, c := range choices {
			if c.Tensor.PartNo == parts[no] {
				p.Tensors = append(p.Tensors, sources[i])
			}
		}
		if no == 0 {
			p.Keys = slices.Clone(all)
		}
		p.Keys = append(p.Keys, gguf.KV{Key: "split.no", Value: uint16(no)}, gguf.KV{Key: "split.count", Value: uint16(len(parts))},
			gguf.KV{Key: "split.tensors.count", Value: int32(len(choices))})
		out = append(out, p)
	}
	return out
}

// Files returns the names of the files that Quantize will write.
func (q *Quantization) Files(choices []Choice, outfile string) []string {
	if parts := q.parts(choices); len(parts) > 1 {
		return gguf.PartNames(strings.TrimSuffix(outfile, ".gguf"), len(parts))
	}
	return []string{outfile}
}

// keys returns f's keys with the output's file type and the user's keys, and without those of a split file's parts.
func (q *Quantization) keys(f *gguf.File) ([]gguf.KV, error) {
	p, err := q.prune(f)
	if err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(slices.Clone(p.keys(f.Keys)), func(kv gguf.KV) bool { return strings.HasPrefix(kv.Key, "split.") })
	set := func(key string, value any) {
		i := slices.IndexFunc(keys, func(kv gguf.KV) bool { return kv.Key == key })
		if i < 0 {
			keys = append(keys, gguf.KV{Key: key})
			i = len(keys) - 1
		}
		keys[i].Value = value
	}
	if !q.Copy {
		set("general.file_type", q.Output.fileType)
	}
	set("general.quantization_version", uint32(quantizationVersion))
	if m := q.Matrix; m != nil {
		set("quantize.imatrix.file", filepath.ToSlash(q.MatrixPath))
		if len(m.Datasets) > 0 {
			set("quantize.imatrix.dataset", m.Datasets[0])
		}
		set("quantize.imatrix.entries_count", uint32(len(m.Entries)))
		if m.Chunks > 0 {
			set("quantize.imatrix.chunks_count", uint32(m.Chunks))
		}
	}
	for _, kv := range q.Keys {
		set(kv.Key, kv.Value)
	}
	return keys, nil
}

// source prepares a tensor's encoding.
func (q *Quantization) source(f *gguf.File, c Choice, e *encoder) (gguf.Source, error) {
	m, t := c.Tensor, &tensor{name: c.Tensor.Name, shape: c.Tensor.Shape, mapped: c.Tensor}
	if c.factors != nil {
		t.change(matrixTimes{c.factors, matrixRows(m.Shape)})
	}
	if c.weighed() && len(c.importance.Sums) == m.Shape[0]*matrices(m.Shape) {
		t.importance = c.importance.Mean()
	}
	return gguf.Source{Name: m.Name, Type: c.Type, Shape: m.Shape, Write: func(w io.Writer) error {
		if c.Type == m.Type {
			return copyData(w, m.Data)
		}
		return e.write(w, t, c.Type)
	}}, nil
}

// entry returns the importances of a tensor; nil if there are none.
func (q *Quantization) entry(name string) *imatrix.Entry {
	if q.Matrix == nil {
		return nil
	}
	return q.Matrix.Entries[name]
}

// matrices returns the number of matrices of a tensor of the given shape.
func matrices(shape []int) int {
	n := 1
	if len(shape) > 2 {
		for _, d := range shape[2:] {
			n *= d
		}
	}
	return n
}

// Plan chooses every tensor's type; an error names a tensor that cannot have it.
func (q *Quantization) Plan(f *gguf.File) ([]Choice, error) {
	if len(f.Tensors) == 0 {
		return nil, fmt.Errorf("%s: the file has no tensors", f.Path)
	}
	p, err := q.prune(f)
	if err != nil {
		return nil, err
	}
	var choices []Choice
	for _, t := range f.Tensors {
		if left := p.tensor(t); left != nil {
			choices = append(choices, Choice{Tensor: left, Type: t.Type, importance: q.entry(t.Name)})
		}
	}
	if q.Copy {
		return choices, nil
	}
	if err := q.Output.check(); err != nil {
		return nil, err
	}
	var names []string
	for _, c := range choices {
		names = append(names, c.Tensor.Name)
	}
	m := newMixer(q.Output, f.Keys, names)
	m.headType, m.embedding, m.matrix = q.Head, q.Embedding, q.Matrix != nil
	var others narrowings // the user learns of them if nothing is refused
	for _, i := range inLayerOrder(names) {
		typ, err := q.storeAs(f, choices[i].Tensor, m, &others)
		if err != nil {
			return nil, err
		}
		c := &choices[i]
		if c.importance == nil && q.Output.needsMatrix(c.Tensor.Name, typ) && typ != c.Tensor.Type && m.predictsFurther(c.Tensor.Name) {
			typ = quant.Q4_K // a block has as many elements, and wrong draft tokens cost only time
		}
		c.Type = typ
		c.NeedsMatrix = typ != c.Tensor.Type && q.Output.needsMatrix(c.Tensor.Name, typ) && c.importance == nil
	}
	others.tell(q.Notes)
	q.tellUnmatched(names)
	if q.Notes != nil && prepared.HasCurve(f) && slices.ContainsFunc(choices, func(c Choice) bool { return c.Type != c.Tensor.Type }) {
		q.Notes("what leaving neurons out costs (--max-kld) was measured before quantising; `powerinfer prepare` measures the new file: --measure of one with predictors, --sparse threshold of others")
	}
	return withFactors(f, choices)
}

// tellUnmatched notes rules that match no tensor, which may be misspelt.
func (q *Quantization) tellUnmatched(names []string) {
	for _, r := range q.Rules {
		if q.Notes != nil && !slices.ContainsFunc(names, r.Pattern.MatchString) {
			q.Notes(fmt.Sprintf("no tensor's name matches %q, which was to be of type %s", r.Pattern, strings.ToLower(r.Type.String())))
		}
	}
}

// inLayerOrder returns the places of names in the order in which mixes count: by layer, and in a layer by name.
func inLayerOrder(names []string) []int {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	layer := func(i int) int {
		if l, _, ok := layerOf(names[i]); ok {
			return l
		}
		return -1
	}
	slices.SortFunc(order, func(a, b int) int {
		if la, lb := layer(a), layer(b); la != lb {
			return la - lb
		}
		return strings.Compare(names[a], names[b])
	})
	return order
}

// predictor reports whether m is part of a layer's predictor.
func predictor(m *gguf.Tensor) bool {
	return strings.HasSuffix(m.Name, ".fc1.weight") || strings.HasSuffix(m.Name, ".fc2.weight")
}

// storeAs returns the type of t in the output.
func (q *Quantization) storeAs(f *gguf.File, t *gguf.Tensor, m *mixer, others *narrowings) (quant.Type, error) {
	if kept(t.Name, t.Shape) || t.Type.Whole() || q.KeepHead && t.Name == "output.weight" {
		return t.Type, nil
	}
	// prepare was told their type; the original's form scales some far below what a block's scale can be
	if predictor(t) && (!t.Type.Float() || t.Type == quant.F32 && f.Magic == "PWRI") {
		return t.Type, nil
	}
	typ, err := q.wanted(f, t, m, others)
	switch {
	case err != nil:
		return 0, err
	case typ == t.Type:
		return typ, nil
	case !t.Type.Float() && !q.Requantize:
		return 0, fmt.Errorf("%s: tensor %q is %s already, and quantising it again loses quality: start from a file of F32, F16 or BF16, or give --allow-requantize",
			f.Path, t.Name, t.Type)
	case typ == quant.F16 && t.Type == quant.BF16 && q.Output.base.Quantised():
		return t.Type, nil // a fallback, and the wider one
	}
	return typ, nil
}

// wanted returns the type that t is to have.
func (q *Quantization) wanted(f *gguf.File, t *gguf.Tensor, m *mixer, others *narrowings) (quant.Type, error) {
	p := partOf(t.Name)
	for _, c := range []struct {
		typ  *quant.Type
		part part
	}{{q.Embedding, partEmbedding}, {q.Head, partHead}} {
		if c.typ == nil || p != c.part {
			continue
		}
		if n := c.typ.BlockElems(); t.Shape[0]%n != 0 {
			return 0, fmt.Errorf("%s: tensor %q has rows of %d elements, which do not divide into blocks of %s (%d); choose another type for it",
				f.Path, t.Name, t.Shape[0], *c.typ, n)
		}
		return *c.typ, nil
	}
	if !q.Output.base.Quantised() {
		return q.Output.base, nil
	}
	typ := q.Output.base
	rule := slices.IndexFunc(q.Rules, func(r TypeRule) bool { return r.Pattern.MatchString(t.Name) })
	switch {
	case rule >= 0:
		typ = q.Rules[rule].Type
	case !q.Pure:
		typ = m.choose(t.Name, t.Shape)
	}
	return narrowed(t.Name, t.Shape, typ, others), nil
}

// narrowed returns typ, or a replacement if its blocks do not divide rows.
func narrowed(name string, shape []int, typ quant.Type, n *narrowings) quant.Type {
	other := fallback(typ, shape[0])
	if other != typ {
		n.add(name, narrowing{shape[0], typ, other})
	}
	return other
}

// narrowing is the case that a type's blocks do not divide a matrix's rows, and another type replaces it.
type narrowing struct {
	cols       int
	typ, other quant.Type
}

// narrowings collects the matrices stored in another type, so that the user learns of equal cases once.
type narrowings struct {
	order []narrowing
	names map[narrowing][]string
}

func (n *narrowings) add(name string, what narrowing) {
	if n.names == nil {
		n.names = map[narrowing][]string{}
	}
	if n.names[what] == nil {
		n.order = append(n.order, what)
	}
	n.names[what] = append(n.names[what], name)
}

// tell notes the collected matrices, a line for each pair of types; note may be nil.
func (n *narrowings) tell(note func(string)) {
	for _, w := range n.order {
		who := n.names[w][0]
		if more := len(n.names[w]) - 1; more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		if note != nil {
			note(fmt.Sprintf("%s: rows of %d elements do not divide into blocks of %s (%d); stored as %s", who, w.cols, w.typ, w.typ.BlockElems(), w.other))
		}
	}
}

// kept reports whether a tensor stays unchanged in every type: vectors, tensors other than weights, and small matrices
// that matter. Source: llama.cpp's list; its converter keeps indexer.proj in F32, and its quantiser does not.
func kept(name string, shape []int) bool {
	dims := len(shape)
	for dims > 1 && shape[dims-1] == 1 {
		dims--
	}
	if dims < 2 || !strings.HasSuffix(name, "weight") || name == "position_embd.weight" || name == "token_types.weight" {
		return true
	}
	return slices.ContainsFunc([]string{
		"_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj",
		"ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight", "indexer.proj.weight",
		"time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight",
		"time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
		"time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
		"attn_rel_b.weight", ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger",
		"a.rvq.codebook", "mm.a.code_embd",
	}, func(s string) bool { return strings.Contains(name, s) })
}

// copyStep is the number of bytes that are copied between two reports of progress.
const copyStep = 4 << 20

func copyData(w io.Writer, b []byte) error {
	for part := range slices.Chunk(b, copyStep) {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
