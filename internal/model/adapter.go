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
)

// Adapter is a LoRA adapter (Hu et al. 2021): beside some of the model's matrices W it has two narrow ones, and W·x becomes
// W·x + Scale·alpha/rank·B·(A·x). W stays as it is.
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

// blockRank is what ranks are rounded up to.
const blockRank = 32

const (
	suffixA = ".lora_a"
	suffixB = ".lora_b"
)

// adapters binds adapters' tensors beside a model's.
type adapters struct {
	files  []Adapter
	alphas []float32
	taken  map[*gguf.Tensor]bool
	deltas map[*compute.Matrix][]delta
	rank   int // the largest, rounded up
}

// newAdapters checks what the files say of themselves.
func newAdapters(files []Adapter, c *Config) (*adapters, error) {
	s := &adapters{files: files, taken: map[*gguf.Tensor]bool{}, deltas: map[*compute.Matrix][]delta{}}
	for _, a := range files {
		m := &metadata{f: a.File}
		kind, family, form := m.text("general.type", ""), m.text("general.architecture", ""), m.text("adapter.type", "")
		alpha := m.within("adapter.lora.alpha", 0, 0, maxScale)
		switch {
		case m.err != nil:
			return nil, m.err
		case kind != "adapter" || form != "lora":
			return nil, fmt.Errorf("%s: this is no LoRA adapter: general.type is %q and adapter.type %q; -m is for models, --lora for adapters", a.File.Path, kind, form)
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

// inFFN returns the name of an adapter that changes feed-forward layers, or "".
func (s *adapters) inFFN() string { return AdaptsNeurons(s.files) }

// AdaptsNeurons returns the name of an adapter that changes feed-forward layers, which then are computed whole, or "".
func AdaptsNeurons(files []Adapter) string {
	for _, a := range files {
		if slices.ContainsFunc(a.File.Tensors, func(t *gguf.Tensor) bool { return strings.Contains(t.Name, ".ffn_") }) {
			return a.File.Path
		}
	}
	return ""
}

// bind takes in what adapters have beside tensor name, whose consecutive rows w are, on the GPU of tier if gpu.
func (s *adapters) bind(dev compute.Device, name string, w []*compute.Matrix, tier compute.Tier, gpu bool) error {
	for i, f := range s.files {
		a, b := f.File.Tensor(name+suffixA), f.File.Tensor(name+suffixB)
		if a == nil {
			continue
		}
		rows := 0
		for _, part := range w {
			rows += part.Rows
		}
		rank := a.Rows()
		if a.Shape[0] != w[0].Cols || b.Rows() != rows || b.Shape[0] != rank || rank < 1 || rank > maxWidth {
			return fmt.Errorf("%s: tensors %q %v and %q %v do not fit the model's %q [%d %d]: the adapter is for another model", f.File.Path, a.Name, a.Shape, b.Name, b.Shape, name, w[0].Cols, rows)
		}
		s.taken[a], s.taken[b] = true, true
		scale := float32(1)
		if alpha := s.alphas[i]; alpha != 0 {
			scale = alpha / float32(rank)
		}
		wide := (rank + blockRank - 1) / blockRank * blockRank
		s.rank = max(s.rank, wide)
		narrowed, err := padded(f.File, a, wide, w[0].Cols)
		if err != nil {
			return err
		}
		widened, err := padded(f.File, b, rows, wide)
		if err != nil {
			return err
		}
		at := 0
		take := func(name string, data []byte, rows, cols int) (*compute.Matrix, error) {
			bound := 0
			if gpu {
				bound = rows
			}
			return dev.Matrix(compute.Source{Name: name, Type: quant.F32, Rows: rows, Cols: cols, Data: data, Split: compute.Split{Tier: tier, Bound: bound}}, compute.Precise)
		}
		down, err := take(a.Name, narrowed, wide, w[0].Cols)
		if err != nil {
			return fmt.Errorf("%s: %w", f.File.Path, err)
		}
		for _, part := range w {
			up, err := take(b.Name, widened[4*at*wide:][:4*part.Rows*wide], part.Rows, wide)
			if err != nil {
				return fmt.Errorf("%s: %w", f.File.Path, err)
			}
			s.deltas[part] = append(s.deltas[part], delta{i, scale, down, up})
			at += part.Rows
		}
	}
	return nil
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

// adapted names a step by the scales of its adapters: steps whose scales differ are other segments, because what a GPU records has them in it.
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
	low, wide := m.buf.adapterLow.First(x.Rows), m.buf.adapterWide.First(x.Rows)
	if x.Outputs {
		low, wide = m.buf.adapterLast.First(x.Rows), m.buf.adapterVocab.First(x.Rows)
	}
	for i := range p {
		if p[i].W == nil {
			return
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

// adapterBuffers allocates what products of adapters need: n rows of tokens, and rows of outputs where the head has some.
func (m *Model) adapterBuffers(b *buffers, tensor func(rows, cols int) compute.Tensor, n, outputs int) {
	widest, head := 0, false
	for w := range m.adapters.deltas {
		if w == m.head {
			head = true
		} else {
			widest = max(widest, w.Rows)
		}
	}
	if widest > 0 {
		b.adapterLow, b.adapterWide = tensor(n, m.adapters.rank), tensor(n, widest)
	}
	if head {
		b.adapterLast, b.adapterVocab = tensor(outputs, m.adapters.rank), tensor(outputs, m.Vocab)
		b.adapterLast.Outputs, b.adapterVocab.Outputs = true, true
	}
}
