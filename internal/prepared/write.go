package prepared

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Predictor says which neurons of a layer a token needs: logits = fc2·relu(fc1·x).
type Predictor struct {
	Rank int
	FC1  []float32 // [rank, n_embd]
	FC2  []float32 // [n_ff − always_on, rank], rows in the new order
}

// Plan holds what turns a model into a prepared file.
type Plan struct {
	Info          Info         // what the keys will say; its layers decide which predictors there are
	Order         neuron.Order // [layer][n_ff]; nil: neurons are already stored hottest first
	Predictors    []Predictor  // [layer]; the zero value where the layer runs exact
	PredictorType quant.Type   // type of fc1 and fc2: one of quant.BlockTypes
}

// Write writes src as a prepared file to path, which appears only when it is complete. Neurons are put in p's order:
// gate and up rows as they are stored, whatever their type, and the down projection transposed, exactly in float types;
// in Q4_0 and Q8_0 it is quantised again, and other types become Q8_0. All other tensors and keys are copied. The same
// src and p give the same bytes. Memory holds one tensor in addition to src's mapping. Errors are one line and name
// layer, tensor or key. progress is called with bytes of weights; it may be nil.
func Write(ctx context.Context, path string, src *gguf.File, p Plan, progress func(done, total int64)) error {
	m, err := readModel(src)
	if err != nil {
		return err
	}
	if err := p.check(m); err != nil {
		return fmt.Errorf("preparing %s: %w", src.Path, err)
	}
	if p.Info.Layers, err = m.ordered(p); err != nil {
		return err
	}
	info, err := p.Info.Keys()
	if err != nil {
		return fmt.Errorf("preparing %s: %w", src.Path, err)
	}
	tensors, err := m.prepare(p)
	if err != nil {
		return err
	}
	return gguf.Create(ctx, path, "GGUF", append(m.keys(), info...), tensors, progress)
}

// SetInfo replaces the keys of the prepared file at path with measurements made after it was written. The layers'
// modes, ranks and always-on neurons must stay those of its tensors. The new file replaces the old one when it is
// complete.
func SetInfo(ctx context.Context, path string, info Info, progress func(done, total int64)) error {
	return replace(path, func(path, next string) error { return withInfo(ctx, next, path, info, progress) })
}

// replace makes write write the file at path again, under the name next in the same folder, and then gives it path's
// name and mode. Links stay. What write opened of path must be closed when it returns, as some systems do not replace a
// mapped file.
func replace(path string, write func(path, next string) error) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	next := f.Name()
	err = errors.Join(f.Chmod(info.Mode().Perm()), f.Close())
	if err == nil {
		err = write(path, next)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// withInfo writes the prepared file at path to next, with other keys.
func withInfo(ctx context.Context, next, path string, info Info, progress func(done, total int64)) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	old, ok, err := Read(f)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s is not a prepared file: it has no key %q", path, keyVersion)
	}
	if len(info.Layers) != len(old.Layers) {
		return fmt.Errorf("%s: keys of %d layers for a file of %d", path, len(info.Layers), len(old.Layers))
	}
	for l, y := range info.Layers {
		if o := old.Layers[l]; y.Mode != o.Mode || y.Rank != o.Rank || y.AlwaysOn != o.AlwaysOn || len(y.Frequency) != len(o.Frequency) {
			return fmt.Errorf("%s: layer %d: the new keys do not describe the file's predictor", path, l)
		}
	}
	info.Layers = slices.Clone(info.Layers)
	for l := range info.Layers {
		info.Layers[l].Order = old.Layers[l].Order
	}
	keys, err := info.Keys()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m := &model{f: f}
	var tensors []gguf.Source
	for _, t := range f.Tensors {
		tensors = append(tensors, copied(t))
	}
	return gguf.Create(ctx, next, f.Magic, append(m.keys(), keys...), tensors, progress)
}

// model is a file with neurons to be reordered.
type model struct {
	f                *gguf.File
	arch             string
	layers, embd, ff int
}

// ordered returns the layers that p describes with the order of their neurons, as numbers of the model that was never
// prepared, where the file says what these are.
func (m *model) ordered(p Plan) ([]Layer, error) {
	old, again, err := Read(m.f)
	if err != nil {
		return nil, err
	}
	layers := slices.Clone(p.Info.Layers)
	for l := range layers {
		order := identity(m.ff)
		if p.Order != nil {
			order = slices.Clone(p.Order[l])
		}
		if again && old.Layers[l].Order == nil {
			order = nil
		}
		for i, n := range order {
			if again {
				order[i] = old.Layers[l].Order[n]
			}
		}
		layers[l].Order = order
	}
	return layers, nil
}

