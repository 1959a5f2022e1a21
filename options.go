package powerinfer

import (
	"fmt"
	"io"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Options are the choices made when a model is opened. The zero value is a good one.
type Options struct {
	Adapters   []Adapter // LoRA adapters, added to what the model's weights give
	Overrides  []string  // of metadata, each KEY=TYPE:VALUE as in llama.cpp's --override-kv
	Pooling    string    // how Embed makes one vector of a text's: mean, cls or last; empty: as the file says, or mean
	Statistics string    // a file of `powerinfer profile`, for a model that holds no statistics of its neurons

	Limits  Limits     // tokens of context and of steps, and memory
	Cache   Cache      // how keys and values are kept
	CPU     CPU        // threads and kernels
	GPU     GPUs       // which GPUs, and what is placed there
	Neurons Neurons    // which neurons are computed
	Drafts  Drafts     // guesses of the next tokens
	Draft   DraftModel // another model that guesses them
	Tower   Tower      // shows pictures to the model

	// Expect is told, before weights are loaded, how much memory that will take, and how many tokens per second can be
	// expected if memory limits them; rate is 0 if this machine was not measured. It may be nil.
	Expect func(m Memory, rate float64)

	Measuring func(done, total int64)           // is told how far measuring the machine is, which is done once; may be nil
	Compiling func(gpu string, done, total int) // is told how many shaders of a GPU are compiled, which is done once, on any goroutine; may be nil
	Bundling  func(done, total int64)           // is told how many bytes of a model's file of neurons are written, which is done once where neurons stay on the disk; may be nil
	Progress  func(done, total int64)           // is told how many bytes of weights are loaded; may be nil
	Notice    func(string)                      // is told in a line what a user should know, such as why a GPU is given up; may be nil
	Trace     *Trace                            // keeps what was computed when; may be nil
}

// The groups of Options.
type (
	// Limits say how many tokens a model has room for, and how much memory it takes: Context, Sequences, Batch, UBatch,
	// RAM, Mapped and Lock.
	Limits = engine.Limits
	// Cache says how keys and values are kept: the types Key and Value, Whole and Extension.
	Cache = engine.Cache
	// CPU says how the CPU computes: Threads, ThreadsBatch, Kernels and Note.
	CPU = planner.Processor
	// GPUs says which GPUs compute, and what is placed there: Devices, VRAM, Layers, Tensors, KVInRAM, StreamTokens,
	// MoECache and ReadAhead.
	GPUs = planner.GPUs
	// Neurons say which neurons of feed-forward layers are computed: Activation, Sparse, Threshold, AlwaysOn, Bound and
	// Skip.
	Neurons = engine.Neurons
	// Skip is Neurons.Skip. It leaves out a token's experts after the After highest ranked whose weight is less than a
	// share Below of the token's weights, if they are not in RAM, in steps of generation.
	Skip = compute.Skip
	// Drafts are guesses of the next tokens, which are checked in one step: Most, NoLookup, Hot, Further and Least. They
	// change speed only.
	Drafts = engine.Drafts
	// DraftModel is a smaller model of the same vocabulary that guesses tokens: Path, Off, Devices and Layers. Without a
	// Path it is the one beside the model's file that computes with the model's states, if there is one.
	DraftModel = session.Draft
	// Tower shows pictures to a model. It has a file of its own (mmproj): Path, Off, OnProcessor, Least and Most.
	Tower = session.Tower
)

// Adapter is a LoRA adapter in a GGUF file (Path), and the factor of its effect (Scale); with 0 it is loaded and has no
// effect.
type Adapter = session.Adapter

// NoGPU is GPUs.Devices for the CPU alone.
const NoGPU = "none"

// Sparse is a value of Neurons.Sparse.
type Sparse = model.SparseMode

// The ways of computing feed-forward layers.
const (
	SparseAuto    = model.Auto    // SparsePredict if the file says that it costs nearly nothing, else SparseExact where neurons are zero and the file does not say that most are not, else SparseOff
	SparseOff     = model.Off     // all neurons
	SparseExact   = model.Exact   // those that are not zero, which changes no result
	SparsePredict = model.Predict // those that the file's predictors choose

	// SparseMagnitude computes those whose activation is not nearly zero, by thresholds that `powerinfer prepare
	// --sparse threshold` found for SiLU and GELU; Neurons.Bound bounds what that changes.
	SparseMagnitude = model.Threshold
)

// ParseSparse reads a mode's name: auto, off, exact, predict or threshold.
func ParseSparse(name string) (Sparse, error) { return model.ParseSparseMode(name) }

// Bound is Neurons.Bound: the largest KL divergence (KLD), and the least share of tokens that stay the likeliest
// (SameTop).
type Bound = model.Bound

// KVType is a type in which keys or values are kept.
type KVType = compute.KVType

// The types of keys and values.
const (
	KVF16  = compute.KVF16 // the default
	KVF32  = compute.KVF32
	KVBF16 = compute.KVBF16
	KVQ8_0 = compute.KVQ8_0
	KVQ4_0 = compute.KVQ4_0
)

// ParseKVType reads a type's name: f32, f16, bf16, q8_0 or q4_0.
func ParseKVType(name string) (KVType, error) { return compute.ParseKVType(name) }

// Extension is self-extension, llama.cpp's --grp-attn-n and --grp-attn-w: whenever Width more tokens of a text are
// there, each Group of them shares a position from then on. Keys and values of such a text serve no other, so each turn
// of a conversation is evaluated from its beginning.
type Extension = engine.Extension

// HotDrafts is a value of Drafts.Hot.
type HotDrafts = engine.HotDrafts

// The values. With HotAuto, hot neurons guess where GPUs hold some of a layer's neurons and the CPU computes all others
// that are not zero, not only predicted ones.
const (
	HotAuto   = engine.HotAuto
	HotAlways = engine.HotAlways
	HotNever  = engine.HotNever
)

// Defaults and bounds: each draft takes memory for rows of logits.
const (
	defaultSequences = 8  // of Limits.Sequences
	DefaultDrafts    = 16 // of Drafts.Most
	MostDrafts       = 64 // bounds Drafts.Most
)

// Trace keeps what each processor did when. A Trace is for one model.
type Trace struct{ log *trace.Log }

// NewTrace returns an empty trace, whose time begins now.
func NewTrace() *Trace { return &Trace{trace.New()} }

// Empty reports whether nothing was computed yet.
func (t *Trace) Empty() bool { return t.log.Empty() }

// Dropped returns how many spans found no room.
func (t *Trace) Dropped() int { return t.log.Left() }

// Write writes the trace in Chrome's trace event format, which ui.perfetto.dev shows.
func (t *Trace) Write(w io.Writer) error { return t.log.Write(w) }

// session returns the options as sessions take them.
func (o *Options) session() (session.Options, error) {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"Limits.Context", o.Limits.Context},
		{"Limits.Sequences", o.Limits.Sequences},
		{"Limits.Batch", o.Limits.Batch},
		{"Limits.UBatch", o.Limits.UBatch},
		{"CPU.Threads", o.CPU.Threads},
		{"CPU.ThreadsBatch", o.CPU.ThreadsBatch},
		{"Tower.Least", o.Tower.Least},
		{"Tower.Most", o.Tower.Most},
	} {
		if f.value < 0 {
			return session.Options{}, fmt.Errorf("the field Options.%s is %d; give a positive number, or 0 for the default", f.name, f.value)
		}
	}
	switch engine.Pooling(o.Pooling) {
	case "", engine.PoolMean, engine.PoolCLS, engine.PoolLast:
	default:
		return session.Options{}, fmt.Errorf("there is no pooling %q; Options.Pooling may be mean, cls or last", o.Pooling)
	}
	e := engine.Options{Limits: o.Limits, Cache: o.Cache, Neurons: o.Neurons, Drafts: o.Drafts, Progress: o.Progress, Bundling: o.Bundling}
	if e.Sequences == 0 {
		e.Sequences = defaultSequences
	}
	if e.Drafts.Most = min(max(0, o.Drafts.Most), MostDrafts); o.Drafts.Most == 0 {
		e.Drafts.Most = DefaultDrafts
	}
	if o.Trace != nil {
		e.Trace = o.Trace.log
	}
	so := session.Options{
		Engine:     e,
		Planner:    planner.Options{Processor: o.CPU, GPUs: o.GPU, Notice: o.Notice, Measuring: o.Measuring, Compiling: o.Compiling},
		Statistics: o.Statistics, Adapters: o.Adapters, Draft: o.Draft, Tower: o.Tower,
	}
	if o.Expect != nil {
		so.Expect = func(m engine.Memory, rate float64) { o.Expect(Memory(m), rate) }
	}
	return so, nil
}
