package blueprint

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Options choose how a file is planned for.
type Options struct {
	Context    int // tokens; 0 is the model's own
	UBatch     int // tokens of the largest step; 0 is the engine's own
	Outputs    int // rows of logits of the largest step; 0 is 1
	Sparse     model.SparseMode
	Activation string        // overrides the file's
	Law        Law           // of frequencies that the file does not have
	Stats      *neuron.Stats // counted for this model, or nil
}

// Of reads f's header, and its frequencies if it is prepared.
func Of(f *gguf.File, o Options) (Blueprint, error) {
	c, err := model.ReadConfig(f, o.Activation)
	if err != nil {
		return Blueprint{}, err
	}
	if c.Sparse, err = c.Resolve(o.Sparse); err != nil {
		return Blueprint{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	if err := o.Law.Check(); err != nil {
		return Blueprint{}, err
	}
	b := Blueprint{Name: c.Name, Mode: c.Sparse, Context: o.Context, Layers: c.Layers, FF: c.FF, RowElems: c.Embd}
	if b.Name == "" {
		b.Name = filepath.Base(f.Path)
	}
	if b.Context == 0 {
		b.Context = c.Context
	}
	r := reader{f: f, c: &c, b: &b}
	if err := r.frequencies(o); err != nil {
		return Blueprint{}, err
	}
	for l := range c.Layers {
		if err := r.layer(l, o); err != nil {
			return Blueprint{}, err
		}
	}
	r.tables()
	b.step = r.step(o)
	b.Buffers = b.step.bytes(b.step.most())
	return b, b.Model.Check()
}

// step is the largest one.
func (r *reader) step(o Options) *step {
	c := r.c
	s := &step{
		tokens: usualTokens, outputs: usualOutputs, layers: c.Layers, embd: c.Embd, ff: c.FF, vocab: c.Vocab, heads: c.Heads, kv: c.KVHeads, headDim: c.HeadDim,
		context: r.b.Context, mode: c.Sparse, transposed: c.Transposed, gated: r.f.Tensor("blk.0.ffn_gate.weight") != nil,
	}
	if o.UBatch > 0 {
		s.tokens = o.UBatch
	}
	s.tokens = min(s.tokens, s.context)
	if o.Outputs > 0 {
		s.outputs = o.Outputs
	}
	for _, t := range r.f.Tensors {
		if t.Name == "position_embd.weight" && r.f.Tensor("output.weight") == nil { // a tied head, which is the embedding that positions are added to
			s.beside = int64(len(t.Data))
		}
		s.quantised = s.quantised || t.Type.BlockElems() > 1
		s.halved = s.halved || t.Type != quant.F32 && t.Type != quant.BF16
		if c.Sparse == model.Predict && strings.HasSuffix(t.Name, ".fc1.weight") {
			s.rank = max(s.rank, t.Rows())
		}
	}
	return s
}

// reader fills in a blueprint from a file.
type reader struct {
	f         *gguf.File
	c         *model.Config
	b         *Blueprint
	frequency [][]float32 // [layers][n_ff] hottest first
}

// frequencies are the file's, or those that were counted, or the law's.
func (r *reader) frequencies(o Options) error {
	switch {
	case r.c.Prepared != nil:
		for _, y := range r.c.Prepared.Layers {
			r.frequency = append(r.frequency, y.Frequency)
		}
	case o.Stats != nil:
		if len(o.Stats.Layers) != r.c.Layers {
			return fmt.Errorf("statistics of %d layers do not belong to %s of %d", len(o.Stats.Layers), r.f.Path, r.c.Layers)
		}
		sorted, err := o.Stats.Permute(o.Stats.Order())
		if err != nil {
			return err
		}
		for l := range sorted.Layers {
			r.frequency = append(r.frequency, sorted.Frequencies(l))
		}
	default:
		law := lawFrequencies(r.c.FF, o.Law)
		for range r.c.Layers {
			r.frequency = append(r.frequency, law)
		}
		if r.c.Sparse != model.Off {
			r.assume("The file holds no frequencies: %s is assumed of every layer.", o.Law)
		}
	}
	r.b.Active = 1
	if r.c.Sparse != model.Off {
		r.b.Active = active(r.frequency)
	}
	return nil
}

func (r *reader) assume(format string, args ...any) {
	r.b.Assumed = append(r.b.Assumed, fmt.Sprintf(format, args...))
}

// row is the bytes of one row of rows in the tensor of that name in layer l; it is 0 where there is none.
func (r *reader) row(l int, name string, rows int) int64 {
	t := r.f.Tensor(fmt.Sprintf("blk.%d.%s", l, name))
	if t == nil {
		return 0
	}
	return int64(len(t.Data)) / int64(rows)
}

func (r *reader) layer(l int, o Options) error {
	ff := r.c.FF
	if len(r.frequency[l]) != ff {
		return fmt.Errorf("%s: layer %d: %d frequencies for %d neurons", r.f.Path, l, len(r.frequency[l]), ff)
	}
	n := neurons{
		gate: r.row(l, "ffn_gate.weight", ff), up: r.row(l, "ffn_up.weight", ff),
		down: r.row(l, "ffn_down.weight", ff) + r.row(l, "ffn_down_t.weight", ff), frequency: r.frequency[l], precision: usualPrecision,
	}
	if n.up == 0 || n.down == 0 {
		return fmt.Errorf("%s: layer %d has no feed-forward layer that can be planned: ffn_up or ffn_down is missing", r.f.Path, l)
	}
	mode := r.c.Sparse
	if p := r.c.Prepared; p != nil && mode == model.Predict {
		if p.Layers[l].Mode == prepared.Exact {
			mode = model.Exact
		}
		n.alwaysOn = p.Layers[l].AlwaysOn
		if p.HeldOut != (prepared.Text{}) && p.Layers[l].Precision > 0 {
			n.precision = float64(p.Layers[l].Precision)
		} else if l == 0 {
			r.assume("The precision of the predictors was not measured: %g is assumed.", usualPrecision)
		}
	} else if mode == model.Predict && l == 0 {
		r.assume("Original files do not tell the precision of their predictors: %g is assumed.", usualPrecision)
	}
	y := placement.Layer{Units: n.units(mode)}
	y.KV = kv(r.c.KVHeads, r.c.HeadDim, r.b.Context)
	prefix := fmt.Sprintf("blk.%d.", l)
	for _, t := range r.f.Tensors {
		name, ok := strings.CutPrefix(t.Name, prefix)
		if !ok {
			continue
		}
		switch name {
		case "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", "ffn_down_t.weight":
			if l == 0 && name == "ffn_up.weight" {
				r.b.Type, r.b.RowBytes = t.Type.String(), len(t.Data)/ff
			}
		case "fc1.weight", "fc2.weight":
			if mode == model.Predict {
				y.Predictor += int64(len(t.Data))
			}
		default:
			y.Attention += int64(len(t.Data))
		}
	}
	r.b.Model.Layers = append(r.b.Model.Layers, y)
	return nil
}

// tables are the head, and what stays in RAM.
func (r *reader) tables() {
	head := "token_embd.weight"
	if r.f.Tensor("output.weight") != nil {
		head = "output.weight"
	}
	for _, t := range r.f.Tensors {
		switch {
		case strings.HasPrefix(t.Name, "blk."):
		case t.Name == head || strings.HasPrefix(t.Name, "output"):
			r.b.Model.Head += int64(len(t.Data))
		default:
			r.b.Rest += int64(len(t.Data))
		}
	}
}
