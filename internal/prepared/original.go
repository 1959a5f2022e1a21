package prepared

import (
	"context"
	"fmt"
	"io"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// WriteOriginal writes the prepared file src to path so that the original PowerInfer loads it. Neurons keep their order
// and every token its set: always-on neurons get rows of zeros in fc2 (logit 0 is at least the threshold 0), and layers
// in exact get a predictor of zeros. Predictors that read the normed residual are folded: fc1's columns times the
// weight of the RMSNorm differ from fc1 of the normed residual by a positive factor, which moves no logit over zero. If
// the original cannot run or express something, the error says what. progress may be nil.
func WriteOriginal(ctx context.Context, path string, src *gguf.File, progress func(done, total int64)) error {
	info, ok, err := Read(src)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s is not a prepared file: it has no key %q", src.Path, keyVersion)
	}
	m, err := readModel(src)
	if err != nil {
		return err
	}
	if err := info.original(m.arch); err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	var tensors []gguf.Source
	for _, t := range src.Tensors {
		tensors = append(tensors, retyped(t, originalType(t.Name, t.Type, len(t.Shape))))
	}
	index := map[string]int{}
	for i := range tensors {
		index[tensors[i].Name] = i
	}
	for l := range info.Layers {
		if tensors, err = m.expand(tensors, index, l, &info); err != nil {
			return err
		}
		info.Layers[l].AlwaysOn = 0
	}
	info.Input = Residual
	keys, err := info.Keys()
	if err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	return CreateOriginal(ctx, path, append(m.keys(), keys...), tensors, progress)
}

// CheckOriginal says whether the dense model src, once it is prepared, can be written in the original's form, so that a
// user hears before the work what WriteOriginal would refuse after it. Of info only Activation, Input and Threshold are
// read.
func CheckOriginal(src *gguf.File, info *Info) error {
	m, err := readModel(src)
	if err != nil {
		return err
	}
	if err := info.original(m.arch); err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	p := Plan{Info: Info{Layers: make([]Layer, m.layers)}, Predictors: make([]Predictor, m.layers)}
	prepared, err := m.prepare(p)
	if err != nil {
		return err
	}
	var tensors []gguf.Source
	for _, t := range prepared {
		tensors = append(tensors, gguf.Source{Name: t.Name, Shape: t.Shape, Type: originalType(t.Name, t.Type, len(t.Shape))})
	}
	for l := range m.layers {
		tensors = append(tensors,
			zeros(fmt.Sprintf("blk.%d.fc1.weight", l), quant.F16, m.embd, RankStep),
			zeros(fmt.Sprintf("blk.%d.fc2.weight", l), quant.F16, RankStep, m.ff))
	}
	if _, err := newOriginal(m.keys(), tensors); err != nil {
		return fmt.Errorf("%s in the original PowerInfer's form: %w", src.Path, err)
	}
	return nil
}

// OriginalActivation returns the activation that the original PowerInfer applies in models of an architecture, or why
// it does not run them.
func OriginalActivation(name string) (string, error) {
	form, ok := originalForms()[name]
	if !ok {
		return "", fmt.Errorf("architecture %q: the original PowerInfer runs %s only", name, Originals())
	}
	return form.activation, nil
}

// original reports what of the keys the original cannot do.
func (i *Info) original(name string) error {
	act, err := OriginalActivation(name)
	switch {
	case err != nil:
		return err
	case i.Activation != act:
		return bad(keyActivation, "the original PowerInfer runs %s with %s, not %s", name, act, i.Activation)
	case i.Threshold != 0:
		return bad(keyThreshold, "the original's form needs predictors for a threshold of 0, not %g", i.Threshold)
	case i.Input == Normed && originalForms()[name].layerNorm:
		return bad(keyInput, "the original's predictors read the residual, and those of a LayerNorm's output cannot be rewritten; prepare %s with predictors of the residual", name)
	}
	return nil
}

// originalType returns the type of a tensor of type t in the original's form: it runs feed-forward weights in F16 and
// Q4_0 only, and knows no BF16.
func originalType(name string, t quant.Type, dims int) quant.Type {
	switch {
	case dims == 1:
		return quant.F32
	case t == quant.BF16, isNeurons(name) && t != quant.Q4_0:
		return quant.F16
	}
	return t
}

// In layers of up to fewNeurons the original skips rows in hundreds where some logits are below -7, whatever the
// threshold. Such layers' logits are made so small that none is; F32 keeps all their digits, and their signs stay.
const (
	fewNeurons  = 1000
	smallLogits = 0x1p-32
)

