package model

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Adapter is a LoRA adapter (Hu et al. 2021): beside some of the model's matrices W it has two narrow ones, and W·x
// becomes W·x + Scale·alpha/rank·B·(A·x). W stays as it is.
type Adapter struct {
	File  *gguf.File // which must stay open as long as models are loaded
	Scale float32    // unless Model.Scales or a step says otherwise
}

// delta is what an adapter adds to one matrix, or to consecutive rows of one.
type delta struct {
	adapter int
	scale   float32         // alpha/rank
	a       *compute.Matrix // [rank, cols], the rank rounded up to blockRank with zeros, which every device's matrices can have
	b       *compute.Matrix // [rows, rank]
}

// besideNeurons is what adapters add to a matrix of neurons, of a layer that SparseFFN computes: the halves of theirs
// that have a row or a column for each neuron are one matrix, which lies where the neurons do; the others lie apart.
type besideNeurons struct {
	narrow []delta         // of gate and up with a alone, of down with b alone
	wide   *compute.Matrix // the adapters' b [n_ff, ranks], or a [ranks, n_ff] of down
	ranks  int             // of all adapters, each rounded up
}

// blockRank is what ranks are rounded up to.
const blockRank = 32

const (
	suffixA = ".lora_a"
	suffixB = ".lora_b"
)

// adapters binds adapters' tensors beside a model's.
type adapters struct {
	files   []Adapter
	alphas  []float32
	taken   map[*gguf.Tensor]bool
	deltas  map[*compute.Matrix][]delta
	neurons map[*compute.Matrix]*besideNeurons
	rank    int // the largest, rounded up
}

// newAdapters checks what the files say of themselves.
func newAdapters(files []Adapter, c *Config) (*adapters, error) {
	s := &adapters{files: files, taken: map[*gguf.Tensor]bool{}, deltas: map[*compute.Matrix][]delta{}, neurons: map[*compute.Matrix]*besideNeurons{}}
	for _, a := range files {
		m := &metadata{f: a.File}
		kind, family, form := m.text("general.type", ""), m.text("general.architecture", ""), m.text("adapter.type", "")
		alpha := m.within("adapter.lora.alpha", 0, 0, maxScale)
		switch {
		case m.err != nil:
			return nil, m.err
		case kind != "adapter" || form != "lora":
			return nil, setting.Errorf("%s: this is no LoRA adapter: general.type is %q and adapter.type %q; %s is for adapters", a.File.Path, kind, form, setting.Adapters)
		case family != c.Arch:
			return nil, fmt.Errorf("%s: the adapter is for the architecture %q, and the model has %q", a.File.Path, family, c.Arch)
		}
		if _, ok := a.File.Lookup("adapter.alora.invocation_tokens"); ok {
			return nil, fmt.Errorf("%s: adapters that begin at invocation tokens (aLoRA) are not supported; plain LoRA is", a.File.Path)
		}
		for _, t := range a.File.Tensors {
			base, ok := strings.CutSuffix(t.Name, suffixA)
			if !ok {
				base, ok = strings.CutSuffix(t.Name, suffixB)
			}
			switch {
			case base == "token_embd.weight" || base == "position_embd.weight":
				return nil, fmt.Errorf("%s: tensor %q: adapters of the embedding are not supported; merge the adapter into the model and convert that", a.File.Path, t.Name)
			case !ok:
				return nil, fmt.Errorf("%s: tensor %q is neither a %s nor a %s; only LoRA's pairs are supported", a.File.Path, t.Name, suffixA[1:], suffixB[1:])
			case a.File.Tensor(base+suffixA) == nil || a.File.Tensor(base+suffixB) == nil:
				return nil, fmt.Errorf("%s: tensor %q has no partner: the adapter is damaged", a.File.Path, t.Name)
			}
		}
		s.alphas = append(s.alphas, float32(alpha))
	}
	return s, nil
}

// Adapted returns the name of the model's tensor that an adapter's tensor of that name lies beside.
func Adapted(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, suffixA), suffixB)
}

// AdapterBytes returns what a tensor of an adapter takes in memory: it is kept in floats, its rank rounded up.
func AdapterBytes(t *gguf.Tensor) int64 {
	rows, cols := int64(t.Rows()), int64(t.Shape[0])
	rank := &cols
	if strings.HasSuffix(t.Name, suffixA) {
		rank = &rows
	}
	*rank = (*rank + blockRank - 1) / blockRank * blockRank
	return 4 * rows * cols
}

// adaptsNeurons returns the name of an adapter that changes feed-forward layers, or "".
func adaptsNeurons(files []Adapter) string {
	for _, a := range files {
		if slices.ContainsFunc(a.File.Tensors, func(t *gguf.Tensor) bool { return strings.Contains(t.Name, ".ffn_") }) {
			return a.File.Path
		}
	}
	return ""
}

