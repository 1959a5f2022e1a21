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

// Options say how a model is opened. The zero value is a good one.
type Options struct {
	Adapters   []Adapter // LoRA adapters
	Overrides  []string  // replaced metadata, each KEY=TYPE:VALUE as in llama.cpp's --override-kv
	Pooling    string    // how Embed pools the vectors of a text's tokens: mean, cls or last; empty: as the file says, or mean
	Statistics string    // a file of `powerinfer profile`, for a model without statistics of its neurons

	Limits  Limits     // tokens of context and of steps, and memory
	Cache   Cache      // how keys and values are kept
	CPU     CPU        // threads and kernels
	GPU     GPUs       // GPUs, and what they hold
	Neurons Neurons    // which neurons are computed
	Drafts  Drafts     // guesses of the next tokens
	Draft   DraftModel // another model that drafts them
	Tower   Tower      // the vision tower, for models that see pictures

	// Expect is called before weights are loaded, with the memory that they will take and the tokens per second that
	// memory bandwidth allows. rate is 0 if this machine was not measured. Expect may be nil.
	Expect func(m Memory, rate float64)

	Measuring func(done, total int64)           // progress of measuring the machine, which is done once; may be nil
	Compiling func(gpu string, done, total int) // shaders of a GPU compiled so far, on any goroutine; done once; may be nil
	Bundling  func(done, total int64)           // bytes written of the model's bundle of neurons, which is made once for neurons that stay on disk; may be nil
	Progress  func(done, total int64)           // bytes of weights loaded so far; may be nil
	Notice    func(string)                      // gets lines that a user should know, such as why a GPU is given up; may be nil
	Trace     *Trace                            // records what was computed when; may be nil
}

// The groups of Options.
type (
	// Limits say how many tokens a model has room for, and how much memory it takes.
	//
	//   - Context int: tokens of KV cache that all texts share; 0: as many as the model was trained for
	//   - Sequences int: texts that are generated at a time; others wait; 0: 1, or 8 in package powerinfer
	//   - Batch int: tokens of prompts handed in at a time; 0: 2048
	//   - UBatch int: tokens of the largest step; 0: 512
	//   - RAM *int64: bytes of RAM that the model may take in all; if it needs more, experts stay on the disk, or
	//     neurons of a prepared model; nil: the available RAM, less a reserve if weights stay on the disk
	//   - Mapped bool: compute on the mapped file instead of copying weights into memory
	//   - Lock bool: keep weights out of swap (mlock)
	Limits = engine.Limits
	// Cache says how keys and values are kept.
	//
	//   - Key, Value KVType
	//   - Whole bool: layers with sliding windows keep all keys and values, so that a text can be continued from any
	//     position
	//   - Extension Extension: lets texts be longer than the trained context; the zero value does not
	Cache = engine.Cache
	// CPU says how the CPU computes.
	//
	//   - Threads int: for generation; 0: physical cores, but for one where a GPU works, too
	//   - ThreadsBatch int: for prompts; 0: as Threads
	//   - Kernels string: for generation, which all give the same text: auto (measured while loading), usual, or a name
	//     that Note was told; empty: auto
	//   - Note func(line string): is told in a line for each type of weights which kernel was chosen; may be nil
	CPU = planner.Processor
	// GPUs says which GPUs compute, and what is placed there.
	//
	//   - Devices string: GPUs by name or number, separated by commas, or none; empty: all GPUs, or the best of other
	//     devices
	//   - VRAM []int64: bytes of memory to use, of each GPU or of all alike; nil: what is free, less a reserve
	//   - Layers *int: number of whole layers on GPUs, the last ones, the head counted as one; negative: all; nil:
	//     attention and hot neurons come first
	//   - Tensors []string: where tensors are stored, each PATTERN=BUFFER as an item of llama.cpp's --override-tensor;
	//     the first that matches a name holds
	//   - KVInRAM bool: keys and values stay in RAM, and attention is computed there, as with llama.cpp's
	//     --no-kv-offload
	//   - StreamTokens *int: length of a prompt's step from which on weights in RAM are sent to the GPU; 0: never; nil:
	//     where that is faster
	//   - MoECache *int64: bytes of GPU memory, at most, for experts that follow the text, which RAM holds, too, unless
	//     experts stay on the disk; 0: experts stay; nil: they follow where it should pay
	//   - ReadAhead *bool: whether the CPU reads neurons ahead while it waits for GPUs; nil: where the plan expects
	//     GPUs to wait for it
	GPUs = planner.GPUs
	// Neurons say which neurons of feed-forward layers are computed.
	//
	//   - Activation string: overrides the file's: silu, gelu, relu, fatrelu[:threshold], drelu, relu2
	//   - Sparse Sparse: which neurons are computed
	//   - Threshold *float32: logit from which a predicted neuron is computed; nil: the file's
	//   - AlwaysOn float64: share of a prepared file's neurons, the hottest of each layer, that mode predict computes
	//     for every token, if it is more than the file's
	//   - Bound Bound: Bound limits what leaving neurons out may change. Of the settings that `powerinfer prepare`
	//     measured and stored in the file, the fastest is taken with which 19 of 20 documents keep within a KL
	//     divergence of Bound.KLD from computing all neurons, in nats a token, and keep the likeliest token for at
	//     least a share Bound.SameTop of their tokens. If there is none, or nothing was measured, only neurons at zero
	//     are left out. In a model with experts that is larger than memory, experts are left out in the same way
	//     instead of being read from disk: see Skip. Notice is told what was chosen. The zero value bounds nothing,
	//     except that mode threshold then takes a KLD of 0.01.
	//   - Skip Skip: Skip says which experts may be left out instead of being read from disk, in place of what Bound
	//     chooses. Answers then depend on what is in RAM, and `powerinfer prepare --measure` says how far they may be
	//     from others.
	Neurons = model.Neurons
	// Skip is Neurons.Skip. It leaves out a token's experts after the After highest ranked whose weight is less than a
	// share Below of the token's weights, if they are not in RAM, in steps of generation.
	//
	//   - After int: experts of each token that always stay, the highest ranked, 1 or more; 0: all do
	//   - Below float32: others may be left out if their weight is less than this share of the sum of the token's
	//     weights
	//   - Always bool: they are left out wherever they are, in all steps: to measure what that changes at most. Only
	//     processors do so
	Skip = compute.Skip
	// Drafts are guesses of the next tokens, which are checked in one step. They change speed only.
	//
	//   - Most int: draft tokens of a text at a time, at most; 0: none. Package powerinfer takes 0 for DefaultDrafts, a
	//     negative number for none, and at most MostDrafts
	//   - NoLookup bool: takes no draft tokens from the text so far, only from the other sources that are asked for
	//   - Hot HotDrafts: Hot says whether the model's own hot neurons draft tokens, too. With GPUs that hold some of a
	//     layer's neurons, these neurons do. On the CPU alone, in modes exact and off, the neurons that the file's
	//     predictors choose do.
	//   - Further bool: Further lets the file's layer for multi-token prediction (MTP) draft tokens, in place of hot
	//     neurons. Files without such a layer are refused. The layer is on the GPU of the model's last layer if there
	//     is room, else in RAM. If RAM has no room for it, either, the model runs without it.
	//   - Least float32: a draft of a draft model, of hot neurons or of the MTP layer ends before a token with a
	//     smaller probability
	Drafts = engine.Drafts
	// DraftModel is a smaller model of the same vocabulary that guesses tokens, or a draft head, which reads the model's
	// hidden states.
	//
	//   - Path string: of the draft model's file; empty: the draft head next to the model's file, if there is one that
	//     fits
	//   - Off bool: no model drafts
	//   - Kinds []string: the architectures that a head may have; nil: any
	//   - Devices string: as GPUs.Devices; none keeps a head in RAM
	//   - Layers *int: as GPUs.Layers; 0 keeps a head in RAM
	DraftModel = session.Draft
	// Tower shows pictures to a model. It has a file of its own (mmproj).
	//
	//   - Path string: of the tower's file; empty: the one next to the model's, if there is one
	//   - Off bool: pictures are not shown
	//   - OnProcessor bool: the processor computes them, although a GPU could
	//   - Least, Most int: tokens of a picture, where the tower has a choice; 0: as files and families say
	Tower = session.Tower
)

