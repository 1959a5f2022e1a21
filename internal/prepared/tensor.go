package prepared

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// prepare lists the tensors of the prepared file: the model's in its own order, and each layer's predictor after its
// down projection.
func (m *model) prepare(p Plan) ([]gguf.Source, error) {
	role := map[string]func(t *gguf.Tensor) ([]gguf.Source, error){}
	for l := range m.layers {
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s", l, s) }
		order := identity(m.ff)
		if p.Order != nil {
			order = p.Order[l]
		}
		none := func(*gguf.Tensor) ([]gguf.Source, error) { return nil, nil }
		rows := func(t *gguf.Tensor) ([]gguf.Source, error) {
			return one(ordered(t, order)), shaped(m.f, t, m.embd, m.ff)
		}
		predictor := func(down gguf.Source) []gguf.Source {
			return append(one(down), p.Predictors[l].tensors(l, m.embd, p.PredictorType)...)
		}
		role[name("ffn_gate.weight")] = rows
		role[name("ffn_up.weight")] = rows
		if up := m.f.Tensor(name("ffn_up.weight")); up != nil && up.Rows() == 2*m.ff && m.f.Tensor(name("ffn_gate.weight")) == nil {
			role[name("ffn_up.weight")] = func(t *gguf.Tensor) ([]gguf.Source, error) {
				n := RowsOf(m.f, l, true)
				return []gguf.Source{ordered(n.Gate, order), ordered(n.Up, order)}, shaped(m.f, t, m.embd, 2*m.ff)
			}
			for _, end := range []string{"scale", "input_scale"} { // of both
				role[name("ffn_up."+end)] = func(t *gguf.Tensor) ([]gguf.Source, error) {
					gate := copied(t)
					gate.Name = name("ffn_gate." + end)
					return []gguf.Source{gate, copied(t)}, nil
				}
			}
		}
		role[name("ffn_up.bias")] = func(t *gguf.Tensor) ([]gguf.Source, error) {
			return one(ordered(t, order)), shaped(m.f, t, m.ff)
		}
		role[name("ffn_down_t.weight")] = func(t *gguf.Tensor) ([]gguf.Source, error) {
			return predictor(ordered(t, order)), shaped(m.f, t, m.embd, m.ff)
		}
		role[name("ffn_down.weight")] = func(t *gguf.Tensor) ([]gguf.Source, error) {
			if err := shaped(m.f, t, m.ff, m.embd); err != nil {
				return nil, err
			}
			factor := float32(1)
			if t.Type == quant.NVFP4 { // its factor goes into the new type
				if s := m.f.Tensor(name("ffn_down.scale")); s != nil {
					if err := shaped(m.f, s, 1); err != nil {
						return nil, err
					}
					x := []float32{0}
					quant.Decode(s.Type, x, s.Data)
					factor = x[0]
				}
			}
			return predictor(transposed(name("ffn_down_t.weight"), t, order, factor)), nil
		}
		if t := m.f.Tensor(name("ffn_down.weight")); t != nil && t.Type == quant.NVFP4 {
			role[name("ffn_down.scale")], role[name("ffn_down.input_scale")] = none, none
		}
		role[name("ffn_down.bias")] = func(t *gguf.Tensor) ([]gguf.Source, error) {
			c := copied(t)
			c.Name = name("ffn_down_t.bias")
			return one(c), shaped(m.f, t, m.embd)
		}
		// Predictors of the source, an original file, give way.
		role[name("fc1.weight")], role[name("fc2.weight")] = none, none
		if err := m.complete(l); err != nil {
			return nil, err
		}
	}
	var out []gguf.Source
	for _, t := range m.f.Tensors {
		place := role[t.Name]
		if place == nil {
			out = append(out, copied(t))
			continue
		}
		sources, err := place(t)
		if err != nil {
			return nil, err
		}
		out = append(out, sources...)
	}
	return out, nil
}

// complete returns an error where a layer has no up projection, or not exactly one down projection.
func (m *model) complete(layer int) error {
	up, down := fmt.Sprintf("blk.%d.ffn_up.weight", layer), fmt.Sprintf("blk.%d.ffn_down.weight", layer)
	downT := fmt.Sprintf("blk.%d.ffn_down_t.weight", layer)
	has := func(name string) bool { return m.f.Tensor(name) != nil }
	switch {
	case !has(up):
		return fmt.Errorf("%s: tensor %q is missing; only dense feed-forward layers can be prepared", m.f.Path, up)
	case !has(down) && !has(downT):
		return fmt.Errorf("%s: tensor %q is missing", m.f.Path, down)
	case has(down) && has(downT):
		return fmt.Errorf("%s: tensors %q and %q exclude each other", m.f.Path, down, downT)
	}
	return nil
}

func one(s gguf.Source) []gguf.Source { return []gguf.Source{s} }

