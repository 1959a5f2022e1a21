// Package engine turns requests into steps of a model: sequences over KV pages,
// prefix reuse, batching of prompts, sampling, streaming, stopping.
package engine

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Options are the choices made when an engine is opened. Zero values mean defaults.
type Options struct {
	Context      int      // tokens of KV cache, 0: the model's own
	Batch        int      // tokens handed in at a time while a prompt is read; 2048
	UBatch       int      // tokens of the largest step; 512
	Outputs      int      // rows of logits of the largest step; 1
	Threads      int      // for generation; 0: idle physical cores
	ThreadsBatch int      // for prompts; 0: as Threads
	NoRepack     bool     // compute on the mapped file in place
	Lock         bool     // keep weights out of swap (mlock)
	Activation   string   // overrides the file's
	Threshold    *float32 // overrides the file's sparse threshold
	Sparse       model.SparseMode
	Order        [][]int32      // [layers][n_ff] of neurons at load; nil keeps the file's
	Observer     model.Observer // sees feed-forward layers, which are then dense; may be nil
	Plan         *Plan          // graphics cards to work beside the processor; nil: none
	Trace        *trace.Log     // keeps steps, and when each processor did what; may be nil
	Progress     func(done, total int64)
}

// The sizes of prompts' parts where the options do not say, as in llama.cpp.
const (
	usualBatch  = 2048
	usualUBatch = 512
)

// LargestStep is how many tokens a step has at most, where the context is not shorter.
func (o *Options) LargestStep() int {
	return min(pick(o.UBatch, usualUBatch), pick(o.Batch, usualBatch))
}

// Engine owns a loaded model, its cache and its sequences. Its methods may be called from several goroutines.
type Engine struct {
	mu      sync.Mutex // one step at a time: a model has one set of buffers
	path    string     // of the model's file, for messages
	model   *model.Model
	tok     *tokenizer.Tokenizer
	dev     compute.Device
	file    *gguf.File
	options Options
	config  model.Config
	past    []model.NeuronUse // [layers] what was computed before cards were given up; nil: none was
	broken  error             // nothing can be computed any more
	context int
	batch   int
	ubatch  int
	outputs int
	pages   *pages
	idle    []*Sequence // finished, kept for their prefixes; oldest first
	params  compute.Params
	view    [1][]int32 // params.Pages of a step of one sequence
}

// Open loads the model in f. f must stay open as long as the engine if Options.NoRepack or Options.Plan is set.
func Open(f *gguf.File, o Options) (*Engine, error) {
	tok, err := model.Tokenizer(f)
	if err != nil {
		return nil, err
	}
	e := &Engine{path: f.Path, file: f, options: o, tok: tok, batch: pick(o.Batch, usualBatch), outputs: pick(o.Outputs, 1)}
	if err := e.load(); err != nil {
		return nil, err
	}
	e.config = e.model.Config
	if tok.Size() > e.model.Vocab {
		e.dev.Close()
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens but the embedding %d rows", f.Path, tok.Size(), e.model.Vocab)
	}
	return e, nil
}

// load opens the processors and takes the model in.
func (e *Engine) load() error {
	f, o := e.file, &e.options
	c, err := model.ReadConfig(f, o.Activation)
	if err != nil {
		return err
	}
	e.context = pick(o.Context, c.Context)
	e.ubatch = min(o.LargestStep(), e.context)
	nPages := (e.context+compute.PagePositions-1)/compute.PagePositions + 1 // one spare, for copying a shared page
	if err := checkMemory(f, c, c.CacheSpec(nPages).Bytes(), c.ActivationBytes(e.ubatch), o.onCards(), o.NoRepack); err != nil {
		return err
	}
	threads := hw.DefaultThreads()
	if o.Plan != nil { // with every core at work, waiting for a card takes far longer
		threads = max(1, threads-1)
	}
	threads = pick(o.Threads, threads)
	dev, err := o.open(threads)
	if err != nil {
		return err
	}
	progress := o.Progress
	if o.NoRepack { // reading ahead is several times faster than faulting page by page
		if err := f.Populate(progress); err != nil {
			dev.Close()
			return err
		}
		progress = nil
		if o.Lock {
			if err := f.Lock(); err != nil {
				dev.Close()
				return err
			}
		}
	}
	m, err := model.Load(f, dev, model.Options{
		Activation: o.Activation, Threshold: o.Threshold, Batch: e.ubatch, Outputs: e.outputs,
		Sparse: o.Sparse, Order: o.Order, Observer: o.Observer, Places: o.places(),
		Cache: compute.CacheSpec{Pages: nPages}, Pinned: o.NoRepack, Progress: progress,
	})
	if err != nil {
		dev.Close()
		return err
	}
	e.dev, e.model, e.pages = dev, m, newPages(nPages)
	if err := e.rehearse(); err != nil {
		dev.Close()
		return err
	}
	return nil
}

func pick(v, def int) int {
	if v > 0 {
		return v
	}
	return def
}

// overhead is what a process needs besides weights and cache: activations, the Go heap, the file's metadata.
const overhead = 300 << 20

// checkMemory says before loading that a model cannot fit.
func checkMemory(f *gguf.File, c model.Config, cache, activations, onCards int64, mapped bool) error {
	mem, err := hw.ReadMemory()
	if err != nil || mem.Available == 0 {
		return nil // unknown: let the loader try
	}
	var weights int64
	for _, t := range f.Tensors {
		weights += int64(len(t.Data))
	}
	if mapped {
		weights = 0 // pages of the file may be dropped and read again
	}
	weights = max(0, weights-onCards)
	if need := weights + cache + activations + overhead; need > int64(mem.Available) {
		gib := func(n int64) float64 { return float64(n) / (1 << 30) }
		return fmt.Errorf("%s: needs %.1f GiB (weights %.1f, KV cache %.1f, activations %.1f) but %.1f GiB are available; lower -c or -ub, or use --no-repack to read weights from disk",
			f.Path, gib(need), gib(weights), gib(cache), gib(activations), gib(int64(mem.Available)))
	}
	return nil
}

