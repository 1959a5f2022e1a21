// Package demotest gives tests the Hugging Face folder from which the embedded model was converted.
package demotest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// The embedded model's shape: demo/README.md.
const (
	layers = 6
	head   = 32 // elements of a head
)

// HuggingFace returns a folder named hf with the embedded model's checkpoint in F16. Its weights are the embedded
// file's, in that file's order of neurons; the other files are those of the trained model's folder.
func HuggingFace(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hf")
	if err := os.CopyFS(dir, os.DirFS(testenv.Shared(t, "demo-model"))); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	w := &safetensors{header: map[string]any{"__metadata__": map[string]string{"format": "pt"}}}
	add := func(name, stored string, arrange func(data []byte, rows, columns int) ([]byte, []int)) {
		x := f.Tensor(stored)
		if x == nil {
			t.Fatalf("the embedded model has no tensor %s", stored)
		}
		rows := 1
		if len(x.Shape) > 1 {
			rows = x.Shape[1]
		}
		data, shape := arrange(halves(x), rows, x.Shape[0])
		w.add(name, data, shape)
	}
	add("model.embed_tokens.weight", "token_embd.weight", asItIs)
	add("model.norm.weight", "output_norm.weight", vector)
	for l := range layers {
		for _, x := range []struct {
			name, stored string
			arrange      func([]byte, int, int) ([]byte, []int)
		}{
			{"input_layernorm", "attn_norm", vector},
			{"self_attn.q_proj", "attn_q", halvesApart},
			{"self_attn.k_proj", "attn_k", halvesApart},
			{"self_attn.v_proj", "attn_v", asItIs},
			{"self_attn.o_proj", "attn_output", asItIs},
			{"post_attention_layernorm", "ffn_norm", vector},
			{"mlp.gate_proj", "ffn_gate", asItIs},
			{"mlp.up_proj", "ffn_up", asItIs},
			{"mlp.down_proj", "ffn_down_t", transposed},
		} {
			add(fmt.Sprintf("model.layers.%d.%s.weight", l, x.name), fmt.Sprintf("blk.%d.%s.weight", l, x.stored), x.arrange)
		}
	}
	if err := w.write(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// halves returns a tensor's elements in F16, which hold those of norms, kept in F32, exactly.
func halves(x *gguf.Tensor) []byte {
	if x.Type == quant.F16 {
		return x.Data
	}
	floats := make([]float32, len(x.Data)/x.Type.BlockBytes()*x.Type.BlockElems())
	quant.Decode(x.Type, floats, x.Data)
	var data []byte
	for _, v := range floats {
		data = binary.LittleEndian.AppendUint16(data, quant.F16FromF32(v))
	}
	return data
}

func asItIs(data []byte, rows, columns int) ([]byte, []int) { return data, []int{rows, columns} }

func vector(data []byte, _, columns int) ([]byte, []int) { return data, []int{columns} }

// halvesApart puts the rows of each head that GGUF has in pairs, which are rotated together, where Hugging Face has them:
// the first of all pairs before the second ones.
func halvesApart(data []byte, rows, columns int) ([]byte, []int) {
	out := make([]byte, len(data))
	for r := range rows {
		j := r % head
		from := r - j + j%(head/2)*2 + j/(head/2)
		copy(out[2*columns*r:2*columns*(r+1)], data[2*columns*from:])
	}
	return out, []int{rows, columns}
}

func transposed(data []byte, rows, columns int) ([]byte, []int) {
	out := make([]byte, len(data))
	for r := range rows {
		for c := range columns {
			copy(out[2*(c*rows+r):2*(c*rows+r)+2], data[2*(r*columns+c):])
		}
	}
	return out, []int{columns, rows}
}

// safetensors is a file of that form.
type safetensors struct {
	header map[string]any
	data   []byte
}

func (w *safetensors) add(name string, data []byte, shape []int) {
	begin := len(w.data)
	w.data = append(w.data, data...)
	w.header[name] = map[string]any{"dtype": "F16", "shape": shape, "data_offsets": []int{begin, len(w.data)}}
}

func (w *safetensors) write(path string) error {
	header, err := json.Marshal(w.header)
	if err != nil {
		return err
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return os.WriteFile(path, append(append(out, header...), w.data...), 0o644)
}
