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

// Sparse says which neurons of feed-forward layers are computed.
type Sparse string

// The ways of computing feed-forward layers.
const (
	SparseAuto    Sparse = "auto"    // SparsePredict if the file says that it costs nearly nothing, else SparseExact where neurons are zero and the file does not say that most are not, else SparseOff
	SparseOff     Sparse = "off"     // all neurons
	SparseExact   Sparse = "exact"   // those that are not zero, which changes no result
	SparsePredict Sparse = "predict" // those that the file's predictors choose

	// SparseMagnitude computes those whose activation is not nearly zero, by thresholds that `powerinfer prepare
	// --sparse threshold` found for SiLU and GELU; Options.MaxKLD and MinSameTop bound what that changes.
	SparseMagnitude Sparse = "threshold"
)

// NoGPU is Options.Devices for the processor alone.
const NoGPU = "none"

// Options are the choices made when a model is opened. The zero value is a good one.
type Options struct {
	Adapters   []Adapter // LoRA adapters, added to what the model's weights give
	Overrides  []string  // of metadata, each KEY=TYPE:VALUE as in llama.cpp's --override-kv
	Activation string    // overrides the file's: silu, gelu, relu, fatrelu[:threshold], drelu, relu2
	Pooling    string    // how Embed makes one vector of a text's: mean, cls or last; empty: as the file says, or mean

	Context     int       // tokens of KV cache that all generations share; 0: as many as the model was trained for
	Sequences   int       // generations computed at a time, others wait; 0: 8
	CacheKeys   string    // type in which keys are kept: f32, f16, bf16, q8_0 or q4_0; empty: f16
	CacheValues string    // the same of values
	WholeCache  bool      // layers with sliding windows keep all keys and values, so that a text may be continued from any of its positions
	Extension   Extension // lets texts be longer than those that the model was trained on; the zero value does not

	Batch        int    // tokens of prompts handed in at a time; 0: 2048
	UBatch       int    // tokens of the largest step; 0: 512
	Threads      int    // for generation; 0: the physical cores
	ThreadsBatch int    // for prompts; 0: Threads
	RAM          *int64 // bytes of RAM that the model may take in all: of one that takes more, experts stay on the disk, or neurons of a prepared model; nil: what is available, less a reserve where weights stay there
	Mapped       bool   // compute on the mapped file instead of copying weights into memory
	Lock         bool   // keep weights out of swap
	Kernels      string // the processor's kernels for generation, which all give the same text: auto (measured while loading), usual, or a name that Chosen was told; empty: auto

	Devices      string   // GPUs by name or number, separated by commas, or NoGPU; empty: all GPUs, or the best of other devices
	VRAM         []int64  // bytes of memory to use, of each GPU or of all alike; nil: what is free, less a reserve
	GPULayers    *int     // number of whole layers on GPUs, the last ones; negative: all; nil: attention and hot neurons come first
	Tensors      []string // where tensors lie, each PATTERN=BUFFER as an item of llama.cpp's --override-tensor; the first that matches a name holds
	KVInRAM      bool     // keys and values stay in RAM, and attention is computed there, as with llama.cpp's --no-kv-offload
	StreamTokens *int     // length of a prompt's step from which on weights in RAM are sent to the GPU; 0: never; nil: where that is faster
	MoECache     *int64   // bytes of GPU memory, at most, for experts that follow the text, all of which RAM then holds, too; 0: experts stay where they are; nil: they follow where that should pay
	ReadAhead    *bool    // whether the processor reads neurons ahead while it waits for GPUs; nil: where the plan expects GPUs to wait for it

	Sparse          Sparse   // which neurons are computed; empty: SparseAuto
	SparseThreshold *float32 // logit from which a predicted neuron is computed; nil: the file's
	AlwaysOn        float64  // share of a prepared file's neurons, the hottest of each layer, that SparsePredict computes for every token, where it is more than the file's
	Statistics      string   // a file of `powerinfer profile`, for a model that holds no statistics of its neurons

	// LeaveOut says which experts of a model that is larger than memory may be left out in place of MaxKLD and MinSameTop.
	LeaveOut LeaveOut

	// MaxKLD and MinSameTop bound what leaving neurons out may change. Of the settings that `powerinfer prepare`
	// measured and stored in the file, the fastest is taken with which 19 of 20 documents keep within a KL divergence
	// of MaxKLD from computing all neurons, in nats a token, and keep the likeliest token for at least a share
	// MinSameTop of their tokens. If there is none, or nothing was measured, only neurons at zero are left out. Of a model
	// with experts that is larger than memory, experts are left out in the same way instead of being read from disk: see
	// LeaveOut. Notice is told what was chosen. Where both are 0 nothing is bounded, except that SparseMagnitude then takes a MaxKLD of
	// 0.01.
	MaxKLD, MinSameTop float64

	// Guesses of the next tokens, which are checked in one step. They change speed only.
	Drafts   int        // tokens that are guessed at a time, at most MostDrafts; 0: DefaultDrafts; negative: none
	NoLookup bool       // takes no guesses from the text so far, only from the other ways that are asked for
	Draft    DraftModel // guesses tokens where the text so far offers no guess

	// HotDrafts says whether the model's own hot neurons guess tokens, too. With GPUs that hold some of a layer's
	// neurons, these guess; on the processor alone, with SparseExact or SparseOff, those that the file's predictors
	// choose. Guesses end at Draft.Least, which may be set without a draft model.
	HotDrafts HotDrafts

	// FurtherDrafts lets the file's layer for multi-token prediction guess tokens, in place of HotDrafts. Guesses end
	// at Draft.Least. Files without such a layer are refused. The layer is on the GPU of the model's last layer where
	// there is room, else in RAM; if RAM has no room for it, either, the model runs without it.
	FurtherDrafts bool

	// Pictures are shown by a tower, which has a file of its own (mmproj).
	Tower                                 string // its path; empty: the one beside the model's file, if there is one
	NoTower                               bool   // none is loaded
	TowerInRAM                            bool   // the processor computes pictures, although a GPU has room for the tower
	LeastPictureTokens, MostPictureTokens int    // of a picture, where the tower has a choice; 0: as the model was published

	// Expect is told, before weights are loaded, how much memory that will take, and how many tokens per second can be
	// expected if memory limits them; rate is 0 if this machine was not measured. It may be nil.
	Expect func(m Memory, rate float64)

	Measuring func(done, total int64)           // is told how far measuring the machine is, which is done once; may be nil
	Compiling func(gpu string, done, total int) // is told how many shaders of a GPU are compiled, which is done once, on any goroutine; may be nil
	Bundling  func(done, total int64)           // is told how many bytes of a model's file of neurons are written, which is done once where neurons stay on the disk; may be nil
	Progress  func(done, total int64)           // is told how many bytes of weights are loaded; may be nil
	Notice    func(string)                      // is told in a line what a user should know, such as why a GPU is given up; may be nil
	Chosen    func(string)                      // is told in a line for each type of weights which kernel was chosen; may be nil
	Trace     *Trace                            // keeps what was computed when; may be nil
}

