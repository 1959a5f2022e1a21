package convert_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestDraftReference: draft models that are converted from folders give the logits of the published definition, from the
// states, keys and values of the model that they are for, for several tokens in a row.
func TestDraftReference(t *testing.T) {
	for _, name := range []string{"gemma4-small", "gemma4-large"} {
		target, _ := readReference(t, "testdata/reference/"+name+".json")
		file, r := readReference(t, "testdata/reference/drafts/"+name+".json")
		for dev, open := range map[string]func() (compute.Device, error){
			"ref": func() (compute.Device, error) { return ref.New(), nil },
			"cpu": func() (compute.Device, error) { return cpu.New(cpu.Options{Threads: 2}) },
		} {
			t.Run(name+" "+dev, func(t *testing.T) {
				dev, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				m, err := model.Load(t.Context(), target, dev, model.Options{Further: true, Head: file, Batch: len(r.Tokens), Outputs: 1, Cache: compute.CacheSpec{Pages: 1}})
				if err != nil {
					t.Fatal(err)
				}
				last := len(r.Tokens) - 1
				p := compute.Params{Decode: last, Tokens: r.Tokens[:last], Seq: make([]int32, last), Pages: [][]int32{{0}}, Out: []int32{int32(last - 1)}, Before: [][]float32{nil}}
				for i := range last {
					p.Pos = append(p.Pos, int32(i))
				}
				forward := m.ForwardBoth
				if m.Drafting().Last {
					forward = m.ForwardLast
				}
				if err := forward(&p); err != nil {
					t.Fatal(err)
				}
				token, at := r.Tokens[last], last-1
				for i, want := range r.Logits {
					state, err := m.State(at)
					if err != nil {
						t.Fatal(err)
					}
					before := append([]float32(nil), state...)
					p := compute.Params{Draft: true, Decode: 1, Tokens: []int32{token}, Pos: []int32{int32(last)}, Seq: []int32{0}, Pages: [][]int32{{0}}, Out: []int32{0}, Before: [][]float32{before}}
					if err := m.ForwardFurther(&p); err != nil {
						t.Fatal(err)
					}
					got, err := m.Logits(0)
					if err != nil {
						t.Fatal(err)
					}
					near(t, fmt.Sprintf("draft %d", i), got, want, referenceTolerance)
					token, at = 0, 0
					for id, v := range want {
						if v > want[token] {
							token = int32(id)
						}
					}
				}
			})
		}
	}
}

// readReference converts the folder of a reference.
func readReference(t *testing.T, path string) (*gguf.File, reference) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "model.gguf")
	if err := convert.HuggingFace(t.Context(), r.folder(t), out, convert.Options{Output: convert.OutputOf(quant.F32)}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, r
}
