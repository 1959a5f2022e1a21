// Package engine turns requests into steps of a model. It has a scheduler that runs many sequences over KV pages,
// streams of sampled tokens, and recovery from GPUs that fail.
package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Options say how an engine is opened. Zero values mean defaults.
type Options struct {
	Limits
	Cache
	Neurons
	Drafts
	DraftModel DraftModel // drafts tokens, too; its Engine may be nil

	// Head is the file of a draft head, which drafts tokens in place of the MTP layer and of hot neurons. The caller keeps
	// it open as long as the engine. It is computed where the MTP layer would be. nil: there is none.
	Head *gguf.File

	Magnitudes []float32 // [layers] override the file's thresholds of mode threshold; nil: by Bound
	Predicting []bool    // as model.Options'
	Recall     bool      // as model.Options'
	Adapters   []model.Adapter
	Order      [][]int32               // order of neurons [layers][n_ff] at load; nil keeps the file's
	Observer   model.Observer          // sees feed-forward layers, which are then dense; may be nil
	Devices    Devices                 // the devices that compute the model
	Trace      *trace.Log              // keeps steps; may be nil
	Clock      func() time.Duration    // times steps, to choose how many tokens are drafted; nil: the machine's clock
	Work       bool                    // times each part of steps, even while nobody watches
	Expect     func(Memory)            // receives the memory that loading will take, before it begins, and again if it starts over; may be nil
	Disk       disk.Speeds             // measured speeds of reading the model's file; empty: unknown
	Notice     func(string)            // receives a line that the user should know; may be nil
	Bundling   func(done, total int64) // reports progress while the file of neurons is written, once for a model with neurons on the disk; may be nil
	Progress   func(done, total int64)
}

// Limits say how many tokens a model has room for, and how much memory it takes. Zero values mean defaults.
type Limits struct {
	Context   int    // tokens of KV cache that all texts share; 0: as many as the model was trained for
	Sequences int    // texts that are generated at a time; others wait; 0: 1, or 8 in package powerinfer
	Batch     int    // tokens of prompts handed in at a time; 0: 2048
	UBatch    int    // tokens of the largest step; 0: 512
	RAM       *int64 // bytes of RAM that the model may take in all; if it needs more, experts stay on the disk, or neurons of a prepared model; nil: the available RAM, less a reserve if weights stay on the disk
	Mapped    bool   // compute on the mapped file instead of copying weights into memory
	Lock      bool   // keep weights out of swap (mlock)
}

// Cache says how keys and values are stored.
type Cache struct {
	compute.CacheTypes           // types of keys and values
	Whole              bool      // layers with sliding windows keep all keys and values, so that a text can be continued from any position
	Extension          Extension // lets texts be longer than the trained context; the zero value does not
}

// Neurons say which neurons of feed-forward layers are computed.
type Neurons = model.Neurons

// Drafts says how the next tokens are drafted. One step checks all draft tokens. They change speed only.
type Drafts struct {
	Most     int  // draft tokens of a text at a time, at most; 0: none. Package powerinfer takes 0 for DefaultDrafts, a negative number for none, and at most MostDrafts
	NoLookup bool // takes no draft tokens from the text so far, only from the other sources that are asked for

	// Hot says whether the model's own hot neurons draft tokens, too. With GPUs that hold some of a layer's neurons,
	// these neurons do. On the CPU alone, in modes exact and off, the neurons that the file's predictors choose do.
	Hot HotDrafts

	// Further lets the file's layer for multi-token prediction (MTP) draft tokens, in place of hot neurons. Files
	// without such a layer are refused. The layer is on the GPU of the model's last layer if there is room, else in
	// RAM. If RAM has no room for it, either, the model runs without it.
	Further bool

	Least float32 // a draft of a draft model, of hot neurons or of the MTP layer ends before a token with a smaller probability
}

// UsualBatch is the number of tokens of a prompt handed in at a time unless the options say otherwise, as in llama.cpp.
const UsualBatch = 2048