func readModel(f *gguf.File) (*model, error) {
	r := &reader{f: f}
	m := &model{f: f, arch: value(r, f.String, "general.architecture")}
	m.layers = r.count(m.arch+".block_count", maxLayers)
	m.embd = r.count(m.arch+".embedding_length", maxWidth)
	m.ff = r.count(m.arch+".feed_forward_length", maxWidth)
	return m, r.err
}

// keys returns the file's own keys, without those of a split file and those that a prepared file replaces. It adds keys
// that an original file lacks.
func (m *model) keys() []gguf.KV {
	const pre = "tokenizer.ggml.pre"
	var out []gguf.KV
	for _, kv := range m.f.Keys {
		if !strings.HasPrefix(kv.Key, "powerinfer.") && !strings.HasPrefix(kv.Key, "split.") {
			out = append(out, kv)
		}
	}
	if _, ok := m.f.Lookup(pre); !ok && m.f.Magic == "PWRI" {
		out = append(out, gguf.KV{Key: pre, Value: "gpt-2"})
	}
	return out
}

// check holds p against the model: a plan of another model, or one that contradicts itself, is an error.
func (p *Plan) check(m *model) error {
	if len(p.Info.Layers) != m.layers {
		return fmt.Errorf("keys of %d layers for a model of %d", len(p.Info.Layers), m.layers)
	}
	if err := p.Info.check(m.ff); err != nil {
		return err
	}
	if p.Order != nil {
		widths := make([]int, m.layers)
		for l := range widths {
			widths[l] = m.ff
		}
		if err := p.Order.Check(widths); err != nil {
			return err
		}
	}
	if len(p.Predictors) != m.layers {
		return fmt.Errorf("%d predictors for %d layers", len(p.Predictors), m.layers)
	}
	if types := quant.BlockTypes(); !slices.Contains(types, p.PredictorType) {
		return fmt.Errorf("predictors of type %s are not written; these are: %s", p.PredictorType, quant.Names(types))
	}
	if n := p.PredictorType.BlockElems(); m.embd%n != 0 {
		return fmt.Errorf("predictors of %s need a width that is a multiple of %d, not %d", p.PredictorType, n, m.embd)
	}
	for l := range p.Predictors {
		if err := p.Predictors[l].check(&p.Info.Layers[l], m, p.PredictorType); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
	}
	return nil
}

func (q *Predictor) check(y *Layer, m *model, t quant.Type) error {
	if y.Mode == Exact {
		if q.Rank != 0 || q.FC1 != nil || q.FC2 != nil {
			return errors.New("a predictor for a layer that runs exact")
		}
		return nil
	}
	if q.Rank != y.Rank {
		return fmt.Errorf("a predictor of rank %d where the keys say %d", q.Rank, y.Rank)
	}
	if n := m.ff - y.AlwaysOn; len(q.FC1) != q.Rank*m.embd || len(q.FC2) != n*q.Rank {
		return fmt.Errorf("a predictor of %d and %d weights; rank %d, width %d and %d predicted neurons make it %d and %d",
			len(q.FC1), len(q.FC2), q.Rank, m.embd, n, q.Rank*m.embd, n*q.Rank)
	}
	for _, w := range [][]float32{q.FC1, q.FC2} {
		if err := fits(w, t); err != nil {
			return fmt.Errorf("predictor: %w", err)
		}
	}
	return nil
}

// fits returns an error where t cannot hold one of the values.
func fits(x []float32, t quant.Type) error {
	limit := limit(t)
	for _, v := range x {
		if !(v >= -limit && v <= limit) {
			return fmt.Errorf("a weight of %g cannot be stored as %s", v, t)
		}
	}
	return nil
}

// limit returns the largest magnitude that t is sure to hold.
func limit(t quant.Type) float32 {
	const half = 65504 // F16, and the scales of blocks
	if reach := t.Reach(); reach > 0 {
		return float32(reach * half)
	}
	if t == quant.BF16 {
		return 0x1.fep127
	}
	return math.MaxFloat32
}
