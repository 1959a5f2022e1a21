package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Quantization asks for a file with matrices of another type.
type Quantization struct {
	Type       quant.Type              // one of quant.OutTypes
	More       bool                    // see Output
	Pure       bool                    // the matrix that gives the logits, too; else it is Q8_0 where Type has 4 bits
	Requantize bool                    // decode what is quantised already; it loses quality twice
	Threads    int                     // 0: all
	Progress   func(done, total int64) // bytes written and to write; may be nil
	Notes      func(line string)       // one line on each thing a user may want to know; may be nil
}

// Quantize writes f to outfile with its matrices in another type; everything else stays as it is: vectors, learned
// positions, expert routers, every key but those that name types, and so what prepared files hold. One tensor's rows are in
// work at a time. The same file and options give the same bytes, for any number of threads.
func Quantize(ctx context.Context, f *gguf.File, outfile string, q Quantization) error {
	if err := q.output().check(); err != nil {
		return err
	}
	if len(f.Tensors) == 0 {
		return fmt.Errorf("%s: the file has no tensors", f.Path)
	}
	if q.Notes == nil {
		q.Notes = func(string) {}
	}
	tensors, err := q.sources(f)
	if err != nil {
		return err
	}
	return gguf.Create(ctx, outfile, f.Magic, q.keys(f), tensors, q.Progress)
}

func (q *Quantization) output() Output { return Output{q.Type, q.More} }

// keys are f's, with the file's type, without those that number a split file's parts.
func (q *Quantization) keys(f *gguf.File) []gguf.KV {
	keys := slices.DeleteFunc(slices.Clone(f.Keys), func(kv gguf.KV) bool { return strings.HasPrefix(kv.Key, "split.") })
	set := func(key string, value uint32) {
		i := slices.IndexFunc(keys, func(kv gguf.KV) bool { return kv.Key == key })
		if i < 0 {
			keys = append(keys, gguf.KV{Key: key})
			i = len(keys) - 1
		}
		keys[i].Value = value
	}
	set("general.file_type", q.output().fileType())
	set("general.quantization_version", quantizationVersion)
	return keys
}

// sources chooses every tensor's type; an error names a tensor that is quantised already.
func (q *Quantization) sources(f *gguf.File) ([]gguf.Source, error) {
	threads := q.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if threads < 0 {
		return nil, errors.New("a negative number of threads")
	}
	e := &encoder{lanes: make([]lane, threads)}
	out := make([]gguf.Source, len(f.Tensors))
	var names []string
	for _, m := range f.Tensors {
		names = append(names, m.Name)
	}
	layers := layersOf(names)
	for i, m := range f.Tensors {
		typ, err := q.storeAs(f, m, layers)
		if err != nil {
			return nil, err
		}
		out[i] = gguf.Source{Name: m.Name, Type: typ, Shape: m.Shape, Write: func(w io.Writer) error {
			if typ == m.Type {
				return copyData(w, m.Data)
			}
			return e.write(w, &tensor{name: m.Name, shape: m.Shape, mapped: m}, typ)
		}}
	}
	return out, nil
}

// predictor reports whether m is part of a layer's predictor.
func predictor(m *gguf.Tensor) bool {
	return strings.HasSuffix(m.Name, ".fc1.weight") || strings.HasSuffix(m.Name, ".fc2.weight")
}

// storeAs returns the type of m in the output, in a model of so many layers.
func (q *Quantization) storeAs(f *gguf.File, m *gguf.Tensor, layers int) (quant.Type, error) {
	if m.Type == q.Type || kept(m) {
		return m.Type, nil
	}
	// prepare was told their type; the original's form scales some far below what a block's scale can be
	if predictor(m) && (!m.Type.Float() || m.Type == quant.F32 && f.Magic == "PWRI") {
		return m.Type, nil
	}
	if !m.Type.Float() && !q.Requantize {
		return 0, fmt.Errorf("%s: tensor %q is %s already, and quantising it again loses quality: start from a file of F32, F16 or BF16, or give --allow-requantize",
			f.Path, m.Name, m.Type)
	}
	if m.Type.Float() && m.Type != quant.F32 && m.Shape[0]%q.Type.BlockElems() != 0 {
		q.Notes(fmt.Sprintf("%s: rows of %d elements do not divide into blocks of %s (%d); left as %s",
			m.Name, m.Shape[0], q.Type, q.Type.BlockElems(), m.Type))
		return m.Type, nil
	}
	head := "output.weight"
	if f.Tensor(head) == nil {
		head = "token_embd.weight"
	}
	t := tensor{name: m.Name, shape: m.Shape, head: m.Name == head && !q.Pure}
	return t.storeAs(Options{OutType: q.Type, More: q.More, Notes: q.Notes}, layers), nil
}

// kept reports what stays as it is in every type: vectors, what is no weight, and matrices that are small and matter.
func kept(m *gguf.Tensor) bool {
	if len(m.Shape) < 2 || !strings.HasSuffix(m.Name, ".weight") || m.Type == quant.I32 {
		return true
	}
	return strings.HasSuffix(m.Name, "_norm.weight") || strings.HasSuffix(m.Name, "ffn_gate_inp.weight") || m.Name == "position_embd.weight"
}

// copyStep is the number of bytes that are copied between two reports of progress.
const copyStep = 4 << 20

func copyData(w io.Writer, b []byte) error {
	for part := range slices.Chunk(b, copyStep) {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