// LargestStep returns the number of tokens that a step has at most; a shorter context limits it further.
func (o *Options) LargestStep() int {
	return min(pick(o.UBatch, model.UsualStep), pick(o.Batch, UsualBatch))
}

// PictureStep returns how many rows of one picture a step has room for, in addition to single tokens, if the rows see
// each other.
func (o *Options) PictureStep() int { return pictureStep(o.LargestStep(), pick(o.Sequences, 1)) }

// Engine owns a loaded model and its cache. Its methods may be called from several goroutines.
type Engine struct {
	sched   *scheduler
	mu      sync.Mutex // the model's turn: held while a step runs
	path    string     // the model's file, for messages
	model   *model.Model
	tok     *tokenizer.Tokenizer
	dev     compute.Device
	file    *gguf.File
	names   pictureNames
	options Options
	config  model.Config
	head    *model.Head
	rerank  string                   // see rerankTemplate
	broken  error                    // nothing can be computed any more
	digest  func() [sha256.Size]byte // digest of file
	context int
	batch   int
	ubatch  int
	outputs int
	drafts  int                      // the largest number of draft tokens of a sequence
	guesser func(r *Request) guesser // returns the guesser of a new text
	hot     *hotDrafts               // nil: hot neurons draft no tokens
	pages   compute.CacheSpec        // how many the KV cache has
	places  []compute.Place
	need    Memory
	stream  *gguf.Stream   // layers that steps read from the disk; nil: there are none
	looked  looked         // at the file
	bundle  *bundle.File   // from which neurons on the disk are read, or nil
	ahead   []func() error // the usual steps that the device has not prepared
	last    results        // the last step's
	work    workCounts

	yielded atomic.Int64 // thread time that the device has left to other programs, as a share of all its threads [ns]

	units unitCount
	slow  slowDisk
}

// results are the rows that a step returns.
type results struct {
	logits [][]float32 // [n_out][n_vocab]
	hidden [][]float32 // [n_hidden][n_embd]
	states [][]float32 // [n_states][DraftShape.State] for drafts
}

// Open loads the model in f. f must stay open as long as the engine: Options.Mapped computes on it, and recovery from a
// failed GPU loads the model again. If ctx has ended, Open returns its error.
func Open(ctx context.Context, f *gguf.File, o Options) (*Engine, error) {
	tok, err := model.Tokenizer(f)
	if err != nil {
		return nil, err
	}
	rerank, _, err := f.String(rerankTemplate)
	if err != nil {
		return nil, err
	}
	if err := o.Cache.Extension.Check(); err != nil {
		return nil, err
	}
	e := &Engine{rerank: rerank, path: f.Path, file: f, options: o, tok: tok, batch: pick(o.Batch, UsualBatch), outputs: pick(o.Sequences, 1), drafts: o.Drafts.Most, slow: slowDisk{speeds: o.Disk}}
	if e.drafts > 0 {
		e.hot = &hotDrafts{}
	}
	if err := e.load(ctx); err != nil {
		e.closeFiles()
		return nil, err
	}
	if e.guesser, err = e.guessers(o.DraftModel); err != nil {
		e.dev.Close()
		e.closeFiles()
		return nil, err
	}
	e.config, e.head = e.model.Config, &e.model.Head
	e.digest = sync.OnceValue(f.Digest)
	if tok.Size() > e.model.Vocab {
		e.dev.Close()
		e.closeFiles()
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens but the embedding %d rows", f.Path, tok.Size(), e.model.Vocab)
	}
	clock := o.Clock
	if clock == nil {
		clock = monotime.Now
	}
	size := limits{rows: e.ubatch, outputs: e.outputs, drafts: e.options.DraftRows(), context: e.context, behind: e.config.Back, short: compute.ShortPrompt}
	if e.model.GuessesFurther() {
		shape := e.model.Drafting()
		size.further, size.drafted = &shape, func(i int32) int32 { return shape.Token(i) }
	}
	e.sched = newScheduler(e, size, clock)
	return e, nil
}