// ModeWith returns asked, or in place of Auto, where an adapter changes feed-forward layers, what leaves out nothing
// that counts: predictors and what a file says that they cost are of the model without the adapter.
func (c *Config) ModeWith(asked SparseMode, files []Adapter) SparseMode {
	if asked == Auto && adaptsNeurons(files) != "" {
		return c.safe()
	}
	return asked
}

// pair is an adapter's two matrices beside a tensor.
type pair struct {
	adapter int
	file    *gguf.File
	a, b    *gguf.Tensor
	scale   float32 // alpha/rank
	rank    int     // rounded up
}

// pairs returns what the adapters have beside tensor name [rows, cols], and takes it.
func (s *adapters) pairs(name string, rows, cols int) (list []pair, err error) {
	for i, f := range s.files {
		a, b := f.File.Tensor(name+suffixA), f.File.Tensor(name+suffixB)
		if a == nil {
			continue
		}
		rank := a.Rows()
		if a.Shape[0] != cols || b.Rows() != rows || b.Shape[0] != rank || rank < 1 || rank > maxWidth {
			return nil, fmt.Errorf("%s: tensors %q %v and %q %v do not fit the model's %q [%d %d]: the adapter is for another model", f.File.Path, a.Name, a.Shape, b.Name, b.Shape, name, cols, rows)
		}
		s.taken[a], s.taken[b] = true, true
		p := pair{adapter: i, file: f.File, a: a, b: b, scale: 1, rank: (rank + blockRank - 1) / blockRank * blockRank}
		if alpha := s.alphas[i]; alpha != 0 {
			p.scale = alpha / float32(rank)
		}
		s.rank = max(s.rank, p.rank)
		list = append(list, p)
	}
	return list, nil
}

// lying says where matrices that are not divided go.
type lying struct {
	dev  compute.Device
	tier compute.Tier
	gpu  bool
}

// take hands a matrix in floats to the device, whole.
func (l lying) take(f *gguf.File, name string, data []byte, rows, cols int) (*compute.Matrix, error) {
	src := compute.Source{Name: name, Type: quant.F32, Rows: rows, Cols: cols, Data: data, Split: compute.Split{Tier: l.tier}}
	if l.gpu {
		src.Split.Bound = rows
	}
	m, err := l.dev.Matrix(src, compute.Precise)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return m, nil
}

// bind takes in what adapters have beside tensor name, whose consecutive rows w are.
func (s *adapters) bind(to lying, name string, w []*compute.Matrix) error {
	rows := 0
	for _, part := range w {
		rows += part.Rows
	}
	list, err := s.pairs(name, rows, w[0].Cols)
	if err != nil {
		return err
	}
	for _, p := range list {
		narrowed, err := padded(p.file, p.a, p.rank, w[0].Cols)
		if err != nil {
			return err
		}
		widened, err := padded(p.file, p.b, rows, p.rank)
		if err != nil {
			return err
		}
		down, err := to.take(p.file, p.a.Name, narrowed, p.rank, w[0].Cols)
		if err != nil {
			return err
		}
		at := 0
		for _, part := range w {
			up, err := to.take(p.file, p.b.Name, widened[4*at*p.rank:][:4*part.Rows*p.rank], part.Rows, p.rank)
			if err != nil {
				return err
			}
			s.deltas[part] = append(s.deltas[part], delta{p.adapter, p.scale, down, up})
			at += part.Rows
		}
	}
	return nil
}

// bindRows takes in what adapters have beside tensor name, whose consecutive rows w are, all of them neurons: of each
// the first hot go to the GPU, in the order given.
func (s *adapters) bindRows(to lying, name string, w []*compute.Matrix, hot int, order []int32) error {
	rows := 0
	for _, part := range w {
		rows += part.Rows
	}
	list, err := s.pairs(name, rows, w[0].Cols)
	if err != nil || len(list) == 0 {
		return err
	}
	ranks := 0
	for _, p := range list {
		ranks += p.rank
	}
	wide := make([]byte, 4*rows*ranks) // [rows, ranks]
	var narrow []delta
	at := 0
	for _, p := range list {
		narrowed, err := padded(p.file, p.a, p.rank, w[0].Cols)
		if err != nil {
			return err
		}
		a, err := to.take(p.file, p.a.Name, narrowed, p.rank, w[0].Cols)
		if err != nil {
			return err
		}
		b, err := padded(p.file, p.b, rows, p.rank)
		if err != nil {
			return err
		}
		for r := range rows {
			copy(wide[4*(r*ranks+at):], b[4*r*p.rank:][:4*p.rank])
		}
		narrow = append(narrow, delta{adapter: p.adapter, scale: p.scale, a: a})
		at += p.rank
	}
	at = 0
	for _, part := range w {
		m, err := to.dev.Matrix(compute.Source{
			Name: list[0].b.Name, Type: quant.F32, Rows: part.Rows, Cols: ranks, Data: wide[4*at*ranks:][:4*part.Rows*ranks],
			Order: order, Split: compute.Split{Tier: to.tier, Bound: min(hot, part.Rows)},
		}, compute.Rows)
		if err != nil {
			return fmt.Errorf("%s: %w", list[0].file.Path, err)
		}
		s.neurons[part] = &besideNeurons{narrow, m, ranks}
		at += part.Rows
	}
	return nil
}