// Close frees the model.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil {
		return nil // it is closed
	}
	e.broken = errors.New("the engine is closed")
	err := e.dev.Close()
	runtime.KeepAlive(e.model)
	return err
}

// Config is the model's hyperparameters.
func (e *Engine) Config() model.Config { return e.config }

// Tokenizer is the model's tokenizer.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tok }

// Neurons is what each feed-forward layer has computed since the engine was opened. [layers]
func (e *Engine) Neurons() []model.NeuronUse {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.neurons()
}

func (e *Engine) neurons() []model.NeuronUse {
	use := e.model.Neurons()
	for l, past := range e.past {
		use[l] = use[l].Since(past)
	}
	return use
}

// Context is the number of tokens that the KV cache holds.
func (e *Engine) Context() int { return e.context }

// NewSequence starts an empty sequence; Release gives its pages back.
func (e *Engine) NewSequence() *Sequence {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &Sequence{e: e, pool: e.pages}
}

// Release gives s's pages back.
func (e *Engine) Release(s *Sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Truncate(0)
}

// takePage takes a free page, evicting the oldest idle sequences as needed.
func (e *Engine) takePage() (int32, error) {
	for {
		if id, ok := e.pages.take(); ok {
			return id, nil
		}
		if len(e.idle) == 0 {
			return 0, &ErrContextFull{e.context}
		}
		e.idle[0].Truncate(0)
		e.idle = e.idle[1:]
	}
}

// resume is a sequence that holds the longest known prefix of prompt, at least one token short of it:
// the last token must be evaluated for its logits.
func (e *Engine) resume(prompt []int32) *Sequence {
	var best *Sequence
	shared := 0
	for _, s := range e.idle {
		if n := s.commonPrefix(prompt); n > shared {
			best, shared = s, n
		}
	}
	shared = min(shared, len(prompt)-1)
	if best == nil || shared <= 0 {
		return &Sequence{e: e, pool: e.pages}
	}
	return best.fork(shared)
}

// retire keeps s for its prefix.
func (e *Engine) retire(s *Sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := e.idle[:0]
	for _, old := range e.idle { // a prefix of s is of no more use
		if len(old.tokens) == s.commonPrefix(old.tokens) {
			old.Truncate(0)
			continue
		}
		kept = append(kept, old)
	}
	e.idle = append(kept, s)
}

// Evaluate appends tokens to s in steps of at most the ubatch. Logits of the last tokens are
// passed to each (row i of out in order): wanted(i) says whether tokens[i]'s logits [n_vocab] are.
func (e *Engine) Evaluate(s *Sequence, tokens []int32, wanted func(i int) bool, each func(i int, logits []float32)) error {
	for at := 0; at < len(tokens); {
		n := min(e.ubatch, len(tokens)-at)
		e.mu.Lock()
		n, err := e.surely(s, tokens[at:at+n], at, wanted)
		if err == nil {
			for i, row := range e.params.Out {
				each(at+int(row), e.model.Logits(i))
			}
		}
		e.mu.Unlock()
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// step evaluates a first part of tokens: as many as have room for their logits. It returns how many.
func (e *Engine) step(s *Sequence, tokens []int32, at int, wanted func(i int) bool) (int, error) {
	p := &e.params
	p.Tokens, p.Pos, p.Seq, p.Out = p.Tokens[:0], p.Pos[:0], p.Seq[:0], p.Out[:0]
	for i, id := range tokens {
		if id < 0 || int(id) >= e.model.Vocab {
			return 0, fmt.Errorf("token %d is not in the vocabulary of %d", id, e.model.Vocab)
		}
		want := wanted != nil && wanted(at+i)
		if want && len(p.Out) == e.outputs {
			break
		}
		p.Tokens = append(p.Tokens, id)
		p.Pos = append(p.Pos, int32(len(s.tokens)+i))
		p.Seq = append(p.Seq, 0)
		if want {
			p.Out = append(p.Out, int32(i))
		}
	}
	n := len(p.Tokens)
	if err := s.reserve(n); err != nil {
		return 0, err
	}
	e.view[0] = s.pages
	p.Pages = e.view[:]
	begin := e.options.Trace.Now()
	err := e.model.Forward(p)
	e.traceStep(n, begin)
	if err == nil {
		err = e.readable(len(p.Out))
	}
	if err != nil {
		return 0, err
	}
	s.tokens = append(s.tokens, p.Tokens...)
	return n, nil
}

// ErrNotFinite is the error of a model whose logits are no numbers.
func (e *Engine) ErrNotFinite() error {
	return fmt.Errorf("%s: the model's logits are not finite numbers: its weights or its metadata are damaged, or of another model", e.path)
}

// Device says what computes.
func (e *Engine) Device() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dev.Name()
}

// traceStep keeps a step of n tokens in the trace, if there is one.
func (e *Engine) traceStep(n int, begin time.Duration) {
	if e.options.Trace == nil {
		return
	}
	name := "token"
	if n > 1 {
		name = fmt.Sprintf("%d tokens", n)
	}
	e.options.Trace.Span(trace.Steps, name, begin)
}
