package nn

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Adapter is a LoRA adapter (Hu et al. 2021): it has two narrow matrices A and B for some of the model's matrices W,
// and W·x becomes W·x + Scale·alpha/rank·B·(A·x). W stays as it is.
type Adapter struct {
	File  *gguf.File // which must stay open as long as models are loaded
	Scale float32    // unless a step says otherwise
}

// blockRank is what ranks are rounded up to.
const blockRank = 32

const (
	suffixA = ".lora_a"
	suffixB = ".lora_b"
)

// Adapters binds what adapters have for a model's tensors.
type Adapters struct {
	files   []Adapter
	alphas  []float32
	taken   map[*gguf.Tensor]bool
	dense   map[*compute.Matrix][]lowRank
	neurons map[*compute.Matrix]*neuronAdapter
}

// MaxScale bounds factors from outside: beyond it activations stop being numbers.
const MaxScale = 1e6

// NewAdapters checks what the files say of themselves. arch is the model's general.architecture.
func NewAdapters(files []Adapter, arch string) (*Adapters, error) {
	s := &Adapters{files: files, taken: map[*gguf.Tensor]bool{}, dense: map[*compute.Matrix][]lowRank{}, neurons: map[*compute.Matrix]*neuronAdapter{}}
	for _, a := range files {
		k := &Keys{File: a.File}
		kind, family, form := k.Text("general.type", ""), k.Text("general.architecture", ""), k.Text("adapter.type", "")
		alpha := k.Within("adapter.lora.alpha", 0, 0, MaxScale)
		switch {
		case k.Err != nil:
			return nil, k.Err
		case kind != "adapter" || form != "lora":
			return nil, setting.Errorf("%s: this is no LoRA adapter: general.type is %q and adapter.type %q; %s is for adapters", a.File.Path, kind, form, setting.Adapters)
		case family != arch:
			return nil, fmt.Errorf("%s: the adapter is for the architecture %q, and the model has %q", a.File.Path, family, arch)
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

// Adapted returns the name of the model's tensor that an adapter's tensor changes.
func Adapted(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, suffixA), suffixB)
}

// AdapterBytes returns the bytes of an adapter's tensor in memory: it is stored in float32, with its rank rounded up.
func AdapterBytes(t *gguf.Tensor) int64 {
	rows, cols := int64(t.Rows()), int64(t.Shape[0])
	rank := &cols
	if strings.HasSuffix(t.Name, suffixA) {
		rank = &rows
	}
	*rank = (*rank + blockRank - 1) / blockRank * blockRank
	return 4 * rows * cols
}

// AdaptsNeurons returns the name of an adapter that changes feed-forward layers, or "".
func AdaptsNeurons(files []Adapter) string {
	for _, a := range files {
		if slices.ContainsFunc(a.File.Tensors, func(t *gguf.Tensor) bool { return strings.Contains(t.Name, ".ffn_") }) {
			return a.File.Path
		}
	}
	return ""
}

// pair is an adapter's two matrices for a tensor.
type pair struct {
	adapter int
	file    *gguf.File
	a, b    *gguf.Tensor
	scale   float32 // alpha/rank
	rank    int     // rounded up
}

// pairs returns the adapters' matrices for tensor name [rows, cols], and marks them as taken.
func (s *Adapters) pairs(name string, rows, cols int) (list []pair, err error) {
	for i, f := range s.files {
		a, b := f.File.Tensor(name+suffixA), f.File.Tensor(name+suffixB)
		if a == nil {
			continue
		}
		rank := a.Rows()
		if a.Shape[0] != cols || b.Rows() != rows || b.Shape[0] != rank || rank < 1 || rank > MaxWidth {
			return nil, fmt.Errorf("%s: tensors %q %v and %q %v do not fit the model's %q [%d %d]: the adapter is for another model", f.File.Path, a.Name, a.Shape, b.Name, b.Shape, name, cols, rows)
		}
		s.taken[a], s.taken[b] = true, true
		p := pair{adapter: i, file: f.File, a: a, b: b, scale: 1, rank: (rank + blockRank - 1) / blockRank * blockRank}
		if alpha := s.alphas[i]; alpha != 0 {
			p.scale = alpha / float32(rank)
		}
		list = append(list, p)
	}
	return list, nil
}

// destination says where undivided matrices go.
type destination struct {
	dev  compute.Device
	tier compute.Tier
	gpu  bool
}

// take hands a matrix in floats to the device, whole.
func (l destination) take(f *gguf.File, name string, data []byte, rows, cols int) (*compute.Matrix, error) {
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

// bind binds the adapters of tensor name. w are consecutive rows of the tensor.
func (s *Adapters) bind(to destination, name string, w []*compute.Matrix) error {
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
			s.dense[part] = append(s.dense[part], lowRank{p.adapter, p.scale, down, up})
			at += part.Rows
		}
	}
	return nil
}