// bindColumns takes in what adapters have beside tensor name [rows, cols], which w is, and whose columns are neurons:
// the first hot go to the GPU, in the order given.
func (s *adapters) bindColumns(to lying, name string, rows, cols int, w *compute.Matrix, hot int, order []int32) error {
	list, err := s.pairs(name, rows, cols)
	if err != nil || len(list) == 0 {
		return err
	}
	var wide []byte // [ranks, cols]
	var narrow []delta
	ranks := 0
	for _, p := range list {
		a, err := padded(p.file, p.a, p.rank, cols)
		if err != nil {
			return err
		}
		widened, err := padded(p.file, p.b, rows, p.rank)
		if err != nil {
			return err
		}
		b, err := to.take(p.file, p.b.Name, widened, rows, p.rank)
		if err != nil {
			return err
		}
		narrow = append(narrow, delta{adapter: p.adapter, scale: p.scale, b: b})
		wide = append(wide, a...)
		ranks += p.rank
	}
	m, err := to.dev.Matrix(compute.Source{
		Name: list[0].a.Name, Type: quant.F32, Rows: ranks, Cols: cols, Data: wide, Order: order, Split: compute.Split{Tier: to.tier, Bound: hot},
	}, compute.Columns)
	if err != nil {
		return fmt.Errorf("%s: %w", list[0].file.Path, err)
	}
	s.neurons[w] = &besideNeurons{narrow, m, ranks}
	return nil
}

// composed returns first, sorted by then, which may be nil.
func composed(first, then []int32) []int32 {
	if then == nil {
		return first
	}
	out := make([]int32, len(then))
	for i, n := range then {
		out[i] = first[n]
	}
	return out
}

// padded returns t as floats of so many rows and columns, with zeros where t has none.
func padded(f *gguf.File, t *gguf.Tensor, rows, cols int) ([]byte, error) {
	if !t.Type.Known() || t.Type == quant.I32 {
		return nil, fmt.Errorf("%s: tensor %q: an adapter in %s is not supported; convert it in F32, F16 or BF16", f.Path, t.Name, t.Type)
	}
	out, row := make([]byte, 4*rows*cols), make([]float32, t.Shape[0])
	for r := range t.Rows() {
		quant.Decode(t.Type, row, t.Data[r*t.Type.RowBytes(len(row)):][:t.Type.RowBytes(len(row))])
		quant.Encode(quant.F32, out[4*r*cols:][:4*len(row)], row)
	}
	return out, nil
}

// finish names what no matrix of the model took.
func (s *adapters) finish() error {
	for _, a := range s.files {
		var left []string
		for _, t := range a.File.Tensors {
			if !s.taken[t] {
				left = append(left, t.Name)
			}
		}
		if len(left) > 0 {
			sort.Strings(left)
			return fmt.Errorf("%s: the model has no matrix for %s, or one that adapters cannot change: merge the adapter into the model and convert that", a.File.Path, left[0])
		}
	}
	return nil
}

// scalesOf returns the adapters' scales of a step: its own, else the model's.
func (m *Model) scalesOf(p *compute.Params) []float32 {
	if p.Scales != nil {
		return p.Scales
	}
	return m.Scales
}

// adapted names a step by the scales of its adapters: steps whose scales differ are other segments, because what a GPU
// records has them in it.
func adapted(name string, scales []float32) string {
	for _, s := range scales {
		name += " " + strconv.FormatFloat(float64(s), 'g', -1, 32)
	}
	return name
}

// CheckScales reports whether scales are numbers for each of the model's adapters.
func (m *Model) CheckScales(scales []float32) error {
	if len(scales) != len(m.adapters.files) {
		return fmt.Errorf("%d scales for %d adapters", len(scales), len(m.adapters.files))
	}
	for i, s := range scales {
		if math.Abs(float64(s)) > maxScale || s != s {
			return fmt.Errorf("adapter %d: the scale %g is not a number between %g and %g", i, s, -maxScale, maxScale)
		}
	}
	return nil
}