// shaped returns an error where t has another shape.
func shaped(f *gguf.File, t *gguf.Tensor, shape ...int) error {
	if !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("%s: tensor %q has shape %v, not %v", f.Path, t.Name, t.Shape, shape)
	}
	if len(shape) == 1 && t.Type.BlockElems() != 1 {
		return fmt.Errorf("%s: tensor %q: a vector of type %s is not supported", f.Path, t.Name, t.Type)
	}
	return nil
}

// identity returns the order that does not move neurons.
func identity(n int) []int32 {
	o := make([]int32, n)
	for i := range o {
		o[i] = int32(i)
	}
	return o
}

// copied is t as it is.
func copied(t *gguf.Tensor) gguf.Source {
	return gguf.Source{Name: t.Name, Type: t.Type, Shape: t.Shape, Write: func(w io.Writer) error {
		_, err := w.Write(t.Data)
		return err
	}}
}

// ordered is t with its rows, or a vector's elements, in the given order, their bytes unchanged.
func ordered(t *gguf.Tensor, order []int32) gguf.Source {
	return gguf.Source{Name: t.Name, Type: t.Type, Shape: t.Shape, Write: func(w io.Writer) error {
		size := len(t.Data) / len(order)
		for _, from := range order {
			if _, err := w.Write(t.Data[int(from)*size:][:size]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// band is the number of rows of a matrix that are transposed together: a block of the quantised types, and whole cache
// lines of the others.
const band = quant.QK

// transposed is t [n_ff, n_embd] times factor with columns as rows, row i being column order[i]. [n_embd, n_ff]
func transposed(name string, t *gguf.Tensor, order []int32, factor float32) gguf.Source {
	ff, embd := t.Shape[0], t.Shape[1]
	size := t.Type.RowBytes(ff)
	return Transposed(name, transposedType(t.Type, embd), ff, embd, order, func(first int, rows []float32) error {
		quant.Decode(t.Type, rows, t.Data[first*size:][:len(rows)/ff*size])
		for i := range rows {
			rows[i] *= factor
		}
		return nil
	})
}

// Transposed returns a matrix [embd, ff] with column order[i] of a matrix [ff, embd] as row i; nil order: column i.
// read fills whole rows of that matrix, from row first on; it is called from several goroutines. Memory holds the
// result while it is written.
func Transposed(name string, typ quant.Type, ff, embd int, order []int32, read func(first int, rows []float32) error) gguf.Source {
	if order == nil {
		order = identity(ff)
	}
	return gguf.Source{Name: name, Type: typ, Shape: []int{embd, ff}, Write: func(w io.Writer) error {
		size := typ.RowBytes(embd)
		out := make([]byte, ff*size)
		err := share((embd+band-1)/band, func() func(int) error {
			rows, column := make([]float32, band*ff), make([]float32, band)
			return func(b int) error {
				first := b * band
				n := min(band, embd-first)
				if err := read(first, rows[:n*ff]); err != nil {
					return err
				}
				if err := fits(rows[:n*ff], typ); err != nil {
					return err
				}
				from, to := typ.RowBytes(first), typ.RowBytes(first+n)
				for i, c := range order {
					for j := range n {
						column[j] = rows[j*ff+int(c)]
					}
					quant.Encode(typ, out[i*size+from:i*size+to], column[:n])
				}
				return nil
			}
		})
		if err != nil {
			return err
		}
		_, err = w.Write(out)
		return err
	}}
}

// share distributes the numbers in [0, n) over all processors, each with its own worker, and reports the error of the
// lowest number.
func share(n int, worker func() func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			work := worker()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = fault.Guard(func() error { return work(i) })
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// transposedType returns the type of rows of n elements that were columns of type t: blocks of 32 divide any usual
// width, larger ones need not.
func transposedType(t quant.Type, n int) quant.Type {
	switch {
	case t.BlockElems() == 1:
		return t
	case n%quant.QK != 0:
		return quant.F16
	case t == quant.Q4_0:
		return t
	}
	return quant.Q8_0
}

// tensors returns the predictor's, none where the layer has none.
func (q *Predictor) tensors(layer, embd int, t quant.Type) []gguf.Source {
	if q.Rank == 0 {
		return nil
	}
	return []gguf.Source{
		encoded(fmt.Sprintf("blk.%d.fc1.weight", layer), t, embd, q.FC1),
		encoded(fmt.Sprintf("blk.%d.fc2.weight", layer), t, q.Rank, q.FC2),
	}
}

// encoded returns a matrix of cols columns with the given elements.
func encoded(name string, t quant.Type, cols int, x []float32) gguf.Source {
	return gguf.Source{Name: name, Type: t, Shape: []int{cols, len(x) / cols}, Write: func(w io.Writer) error {
		b := make([]byte, t.RowBytes(len(x)))
		quant.Encode(t, b, x)
		_, err := w.Write(b)
		return err
	}}
}
