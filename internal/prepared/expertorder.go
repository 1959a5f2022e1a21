package prepared

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// ExpertPlan says how to reorder a model's experts, hottest first.
type ExpertPlan struct {
	Use    *neuron.Experts      // what was counted, in the model's own order
	SHA256 string               // of the texts that were used for counting
	Orders []neuron.ExpertOrder // [layer] of the layers that have experts
}

// WriteExperts writes src to path with its experts, and the neurons inside them, in p's order, and with p's counts as
// keys. Rows move as they are stored, whatever their type. If neurons move, so do the columns of down projections:
// exactly in float types, and quantised again, to the same type, in others. All other tensors and keys are copied.
// Memory holds one expert in addition to src's mapping. Errors are one line and name layer, tensor or key. progress is
// called with bytes of weights; it may be nil.
func WriteExperts(ctx context.Context, path string, src *gguf.File, p ExpertPlan, progress func(done, total int64)) error {
	if len(p.Orders) != len(p.Use.Layers) {
		return fmt.Errorf("preparing %s: orders of %d layers beside counts of %d", src.Path, len(p.Orders), len(p.Use.Layers))
	}
	sorted := &neuron.Experts{Texts: p.Use.Texts, Pairs: p.Use.Pairs}
	move := map[string]func(t *gguf.Tensor) (gguf.Source, error){}
	for l, o := range p.Orders {
		y := &p.Use.Layers[l]
		n := y.Count()
		if n > 0 {
			s, err := newStacks(o, n)
			if err != nil {
				return fmt.Errorf("preparing %s: layer %d: %w", src.Path, l, err)
			}
			s.roles(l, move)
		}
		sorted.Layers = append(sorted.Layers, y.Permute(o))
	}
	counted, err := ExpertKeys(sorted, p.SHA256)
	if err != nil {
		return fmt.Errorf("preparing %s: %w", src.Path, err)
	}
	var tensors []gguf.Source
	for _, t := range src.Tensors {
		s := copied(t)
		if f := move[t.Name]; f != nil {
			if s, err = f(t); err != nil {
				return fmt.Errorf("%s: tensor %q %w", src.Path, t.Name, err)
			}
		} else if of, known := movedWith(t.Name, len(p.Orders)); !known {
			return fmt.Errorf("%s: tensor %q belongs to experts in a way that is not known, so that they cannot be moved in layer %d", src.Path, t.Name, of)
		}
		tensors = append(tensors, s)
	}
	var keys []gguf.KV
	for _, kv := range src.Keys {
		if !strings.HasPrefix(kv.Key, keyExperts) && !strings.HasPrefix(kv.Key, "split.") {
			keys = append(keys, kv)
		}
	}
	return gguf.Create(ctx, path, "GGUF", append(keys, counted...), tensors, progress)
}

// movedWith reports whether a tensor without a known role may stay unchanged: it belongs to no reordered expert. MTP
// layers are never reordered.
func movedWith(name string, layers int) (layer int, known bool) {
	var rest string
	if n, _ := fmt.Sscanf(name, "blk.%d.%s", &layer, &rest); n < 2 || layer >= layers {
		return layer, true
	}
	for _, beginning := range []string{"ffn_gate_inp", "exp_probs_b", "ffn_latent_", "ffn_routed_"} {
		moves := strings.HasPrefix(rest, beginning) || strings.Contains(rest, "_exps.") || strings.Contains(rest, "_chexps.")
		if moves && rest != "ffn_gate_inp.scale" && !strings.Contains(rest, "_shexp.") { // a router input's, or a shared expert's
			return layer, false
		}
	}
	return layer, true
}

// stacks moves the stacked matrices of a layer's n experts.
type stacks struct {
	neuron.ExpertOrder
	n int
}

func newStacks(o neuron.ExpertOrder, n int) (stacks, error) {
	if o.Experts == nil {
		o.Experts = identity(n)
	}
	if err := (neuron.Order{o.Experts}).Check([]int{n}); err != nil {
		return stacks{}, fmt.Errorf("its experts: %w", err)
	}
	if o.Neurons != nil && len(o.Neurons) != n {
		return stacks{}, fmt.Errorf("orders of the neurons of %d of %d experts", len(o.Neurons), n)
	}
	for e, order := range o.Neurons {
		if err := (neuron.Order{order}).Check([]int{len(o.Neurons[0])}); err != nil {
			return stacks{}, fmt.Errorf("expert %d's neurons: %w", e, err)
		}
	}
	return stacks{o, n}, nil
}