// product does a MatMul, and adds what the adapters do.
func (m *Model) product(v compute.Verbs, x compute.Tensor, p compute.Products) {
	v.MatMul(x, p)
	if len(m.adapters.deltas) == 0 {
		return
	}
	for i := range p {
		if p[i].W == nil {
			return
		}
		low, wide := m.buf.adapterLow.Like(x), m.buf.adapterWide.Like(x)
		if p[i].W == m.head {
			low, wide = m.buf.adapterLast.Like(x), m.buf.adapterVocab.Like(x)
		}
		for _, d := range m.adapters.deltas[p[i].W] {
			s := d.scale * m.scales[d.adapter]
			if s == 0 {
				continue
			}
			low.Cols, wide.Cols = d.a.Rows, d.b.Rows
			v.MatMul(x, compute.Products{{Out: low, W: d.a}})
			v.Scale(low, s)
			v.MatMul(low, compute.Products{{Out: wide, W: d.b}})
			v.Add(p[i].Out, wide)
		}
	}
}

// changes returns what adapters of the step at hand add to w, a matrix of neurons, or nil.
func (m *Model) changes(w *compute.Matrix) *besideNeurons {
	b := m.adapters.neurons[w]
	if b == nil || !slices.ContainsFunc(b.narrow, func(d delta) bool { return m.scales[d.adapter] != 0 }) {
		return nil
	}
	return b
}

// narrow computes the narrow products of in, of adapters one behind the other, to low.
func (m *Model) narrow(v compute.Verbs, in compute.Tensor, b *besideNeurons, low compute.Tensor) compute.Tensor {
	low = low.Like(in)
	low.Cols = b.ranks
	at := 0
	for _, d := range b.narrow {
		part := low
		if len(b.narrow) > 1 {
			part = m.buf.adapterLow.Like(in)
			part.Cols = d.a.Rows
		}
		v.MatMul(in, compute.Products{{Out: part, W: d.a}})
		v.Scale(part, d.scale*m.scales[d.adapter])
		if len(b.narrow) > 1 {
			v.CopyColumns(low, part, compute.Ranges{First: at}, compute.Ranges{}, part.Cols, 1)
		}
		at += d.a.Rows
	}
	return low
}

// sparseFFN does a SparseFFN, and adds what adapters do.
func (m *Model) sparseFFN(v compute.Verbs, s *buffers, in compute.Tensor, set compute.Set, w compute.SparseWeights) {
	if len(m.adapters.neurons) == 0 {
		v.SparseFFN(s.ffnOut, in, set, w)
		return
	}
	a := &w.Adapter
	if b := m.changes(w.Gate); b != nil {
		a.GateB, a.GateLow = b.wide, m.narrow(v, in, b, m.buf.adapterGates)
	}
	if b := m.changes(w.Up); b != nil {
		a.UpB, a.UpLow = b.wide, m.narrow(v, in, b, m.buf.adapterUps)
	}
	down := m.changes(w.Down)
	if down != nil {
		a.DownA, a.DownLow = down.wide, m.buf.adapterDowns.Like(in)
		a.DownLow.Cols = down.ranks
	}
	v.SparseFFN(s.ffnOut, in, set, w)
	if down == nil {
		return
	}
	at := 0
	for _, d := range down.narrow {
		low, wide := a.DownLow, m.buf.adapterWide.Like(in)
		wide.Cols = d.b.Rows
		if len(down.narrow) > 1 {
			low = m.buf.adapterLow.Like(in)
			low.Cols = d.b.Cols
			v.Slice(low, a.DownLow, at)
		}
		v.Scale(low, d.scale*m.scales[d.adapter])
		v.MatMul(low, compute.Products{{Out: wide, W: d.b}})
		v.Add(s.ffnOut, wide)
		at += d.b.Cols
	}
}

// adapterBuffers allocates what products of adapters need: n rows of tokens, and rows of outputs where the head has
// some.
func (m *Model) adapterBuffers(b *buffers, tensor func(rows, cols int) compute.Tensor, n, outputs int) {
	widest, head := 0, false
	for w := range m.adapters.deltas {
		if w == m.head {
			head = true
		} else {
			widest = max(widest, w.Rows)
		}
	}
	ranks := 0
	for _, y := range m.adapters.neurons {
		ranks, widest = max(ranks, y.ranks), max(widest, m.Embd)
	}
	if ranks > 0 {
		b.adapterGates, b.adapterUps, b.adapterDowns = tensor(n, ranks), tensor(n, ranks), tensor(n, ranks)
	}
	if widest > 0 {
		b.adapterLow, b.adapterWide = tensor(n, m.adapters.rank), tensor(n, widest)
	}
	if head {
		b.adapterLast, b.adapterVocab = tensor(outputs, m.adapters.rank), tensor(outputs, m.Vocab)
	}
}