// bindRows is bind for a tensor with a row for each neuron. The neurons of each part w are reordered by order, and the
// first hot of them go to the GPU.
func (s *Adapters) bindRows(to destination, name string, w []*compute.Matrix, hot int, order []int32) error {
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
	var narrow []lowRank
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
		narrow = append(narrow, lowRank{adapter: p.adapter, scale: p.scale, a: a})
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
		s.neurons[part] = &neuronAdapter{narrow, m, ranks}
		at += part.Rows
	}
	return nil
}

// bindColumns is bind for the tensor name [rows, cols], bound as w, with a column for each neuron. The neurons are
// reordered by order, and the first hot of them go to the GPU.
func (s *Adapters) bindColumns(to destination, name string, rows, cols int, w *compute.Matrix, hot int, order []int32) error {
	list, err := s.pairs(name, rows, cols)
	if err != nil || len(list) == 0 {
		return err
	}
	var wide []byte // [ranks, cols]
	var narrow []lowRank
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
		narrow = append(narrow, lowRank{adapter: p.adapter, scale: p.scale, b: b})
		wide = append(wide, a...)
		ranks += p.rank
	}
	m, err := to.dev.Matrix(compute.Source{
		Name: list[0].a.Name, Type: quant.F32, Rows: ranks, Cols: cols, Data: wide, Order: order, Split: compute.Split{Tier: to.tier, Bound: hot},
	}, compute.Columns)
	if err != nil {
		return fmt.Errorf("%s: %w", list[0].file.Path, err)
	}
	s.neurons[w] = &neuronAdapter{narrow, m, ranks}
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

// padded returns t as floats [rows, cols], with zeros where t has no elements.
func padded(f *gguf.File, t *gguf.Tensor, rows, cols int) ([]byte, error) {
	if !t.Type.Known() || t.Type.Whole() {
		return nil, fmt.Errorf("%s: tensor %q: an adapter in %s is not supported; convert it in F32, F16 or BF16", f.Path, t.Name, t.Type)
	}
	out, row := make([]byte, 4*rows*cols), make([]float32, t.Shape[0])
	for r := range t.Rows() {
		quant.Decode(t.Type, row, t.Data[r*t.Type.RowBytes(len(row)):][:t.Type.RowBytes(len(row))])
		quant.Encode(quant.F32, out[4*r*cols:][:4*len(row)], row)
	}
	return out, nil
}

// Finish names what no matrix of the model took.
func (s *Adapters) Finish() error {
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

// CheckScales reports whether scales are numbers for each adapter.
func (s *Adapters) CheckScales(scales []float32) error {
	if len(scales) != len(s.files) {
		return fmt.Errorf("%d scales for %d adapters", len(scales), len(s.files))
	}
	for i, v := range scales {
		if math.Abs(float64(v)) > MaxScale || v != v {
			return fmt.Errorf("adapter %d: the scale %g is not a number between %g and %g", i, v, -MaxScale, MaxScale)
		}
	}
	return nil
}