// Adapter is a LoRA adapter in a GGUF file, and the factor of its effect; with 0 it is loaded and has no effect.
type Adapter struct {
	Path  string
	Scale float32
}

// Extension is self-extension, llama.cpp's --grp-attn-n and --grp-attn-w: whenever Width more tokens of a text are
// there, each Group of them shares a position from then on. Keys and values of such a text serve no other, so each turn
// of a conversation is evaluated from its beginning.
type Extension struct {
	Group int // tokens that share a position; 1 or 0: none do
	Width int // a multiple of Group
}

// defaultSequences is the default of Options.Sequences.
const defaultSequences = 8

// HotDrafts is a value of Options.HotDrafts.
type HotDrafts int

// The values. With HotAuto, hot neurons guess where GPUs hold some of a layer's neurons and the processor computes all
// others that are not zero, not only predicted ones.
const (
	HotAuto   = HotDrafts(engine.HotAuto)
	HotAlways = HotDrafts(engine.HotAlways)
	HotNever  = HotDrafts(engine.HotNever)
)

// LeaveOut says which experts of a token may be left out of a model that is larger than memory, so that they are not read
// from disk: those after the After highest ranked whose weight is less than a share Below of the token's weights, if they
// are not in RAM, in steps of generation. The zero value leaves out none. The answers then depend on what is in RAM, and
// `powerinfer prepare --measure` says how far they may be from others.
type LeaveOut struct {
	After int     // 1 or more, and less than the experts of a token
	Below float64 // above 0, up to 1
}

// DraftModel is a smaller model of the same vocabulary whose likeliest tokens serve as guesses: see Options.Drafts.
type DraftModel struct {
	Path      string  // empty: there is none
	Devices   string  // as Options.Devices
	GPULayers *int    // as Options.GPULayers
	Least     float32 // guesses end before a token that has a smaller probability
}