// roles says how the tensors of layer l move.
func (s stacks) roles(l int, move map[string]func(t *gguf.Tensor) (gguf.Source, error)) {
	whole := func(t *gguf.Tensor) (gguf.Source, error) { return s.pieces(t, nil) }
	rows := func(t *gguf.Tensor) (gguf.Source, error) { return s.pieces(t, s.inside(1)) }
	both := func(t *gguf.Tensor) (gguf.Source, error) { return s.pieces(t, s.inside(2)) }
	for suffix, f := range map[string]func(t *gguf.Tensor) (gguf.Source, error){
		"ffn_gate_inp.weight": whole, "ffn_gate_inp.bias": whole, "exp_probs_b.weight": whole, "exp_probs_b.bias": whole,
		"ffn_gate_exps.weight": rows, "ffn_gate_exps.bias": rows, "ffn_up_exps.weight": rows, "ffn_up_exps.bias": rows,
		"ffn_gate_up_exps.weight": both, "ffn_gate_up_exps.bias": both,
		"fc1_exps.weight": whole, "fc2_exps.weight": rows,
		"ffn_down_exps.weight": s.columns, "ffn_down_exps.bias": whole,
		"ffn_gate_exps.scale": whole, "ffn_up_exps.scale": whole, "ffn_gate_up_exps.scale": whole, "ffn_down_exps.scale": whole,
		"ffn_gate_exps.input_scale": whole, "ffn_up_exps.input_scale": whole, "ffn_gate_up_exps.input_scale": whole, "ffn_down_exps.input_scale": whole,
	} {
		move[fmt.Sprintf("blk.%d.%s", l, suffix)] = f
	}
}

// inside returns the order of the pieces of an expert with times as many pieces as neurons, which repeat the neurons'
// order; nil: all stay.
func (s stacks) inside(times int) func(e int32) []int32 {
	if s.Neurons == nil {
		return nil
	}
	return func(e int32) []int32 {
		order := s.Neurons[e]
		out := make([]int32, 0, times*len(order))
		for i := range times {
			for _, from := range order {
				out = append(out, int32(i*len(order))+from)
			}
		}
		return out
	}
}

// pieces is t with the bytes of its experts in their order and, unless inside is nil, the pieces of each expert in its
// own.
func (s stacks) pieces(t *gguf.Tensor, inside func(e int32) []int32) (gguf.Source, error) {
	parts := s.n
	if inside != nil {
		parts *= len(inside(0))
	}
	if t.Elems()%parts != 0 || t.Elems()/parts%t.Type.BlockElems() != 0 {
		return gguf.Source{}, fmt.Errorf("has shape %v, which cannot be that of %d experts", t.Shape, s.n)
	}
	return gguf.Source{Name: t.Name, Type: t.Type, Shape: t.Shape, Write: func(w io.Writer) error {
		size := len(t.Data) / s.n
		piece := len(t.Data) / parts
		buf := make([]byte, 0, size)
		for _, e := range s.Experts {
			expert := t.Data[int(e)*size:][:size]
			if inside != nil {
				buf = buf[:0]
				for _, from := range inside(e) {
					buf = append(buf, expert[int(from)*piece:][:piece]...)
				}
				expert = buf
			}
			if _, err := w.Write(expert); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// columns is t with its experts in their order and the columns of each in the order of its neurons.
func (s stacks) columns(t *gguf.Tensor) (gguf.Source, error) {
	if s.Neurons == nil {
		return s.pieces(t, nil)
	}
	ff := t.Shape[0]
	if rows := t.Rows(); rows%s.n != 0 || ff != len(s.Neurons[0]) {
		return gguf.Source{}, fmt.Errorf("has shape %v, which cannot be that of %d experts of %d neurons", t.Shape, s.n, len(s.Neurons[0]))
	}
	if !slices.Contains(quant.OutTypes(), t.Type) {
		return gguf.Source{}, fmt.Errorf("is %s, which is not written, so that its columns cannot be moved", t.Type)
	}
	return gguf.Source{Name: t.Name, Type: t.Type, Shape: t.Shape, Write: func(w io.Writer) error {
		rows, bytes := t.Rows()/s.n, t.Type.RowBytes(ff)
		out := make([]byte, rows*bytes)
		for _, e := range s.Experts {
			from := t.Data[int(e)*len(out):][:len(out)]
			if err := permuteColumns(t.Type, out, from, rows, s.Neurons[e]); err != nil {
				return err
			}
			if _, err := w.Write(out); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// permuteColumns writes the matrix from, which has that many rows, to to with its columns in the given order.
func permuteColumns(typ quant.Type, to, from []byte, rows int, order []int32) error {
	bytes := typ.RowBytes(len(order))
	if size := bytes / len(order); typ.BlockElems() == 1 {
		for r := range rows {
			x, y := from[r*bytes:][:bytes], to[r*bytes:][:bytes]
			for at, c := range order {
				copy(y[at*size:][:size], x[int(c)*size:][:size])
			}
		}
		return nil
	}
	return share(rows, func() func(int) error {
		x, y := make([]float32, len(order)), make([]float32, len(order))
		return func(r int) error {
			quant.Decode(typ, x, from[r*bytes:][:bytes])
			for at, c := range order {
				y[at] = x[c]
			}
			if err := fits(y, typ); err != nil {
				return err
			}
			quant.Encode(typ, to[r*bytes:][:bytes], y)
			return nil
		}
	})
}