// load loads the model on the devices that Devices opens. If that fails it tries the next ones, until none are left.
func (e *Engine) load(ctx context.Context) error {
	for {
		err := e.loadOnce(ctx)
		if err == nil {
			use := e.dev.Usage()
			e.units.begin(e.unitUse(&use))
		}
		if err == nil || ctx.Err() != nil || !e.options.Devices.After(err) {
			return err
		}
	}
}

// loadOnce checks memory, opens the devices and loads the model.
func (e *Engine) loadOnce(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	layout, err := e.options.Devices.Layout()
	if err != nil {
		return err
	}
	p, err := e.options.provide(e.file, layout)
	if err != nil {
		return err
	}
	if err := e.openBundle(ctx, p); err != nil {
		return err
	}
	dev, err := e.options.Devices.Open(ctx, p.need.Units)
	if err != nil {
		return err
	}
	if err := e.loadOn(ctx, dev, p); err != nil {
		dev.Close()
		return err
	}
	return nil
}

// loadOn loads the model on dev.
func (e *Engine) loadOn(ctx context.Context, dev compute.Device, p provision) error {
	f, o, c := e.file, &e.options, &p.config
	e.context = pick(o.Context, c.Context)
	e.ubatch = min(o.LargestStep(), e.context)
	size := o.cacheSize(*c)
	progress := o.Progress
	if o.Mapped { // reading ahead is several times faster than faulting page by page
		if err := f.Populate(ctx, progress); err != nil {
			return err
		}
		progress = nil
		if o.Lock {
			if err := f.Lock(); err != nil {
				return err
			}
		}
	}
	mo := o.model()
	mo.Batch, mo.Outputs, mo.Context, mo.Cache = e.ubatch, e.outputs+o.DraftRows(), e.context, size
	mo.Head = o.Head
	mo.Further, mo.Drafts = c.FurtherCached, o.hotDrafts(p.layout.Places != nil)
	e.stream.Close()
	if e.stream = p.stream; e.stream != nil { // closeFiles closes it, also if something below fails
		mo.Stream, mo.Order = e.stream, nil
		if err := e.stream.Open(f); err != nil {
			return err
		}
	}
	mo.Places, mo.OnDisk, mo.Bundle, mo.Progress = p.layout.Places, p.need.OnDisk > 0, e.bundle, progress
	m, err := model.Load(ctx, f, dev, mo)
	if err != nil {
		return err
	}
	if o.Cache.Extension.on() {
		if err := m.CheckTurns(); err != nil {
			return fmt.Errorf("%s: self-extension is for models that know positions by rotated keys alone: %w", f.Path, err)
		}
	}
	e.dev, e.model, e.pages, e.places, e.need = dev, m, size, p.layout.Places, p.need
	if e.hot != nil {
		hot := m.Drafts() && size.States == 0 && (o.Drafts.Hot == HotAlways || m.Sparse != model.Predict)
		if e.sched != nil && e.sched.further != nil { // the recovered engine may have no room for its draft program
			hot = false
		}
		e.hot.can.Store(m.GuessesFurther() || hot)
	}
	e.work.loads++
	m.Watch(o.Work || e.work.watchers > 0, e.work.watchers > 0)
	dev.Tune()
	if o.Observer != nil {
		return nil // GPUs cannot compute observed layers
	}
	e.ahead = m.UsualSteps()
	return m.Rehearse()
}

// model returns o's options of the model that do not depend on the machine.
func (o *Options) model() model.Options {
	return model.Options{
		Neurons: o.Neurons, Magnitudes: o.Magnitudes, Predicting: o.Predicting, Recall: o.Recall,
		Order: o.Order, Observer: o.Observer, CacheTypes: o.CacheTypes, Adapters: o.Adapters, Pinned: o.Mapped,
	}
}

func pick(v, def int) int {
	if v > 0 {
		return v
	}
	return def
}

// Drafts returns the largest number of draft tokens of a text in a step; 0: none.
func (e *Engine) Drafts() int { return e.drafts }