// expand gives layer l the predictor that the original expects. index finds tensors by name.
func (m *model) expand(tensors []gguf.Source, index map[string]int, l int, info *Info) ([]gguf.Source, error) {
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", l, s) }
	y := &info.Layers[l]
	if y.Mode == Exact {
		return append(tensors,
			zeros(name("fc1.weight"), quant.F16, m.embd, RankStep),
			zeros(name("fc2.weight"), quant.F16, RankStep, m.ff)), nil
	}
	fc1, fc2 := m.f.Tensor(name("fc1.weight")), m.f.Tensor(name("fc2.weight"))
	if fc1 == nil || fc2 == nil {
		return nil, fmt.Errorf("%s: layer %d: mode %q, but fc1.weight or fc2.weight is missing", m.f.Path, l, Predict)
	}
	if err := shaped(m.f, fc1, m.embd, y.Rank); err != nil {
		return nil, err
	}
	if err := shaped(m.f, fc2, y.Rank, m.ff-y.AlwaysOn); err != nil {
		return nil, err
	}
	if info.Input == Normed {
		norm := m.f.Tensor(name("ffn_norm.weight"))
		if norm == nil {
			return nil, fmt.Errorf("%s: tensor %q is missing", m.f.Path, name("ffn_norm.weight"))
		}
		if err := shaped(m.f, norm, m.embd); err != nil {
			return nil, err
		}
		tensors[index[fc1.Name]] = folded(fc1, norm)
	}
	full := tensors[index[fc2.Name]]
	if m.ff <= fewNeurons {
		full = mapped(fc2, quant.F32, func(row []float32) {
			for i := range row {
				row[i] *= smallLogits
			}
		})
	}
	first, rest := zeros(full.Name, full.Type, y.Rank, y.AlwaysOn), full.Write
	full.Shape = []int{y.Rank, m.ff}
	full.Write = func(w io.Writer) error {
		if err := first.Write(w); err != nil {
			return err
		}
		return rest(w)
	}
	tensors[index[fc2.Name]] = full
	return tensors, nil
}

// zeros returns a matrix of zeros [rows, cols].
func zeros(name string, t quant.Type, cols, rows int) gguf.Source {
	return gguf.Source{Name: name, Type: t, Shape: []int{cols, rows}, Write: func(w io.Writer) error {
		row := make([]byte, t.RowBytes(cols))
		quant.Encode(t, row, make([]float32, cols))
		for range rows {
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		return nil
	}}
}

// retyped is t as typ; unchanged where that is its type.
func retyped(t *gguf.Tensor, typ quant.Type) gguf.Source {
	if t.Type == typ {
		return copied(t)
	}
	return mapped(t, typ, func([]float32) {})
}

// folded is fc1 with its columns times the norm's weights. A quantised fc1 becomes F16: its blocks would lose what
// the norm's weights differ in.
func folded(fc1, norm *gguf.Tensor) gguf.Source {
	w := make([]float32, norm.Elems())
	quant.Decode(norm.Type, w, norm.Data)
	typ := fc1.Type
	if typ != quant.F32 {
		typ = quant.F16
	}
	return mapped(fc1, typ, func(row []float32) {
		for i := range row {
			row[i] *= w[i]
		}
	})
}

// batch is about how many elements of a tensor are decoded at a time by each processor.
const batch = 1 << 18

// mapped is t as typ, each of its rows changed by f. Memory holds the result while it is written.
func mapped(t *gguf.Tensor, typ quant.Type, f func(row []float32)) gguf.Source {
	cols, rows := t.Shape[0], t.Rows()
	return gguf.Source{Name: t.Name, Type: typ, Shape: t.Shape, Write: func(w io.Writer) error {
		in, size := t.Type.RowBytes(cols), typ.RowBytes(cols)
		out := make([]byte, rows*size)
		each := max(1, batch/cols)
		err := share((rows+each-1)/each, func() func(int) error {
			x := make([]float32, each*cols)
			return func(i int) error {
				first := i * each
				last := min(rows, first+each)
				x := x[:(last-first)*cols]
				quant.Decode(t.Type, x, t.Data[first*in:last*in])
				for r := range last - first {
					f(x[r*cols:][:cols])
				}
				if err := fits(x, typ); err != nil {
					return err
				}
				quant.Encode(typ, out[first*size:last*size], x)
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
