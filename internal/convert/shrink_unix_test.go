//go:build unix

package convert

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestQuantizeShrinking: if the file is cut while several workers quantise or copy it, that is an error, and no output
// remains.
func TestQuantizeShrinking(t *testing.T) {
	const rows, cols = 2048, 256
	for _, kind := range []string{"q4_0", "f32", "copy"} {
		folder := t.TempDir()
		in, out := filepath.Join(folder, "in.gguf"), filepath.Join(folder, "out.gguf")
		var tensors []gguf.Source
		for _, name := range []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"} {
			tensors = append(tensors, gguf.Source{Name: name, Type: quant.F16, Shape: []int{cols, rows}, Write: func(w io.Writer) error {
				_, err := w.Write(make([]byte, quant.F16.RowBytes(cols)*rows))
				return err
			}})
		}
		keys := []gguf.KV{{Key: "general.architecture", Value: "llama"}, {Key: "llama.block_count", Value: uint32(1)}}
		if err := gguf.Create(t.Context(), in, "GGUF", keys, tensors, nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		q := Quantization{Copy: kind == "copy", Threads: 2}
		if !q.Copy {
			if q.Output, err = ParseOutput(kind); err != nil {
				t.Fatal(err)
			}
		}
		q.Progress = func(int64, int64) {
			if err := os.Truncate(in, 512); err != nil {
				t.Error(err)
			}
		}
		if err := Quantize(t.Context(), f, out, q); !errors.Is(err, fault.Err) {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: an output is left: %v", kind, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