// DraftsOf returns the largest number of draft tokens of a request's text in a step, or 0, the least number that is
// checked, and the least probability of a draft token that the model itself makes.
func (e *Engine) DraftsOf(r *Request) (most, fewest int, least float32) {
	if e.drafts > 0 && r.Drafts >= 0 && r.Scales == nil {
		most = min(e.drafts, pick(r.Drafts, e.drafts))
	}
	least = e.options.Drafts.Least
	if r.LeastDraft != nil {
		least = *r.LeastDraft
	}
	return most, min(r.FewestDrafts, most), least
}

// GuessesFurther reports whether the options ask for the file's MTP layer or for a draft head.
func (o *Options) GuessesFurther() bool {
	return (o.Drafts.Further || o.Head != nil) && o.Drafts.Most > 0
}

// DraftRows returns the number of rows of logits that the largest step has for draft tokens.
func (o *Options) DraftRows() int { return model.DraftSequences * o.Drafts.Most }

// cacheSize returns the pages of the model's KV cache.
func (o *Options) cacheSize(c model.Config) compute.CacheSpec {
	context := pick(o.Context, c.Context)
	return c.CacheSize(context, min(o.LargestStep(), context), pick(o.Sequences, 1), o.Cache.Whole, o.Drafts.Most > 0)
}

// Close ends running requests and frees the model.
func (e *Engine) Close() error {
	e.sched.close(ErrClosed)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil {
		return nil // it is closed
	}
	e.broken = ErrClosed
	err := e.dev.Close()
	e.closeFiles()
	runtime.KeepAlive(e.model)
	return err
}

// SlotUse returns the use of slots for experts on GPUs since the model was loaded.
func (e *Engine) SlotUse() compute.SlotUse {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dev.Usage().Slots
}

// Memory returns the memory that the model was expected to take before it was loaded.
func (e *Engine) Memory() Memory {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.need
}

// Config returns the model's hyperparameters.
func (e *Engine) Config() model.Config { return e.config }

// Tokenizer returns the model's tokenizer.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tok }

// Neurons returns the work of each feed-forward layer since the engine was opened. [layers]
func (e *Engine) Neurons() []model.NeuronUse {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.neurons()
}

func (e *Engine) neurons() []model.NeuronUse {
	use := e.model.Neurons()
	for l, past := range e.work.past {
		use[l] = use[l].Since(past)
	}
	return use
}

// Step returns the number of tokens that one step evaluates at most.
func (e *Engine) Step() int { return e.ubatch }

// CacheTypes returns the types of the KV cache.
func (e *Engine) CacheTypes() compute.CacheTypes { return e.options.CacheTypes }

// CacheBytes returns the memory that the KV cache takes.
func (e *Engine) CacheBytes() int64 { return e.config.CacheSpec(e.pages, e.options.CacheTypes).Bytes() }

// Context returns the number of tokens that the KV cache holds.
func (e *Engine) Context() int { return e.context }

// contextOf returns the tokens that a request's text may have with its prompt.
func (e *Engine) contextOf(r *Request) int {
	if r.Context > 0 {
		return min(r.Context, e.context)
	}
	return e.context
}

// checkHead refuses embedding models, which have no logits.
func (e *Engine) checkHead() error {
	if e.config.Headless {
		return fmt.Errorf("%s models give embeddings and no text: serve one and ask /v1/embeddings", e.config.Arch)
	}
	return nil
}

// checkTokens refuses tokens that are not in the vocabulary.
func (e *Engine) checkTokens(tokens []int32) error {
	for _, id := range tokens {
		if id < 0 || int(id) >= e.config.Vocab {
			return fmt.Errorf("token %d is not in the vocabulary of %d", id, e.config.Vocab)
		}
	}
	return nil
}

