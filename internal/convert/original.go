package convert

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Original joins the Hugging Face model in folder dir and the published predictors in folder predictors (model_N.pt,
// config.json) to a file of the original PowerInfer, which this engine and the original run. Output is F16 or Q4_0. The
// same folders and options give the same bytes. Errors name the file and the key, tensor or offset.
func Original(ctx context.Context, dir, predictors, outfile string, o Options) error {
	if !o.Output.is("F16", "Q4_0") {
		return fmt.Errorf("the original PowerInfer runs f16 and q4_0 only, not %s", strings.ToLower(o.Output.name))
	}
	threshold, ok, err := predictorThreshold(predictors)
	if err != nil {
		return err
	}
	m, err := openModel(dir, predictors, &o)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.checkActivation(dir, o.Notes); err != nil {
		return err
	}
	if ok {
		m.keys = append(m.keys, gguf.KV{Key: "powerinfer.sparse_threshold", Value: threshold})
	}
	var downs []int // in m.tensors
	for i, t := range m.tensors {
		t.name = strings.Replace(t.name, ".ffn_down.", ".ffn_down_t.", 1)
		if strings.HasSuffix(t.name, ".ffn_down_t.weight") {
			t.shape = []int{t.shape[1], t.shape[0]}
			downs = append(downs, i)
		}
	}
	tensors := sources(m.tensors, m.keys, o)
	for _, i := range downs {
		tensors[i] = m.tensors[i].transposed(tensors[i].Type)
	}
	return prepared.CreateOriginal(ctx, outfile, m.keys, tensors, o.Progress)
}

// transposed is t in type typ, with the columns of the checkpoint's matrix as rows.
func (t *tensor) transposed(typ quant.Type) gguf.Source {
	embd, ff := t.shape[0], t.shape[1]
	return prepared.Transposed(t.name, typ, ff, embd, nil, func(first int, rows []float32) error {
		l := lane{floats: rows}
		if err := l.read(t, t.changes, ff, first, first+len(rows)/ff); err != nil {
			return err
		}
		return t.check(rows, typ)
	})
}

// checkActivation refuses nonlinearities that the original does not apply.
func (m *model) checkActivation(dir string, notes func(string)) error {
	i := slices.IndexFunc(m.keys, func(kv gguf.KV) bool { return kv.Key == "powerinfer.activation" })
	if i < 0 {
		return nil
	}
	act := m.keys[i].Value
	want, err := prepared.OriginalActivation(m.arch)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", dir, err)
	case act == "fatrelu" && want == "relu":
		notes("the original PowerInfer applies plain ReLU where this engine applies the model's FATReLU")
	case act != want:
		return fmt.Errorf("%s: the original PowerInfer runs %s with %s, and the model's activation is %s", dir, m.arch, want, act)
	}
	return nil
}