// DefaultDrafts is the default of Options.Drafts, and MostDrafts its bound: each draft takes memory for rows of logits.
const (
	DefaultDrafts = 16
	MostDrafts    = 64
)

func (o *Options) drafts() int {
	if o.Drafts == 0 {
		return DefaultDrafts
	}
	return min(max(0, o.Drafts), MostDrafts)
}

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

// session returns the options in the engine's and the planner's terms.
func (o *Options) session() (session.Options, error) {
	for _, f := range []struct {
		name  string
		value int
	}{{"Context", o.Context}, {"Sequences", o.Sequences}, {"Batch", o.Batch}, {"UBatch", o.UBatch}, {"Threads", o.Threads}, {"ThreadsBatch", o.ThreadsBatch}, {"LeastPictureTokens", o.LeastPictureTokens}, {"MostPictureTokens", o.MostPictureTokens}} {
		if f.value < 0 {
			return session.Options{}, fmt.Errorf("the field Options.%s is %d; give a positive number, or 0 for the default", f.name, f.value)
		}
	}
	switch engine.Pooling(o.Pooling) {
	case "", engine.PoolMean, engine.PoolCLS, engine.PoolLast:
	default:
		return session.Options{}, fmt.Errorf("there is no pooling %q; Options.Pooling may be mean, cls or last", o.Pooling)
	}
	mode, err := o.sparseMode()
	if err != nil {
		return session.Options{}, err
	}
	types, err := o.cacheTypes()
	if err != nil {
		return session.Options{}, err
	}
	sequences := o.Sequences
	if sequences == 0 {
		sequences = defaultSequences
	}
	e := engine.Options{
		Context: o.Context, Batch: o.Batch, UBatch: o.UBatch, Outputs: sequences, Drafts: o.drafts(), NoLookup: o.NoLookup, HotDrafts: engine.HotDrafts(o.HotDrafts), Further: o.FurtherDrafts, LeastHot: o.Draft.Least, NoRepack: o.Mapped, RAM: o.RAM, Lock: o.Lock,
		Activation: o.Activation, Threshold: o.SparseThreshold, AlwaysOn: o.AlwaysOn, Skip: compute.Skip{After: o.LeaveOut.After, Below: float32(o.LeaveOut.Below)}, Sparse: mode, Bound: model.Bound{KLD: o.MaxKLD, SameTop: o.MinSameTop}, Progress: o.Progress, Bundling: o.Bundling, CacheTypes: types, WholeCache: o.WholeCache,
		Extension: engine.Extension(o.Extension),
	}
	if o.Trace != nil {
		e.Trace = o.Trace.log
	}
	so := session.Options{Engine: e, Planner: o.planner(), Statistics: o.Statistics}
	if o.Expect != nil {
		so.Expect = func(m engine.Memory, rate float64) { o.Expect(Memory(m), rate) }
	}
	if d := o.Draft; d.Path != "" {
		so.Draft = &session.Draft{Path: d.Path, Least: d.Least, Device: d.Devices, Layers: d.GPULayers}
	}
	so.Tower = session.Tower{Path: o.Tower, Off: o.NoTower, OnProcessor: o.TowerInRAM, Least: o.LeastPictureTokens, Most: o.MostPictureTokens}
	for _, a := range o.Adapters {
		so.Adapters = append(so.Adapters, session.Adapter(a))
	}
	return so, nil
}

func (o *Options) planner() planner.Options {
	return planner.Options{
		Processor: planner.Processor{Threads: o.Threads, ThreadsBatch: o.ThreadsBatch, Lock: o.Lock, Kernels: o.Kernels, Note: o.Chosen},
		Device:    o.Devices, Budgets: o.VRAM, Layers: o.GPULayers, Tensors: o.Tensors, KVInRAM: o.KVInRAM, StreamTokens: o.StreamTokens, ReadAhead: o.ReadAhead, MoECache: o.MoECache,
		Notice: o.Notice, Measuring: o.Measuring, Compiling: o.Compiling,
	}
}

func (o *Options) cacheTypes() (types compute.CacheTypes, err error) {
	if o.CacheKeys != "" {
		if types.Key, err = compute.ParseKVType(o.CacheKeys); err != nil {
			return types, err
		}
	}
	if o.CacheValues != "" {
		types.Value, err = compute.ParseKVType(o.CacheValues)
	}
	return types, err
}

func (o *Options) sparseMode() (model.SparseMode, error) {
	name := o.Sparse
	if name == "" {
		name = SparseAuto
	}
	return model.ParseSparseMode(string(name))
}