// run computes a step, with the hidden states and the states for drafts of some of its rows. If a GPU fails, run loads
// the model again without it, and the error is errLost.
func (e *Engine) run(p *compute.Params, w wanted) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil {
		return e.broken
	}
	begin := e.options.Trace.Now()
	forward := e.model.Forward
	switch {
	case p.Draft && e.model.GuessesFurther():
		forward = e.model.ForwardFurther
	case e.model.GuessesFurther() && e.model.Drafting().Last && len(w.hidden) == 0:
		forward = e.model.ForwardLast
	case e.model.GuessesFurther():
		forward = e.model.ForwardBoth
	case len(w.hidden) > 0:
		forward = e.model.ForwardHidden
	}
	err := fault.Guard(func() error { return e.forward(p, forward) })
	e.lookAtFile(err != nil)
	e.traceStep(len(p.Tokens), begin)
	use := e.dev.Usage()
	e.units.take(e.unitUse(&use))
	e.tellUnread(use.Unread)
	if line := e.slow.look(e.UnitUse()); line != "" && e.options.Notice != nil {
		e.options.Notice(line)
	}
	if use.Threads > 0 {
		e.yielded.Store(int64(use.Yielded) / int64(use.Threads))
	}
	if err == nil {
		err = e.readLogits(len(p.Out))
	}
	if err == nil {
		err = e.readStates(w)
	}
	if err == nil {
		return nil
	}
	return e.recover(err)
}

// prepare makes the device prepare one of the usual steps, if it wants to, and reports whether more are left. After an
// error it prepares no more: the step itself will fail and return the error.
func (e *Engine) prepare() (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ahead) == 0 || e.broken != nil || !e.dev.RehearsesEarly() {
		return false
	}
	step := e.ahead[0]
	if e.ahead = e.ahead[1:]; step() != nil {
		e.ahead = nil
	}
	return len(e.ahead) > 0
}

// readLogits reads n rows of logits: a GPU may be lost after its work and before its results are read.
func (e *Engine) readLogits(n int) error {
	e.last.logits = e.last.logits[:0]
	for i := range n {
		row, err := e.model.Logits(i)
		if err != nil {
			return err
		}
		e.last.logits = append(e.last.logits, row)
	}
	return nil
}

// readStates reads the hidden states and the states for drafts of some rows.
func (e *Engine) readStates(w wanted) (err error) {
	read := func(to [][]float32, rows []int32, row func(i int) ([]float32, error)) [][]float32 {
		to = to[:0]
		for _, i := range rows {
			state, failed := row(int(i))
			if failed != nil {
				err = failed
				return to
			}
			to = append(to, state)
		}
		return to
	}
	e.last.hidden = read(e.last.hidden, w.hidden, e.model.Hidden)
	if err == nil {
		e.last.states = read(e.last.states, w.states, e.model.State)
	}
	return err
}

// hidden returns the i-th hidden state [n_embd] that the last step was asked for.
func (e *Engine) hidden(i int) []float32 { return e.last.hidden[i] }

// state returns the i-th draft state [DraftShape.State] that the last step was asked for.
func (e *Engine) state(i int) []float32 { return e.last.states[i] }

// logits returns row i of the last step's logits [n_vocab].
func (e *Engine) logits(i int) []float32 { return e.last.logits[i] }

// cache returns an empty cache over the model's pages, and the contents of these.
func (e *Engine) cache() (*kvcache.Cache, contents) {
	m := e.model
	size := kvcache.Size{Pages: e.pages.Pages, Positions: compute.PagePositions, Near: e.pages.Near, States: e.pages.States}
	if size.Near > 0 {
		size.Window = m.Window(e.context)
	}
	return kvcache.New(size, func(to, from kvcache.Page) {
		e.mu.Lock()
		defer e.mu.Unlock()
		m.CopyPage(compute.Page(to), compute.Page(from))
	}), pagesOf{e, m}
}

// ErrNotFinite returns the error of a model with logits or embeddings that are not finite.
func (e *Engine) ErrNotFinite() error {
	return fmt.Errorf("%s: the model's outputs are not finite numbers: its weights or its metadata are damaged, or of another model", e.path)
}

// Device names the devices that compute.
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
