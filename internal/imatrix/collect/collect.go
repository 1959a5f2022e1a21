// Package collect makes importance matrices: it reads a text through a model's dense forward pass and adds up the
// squares of each matrix's inputs, as llama.cpp's llama-imatrix does.
package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/imatrix"
	"github.com/powerinfer-go/powerinfer/internal/model"
)

// Matrix is the importance matrix that is collected.
type Matrix = imatrix.Matrix

// OlderKind is the kind of files in the older form.
func OlderKind() atomicfile.Kind { return imatrix.OlderKind() }

// Sum reads files and adds them up. Those of the older form count as their chunks of this many tokens. It refuses those
// of another model than f's, unless f is nil.
func Sum(f *gguf.File, paths []string, chunkTokens int) (*Matrix, error) {
	sum := imatrix.New(chunkTokens)
	for _, path := range paths {
		m, err := imatrix.Open(path)
		if err != nil {
			return nil, err
		}
		if err := fits(f, m); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := sum.Add(m); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return sum, nil
}

// fits refuses a matrix of another model than f's, which may be nil.
func fits(f *gguf.File, m *Matrix) error {
	if f == nil {
		return nil
	}
	for _, name := range m.Names() {
		n := len(m.Entries[name].Sums)
		cols, matrices := size(f, name)
		switch {
		case cols == 0:
			return fmt.Errorf("it has importances of %q, a tensor that %s does not have: give those of the same model", name, f.Path)
		case n != cols*matrices:
			return fmt.Errorf("it has %d importances for %q, but %d columns are in %s: give a matrix of the same model", n, name, cols*matrices, f.Path)
		}
	}
	return nil
}

// Options of a collection.
type Options struct {
	Text    string
	Dataset string // the text's name, for the file
	Context int    // tokens of a chunk; 0: UsualContext
	Skip    int    // chunks at the beginning to leave out
	Chunks  int    // at most this many; 0: all
	Special bool   // the text's special tokens are tokens, not text
	Head    bool   // collect for output.weight, too
	Threads int    // 0: idle cores
	Pinned  bool   // compute on the mapped file instead of repacking it

	Matrix   *Matrix // the collection is added to it; nil: to an empty one
	Loading  func(done, total int64)
	Expect   func(chunks int, whole time.Duration) // called before the first chunk with their number and the expected time, unless they are few; may be nil
	Progress func(done, total int)                 // chunks
	Save     func(m *Matrix, done int) error       // called after each chunk with the collection so far, which it must not keep; may be nil
}

// UsualContext is llama.cpp's.
const UsualContext = 512

// stepTokens is the number of tokens of a step.
const stepTokens = 512

// Memory returns about how many bytes of memory collecting takes.
func (o *Options) Memory(f *gguf.File) (int64, error) {
	c, err := model.ReadConfig(f, "")
	if err != nil {
		return 0, err
	}
	const rest = 100 << 20 // the heap, and the file's metadata
	n := c.CacheSpec(compute.CacheSpec{Pages: model.CachePages(o.context())}, compute.CacheTypes{}).Bytes() + c.ActivationBytes(min(stepTokens, o.context())) + rest
	if o.Pinned {
		return n, nil
	}
	for _, t := range f.Tensors {
		n += layout.Packed(t.Type, int64(len(t.Data)))
	}
	return n, nil
}

func (o *Options) context() int {
	if o.Context > 0 {
		return o.Context
	}
	return UsualContext
}

// chunks cuts the text's tokens.
func (o *Options) chunks(f *gguf.File) (chunks [][]int32, bos int32, err error) {
	tok, err := model.Tokenizer(f)
	if err != nil {
		return nil, 0, err
	}
	n := o.context()
	tokens := tok.Encode(o.Text, true, o.Special)
	for part := range slices.Chunk(tokens, n) {
		if len(part) == n {
			chunks = append(chunks, part)
		}
	}
	if len(chunks) <= o.Skip {
		name := o.Dataset
		if name == "" || name == "-" {
			name = "the text"
		}
		if o.Skip == 0 {
			return nil, 0, fmt.Errorf("%s has %d tokens, fewer than a chunk of %d: give a longer text or a smaller -c", name, len(tokens), n)
		}
		return nil, 0, fmt.Errorf("%s has %d tokens, %d chunks of %d, and %d are to be left out: give a longer text, a smaller -c or fewer chunks to leave out", name, len(tokens), len(chunks), n, o.Skip)
	}
	chunks = chunks[o.Skip:]
	if o.Chunks > 0 {
		chunks = chunks[:min(o.Chunks, len(chunks))]
	}
	bos = -1
	if tok.AddsBOS() {
		bos = tok.BOS()
	}
	return chunks, bos, nil
}

// Run collects. If ctx ends, it returns the collection so far, and ctx's error.
func Run(ctx context.Context, f *gguf.File, o Options) (*Matrix, error) {
	chunks, bos, err := o.chunks(f)
	if err != nil {
		return nil, err
	}
	r, err := newRunner(ctx, f, &o)
	if err != nil {
		return nil, err
	}
	defer r.dev.Close()
	base := o.Matrix
	if base == nil {
		base = imatrix.New(o.context())
	}
	if err := r.foretell(chunks, bos, o.Expect); err != nil {
		return nil, err
	}
	done := 0
	result := func() (*Matrix, error) { return r.result(base, &o, done) }
	for _, chunk := range chunks {
		if err := ctx.Err(); err != nil {
			m, failed := result()
			return m, errors.Join(failed, err)
		}
		if err := r.chunk(chunk, bos); err != nil {
			return nil, err
		}
		done++
		if o.Progress != nil {
			o.Progress(done, len(chunks))
		}
		if o.Save == nil {
			continue
		}
		m, err := result()
		if err == nil {
			err = o.Save(m, done)
		}
		if err != nil {
			return nil, err
		}
	}
	return result()
}

// trialTokens are read before the first chunk, to estimate the time of all chunks, if there are worthTrial times as
// many to read.
const (
	trialTokens = 128
	worthTrial  = 16
)

// foretell reports how long the chunks will take, from the time to read the beginning of the first one without
// collecting.
func (r *runner) foretell(chunks [][]int32, bos int32, expect func(chunks int, whole time.Duration)) error {
	all := len(chunks) * len(chunks[0])
	if expect == nil || all < worthTrial*trialTokens {
		return nil
	}
	read := chunks[0][:min(trialTokens, len(chunks[0]))]
	begin := time.Now()
	if err := r.chunk(read, bos); err != nil {
		return err
	}
	clear(r.dev.sums)
	expect(len(chunks), time.Duration(float64(time.Since(begin))/float64(len(read))*float64(all)))
	return nil
}

// runner evaluates chunks.
type runner struct {
	*model.Model
	dev    *device
	params compute.Params
	pages  []int32
}

func newRunner(ctx context.Context, f *gguf.File, o *Options) (*runner, error) {
	threads := o.Threads
	if threads == 0 {
		threads = hw.DefaultThreads()
	}
	processor, err := cpu.New(cpu.Options{Threads: threads})
	if err != nil {
		return nil, err
	}
	r := &runner{dev: &device{Device: processor, file: f, head: o.Head, sums: map[string]*sums{}}}
	n := o.context()
	step, outputs := min(stepTokens, n), 1
	if o.Head {
		outputs = step
	}
	pages := model.CachePages(n)
	r.Model, err = model.Load(ctx, f, r.dev, model.Options{
		Neurons: model.Neurons{Sparse: model.Off}, Batch: step, Outputs: outputs, Context: n, Cache: compute.CacheSpec{Pages: pages}, Pinned: o.Pinned, Progress: o.Loading,
	})
	if err != nil {
		r.dev.Close()
		return nil, err
	}
	for page := range pages {
		r.pages = append(r.pages, int32(page))
	}
	if bound := r.Model.Context; n > bound {
		r.dev.Close()
		return nil, fmt.Errorf("%s: the model was trained for %d tokens, fewer than chunks of %d have; give a smaller -c", f.Path, bound, n)
	}
	return r, nil
}

// chunk evaluates tokens from the beginning of a sequence; bos replaces the first unless it is negative.
func (r *runner) chunk(tokens []int32, bos int32) error {
	p := &r.params
	p.Pages = [][]int32{r.pages}
	for at := 0; at < len(tokens); at += stepTokens {
		p.Tokens, p.Pos, p.Seq, p.Out = p.Tokens[:0], p.Pos[:0], p.Seq[:0], p.Out[:0]
		for i, id := range tokens[at:min(at+stepTokens, len(tokens))] {
			if at+i == 0 && bos >= 0 {
				id = bos
			}
			p.Tokens, p.Pos, p.Seq = append(p.Tokens, id), append(p.Pos, int32(at+i)), append(p.Seq, 0)
			if r.dev.head {
				p.Out = append(p.Out, int32(i))
			}
		}
		if err := r.ForwardHidden(p); err != nil { // Forward leaves out rows of the last layer
			return err
		}
	}
	return nil
}

// result adds the collection of this many chunks to a copy of base.
func (r *runner) result(base *Matrix, o *Options, chunks int) (*Matrix, error) {
	own := imatrix.New(o.context())
	own.Chunks = chunks
	if o.Dataset != "" {
		own.Datasets = []string{o.Dataset}
	}
	for name, s := range r.dev.sums {
		e := &imatrix.Entry{Sums: make([]float32, len(s.squares)), Counts: slices.Clone(s.inputs)}
		for i, v := range s.squares {
			if math.IsNaN(v) || v > math.MaxFloat32 {
				return nil, fmt.Errorf("tensor %q is multiplied with numbers that are not finite; the model is damaged", name)
			}
			e.Sums[i] = float32(v)
		}
		own.Entries[name] = e
	}
	m := imatrix.New(base.ChunkTokens)
	if err := m.Add(base); err != nil {
		return nil, err
	}
	return m, m.Add(own)
}