// Adapter is a LoRA adapter in a GGUF file, and the factor of its effect; with 0 it is loaded and has no effect.
//
//   - Path string
//   - Scale float32
type Adapter = session.Adapter

// NoGPU is GPUs.Devices for the CPU alone.
const NoGPU = "none"

// Sparse is a value of Neurons.Sparse.
type Sparse = model.SparseMode

// The ways of computing feed-forward layers.
const (
	SparseAuto    = model.Auto    // chosen from the file: SparsePredict if its measured loss is negligible, SparseExact if activations are mostly zero, else SparseOff
	SparseOff     = model.Off     // all neurons
	SparseExact   = model.Exact   // neurons that are not zero; changes no result
	SparsePredict = model.Predict // neurons that the file's predictors choose

	// SparseMagnitude computes neurons whose activation is at least a threshold. `powerinfer prepare --sparse
	// threshold` finds the thresholds for SiLU and GELU. Neurons.Bound limits the loss.
	SparseMagnitude = model.Threshold
)

// ParseSparse reads a mode's name: auto, off, exact, predict or threshold.
func ParseSparse(name string) (Sparse, error) { return model.ParseSparseMode(name) }

// Bound is Neurons.Bound: how much leaving out neurons or experts may change.
//
//   - KLD float64: mean KL divergence of a document from dense, in nats a token, at most; 0: any
//   - SameTop float64: least share of a document's tokens with the same likeliest successor as dense; 0: any
type Bound = model.Bound

// KVType is the element type of cached keys or values.
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

// Extension is self-extension, llama.cpp's --grp-attn-n and --grp-attn-w. Whenever a text has Width more tokens, each
// Group of them shares a position from then on. No other text can reuse keys and values of such a text, so each turn of
// a conversation is evaluated from its beginning.
//
//   - Group int: tokens that share a position
//   - Width int: tokens that have positions of their own before they are grouped; a multiple of Group
type Extension = engine.Extension

// HotDrafts is a value of Drafts.Hot.
type HotDrafts = engine.HotDrafts

// The values. With HotAuto, hot neurons draft if GPUs hold some of a layer's neurons and the CPU computes all others
// that are not zero, not only predicted ones.
const (
	HotAuto   = engine.HotAuto
	HotAlways = engine.HotAlways
	HotNever  = engine.HotNever
)

// Defaults and bounds: each draft takes memory for rows of logits.
const (
	defaultSequences = 8  // the default of Limits.Sequences
	DefaultDrafts    = 16 // the default of Drafts.Most
	MostDrafts       = 64 // bounds Drafts.Most
)

// Trace records what each processor did when. A Trace is for one model.
type Trace struct{ log *trace.Log }

// NewTrace returns an empty trace. Its time begins now.
func NewTrace() *Trace { return &Trace{trace.New()} }

// Empty reports whether the trace has no spans.
func (t *Trace) Empty() bool { return t.log.Empty() }

// Dropped returns how many spans did not fit.
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
