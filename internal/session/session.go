// Package session opens a model on this machine: its file, the statistics of its neurons, the plan of where it lies,
// and the engine.
package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// Options are the choices made when a model is opened. Zero values mean defaults.
type Options struct {
	Engine     engine.Options  // Devices and Order are set by Open
	Planner    planner.Options // Model and Trace are set by Open
	Statistics string          // the file that profile wrote, for a model that holds no statistics
	Adapters   []Adapter       // Engine.Adapters is set by Open
	Draft      Draft           // guesses tokens
	Tower      Tower           // shows the model pictures

	// Expect is told before loading what that will take of memory, and how many tokens per second are then expected;
	// rate is 0 where nothing is known of it. It may be nil.
	Expect func(m engine.Memory, rate float64)
}

// Draft is a smaller model of the same vocabulary, or a draft head, which reads the model's hidden states. It guesses
// tokens where the text so far offers no guess. A model is loaded first, with the same context, and has a device to
// itself or shares the other's; a head is computed where the model's last layer is.
type Draft struct {
	Path    string   // of the draft model's file; empty: the draft head next to the model's file, if there is one that fits
	Off     bool     // no model drafts
	Kinds   []string // the architectures that a head may have; nil: any
	Devices string   // as GPUs.Devices; none keeps a head in RAM
	Layers  *int     // as GPUs.Layers; 0 keeps a head in RAM
}

// Adapter is a LoRA adapter in a GGUF file, and the factor of its effect; with 0 it is loaded and has no effect.
type Adapter struct {
	Path  string
	Scale float32
}

// Session is an open model.
type Session struct {
	*engine.Engine
	adapters []*gguf.File
	draft    *Session      // nil: none
	head     *gguf.File    // of a draft head; nil: none
	tower    *vision.Tower // nil: none
	found    bool          // a draft head was found beside the model, not named
	beside   Need          // memory of the draft model and the tower
	sampling sample.Options
	File     *gguf.File
	Planner  *planner.Planner
}

// Sampling returns how tokens are chosen where nobody says otherwise: as the model's file advises, else by the
// defaults.
func (s *Session) Sampling() sample.Options {
	o := s.sampling
	o.Samplers, o.DRY.Breakers = slices.Clone(o.Samplers), slices.Clone(o.DRY.Breakers)
	return o
}

// Open opens the engine for the model in f, which stays the caller's until Open succeeds: then Close closes both.
func Open(ctx context.Context, f *gguf.File, o Options) (*Session, error) {
	s := &Session{File: f}
	if err := fault.Guard(func() error { return s.open(ctx, o) }); err != nil {
		return nil, errors.Join(err, s.closeAdapters(), s.closeDraft(), s.closeHead(), s.closeTower())
	}
	return s, nil
}

// open opens the adapters' files and the engine.
func (s *Session) open(ctx context.Context, o Options) error {
	o.Planner.Lock = o.Engine.Lock
	for _, a := range o.Adapters {
		file, err := gguf.Open(a.Path)
		if err != nil {
			return err
		}
		s.adapters = append(s.adapters, file)
		o.Engine.Adapters = append(o.Engine.Adapters, model.Adapter{File: file, Scale: a.Scale})
	}
	if err := s.openTower(ctx, &o); err != nil {
		return err
	}
	if err := s.openDraft(ctx, &o); err != nil {
		return err
	}
	err := s.openEngine(ctx, o)
	if head := (*model.HeadError)(nil); s.found && errors.As(err, &head) {
		if err = s.dropHead(&o, head.Error()); err == nil {
			err = s.openEngine(ctx, o)
		}
	}
	if err != nil {
		return err
	}
	sampling, _, notes := FileSampling(s.File, s.Context())
	s.sampling = sampling
	notes = slices.Concat(notes, s.File.Notes, []string{s.Config().Chosen, s.Tokenizer().Note()})
	for _, line := range notes {
		if line != "" && o.Planner.Notice != nil {
			o.Planner.Notice(line)
		}
	}
	return nil
}

// openEngine plans where the model is computed, and opens the engine.
func (s *Session) openEngine(ctx context.Context, o Options) (err error) {
	var cut, with int
	s.Planner, cut, with, err = o.planWithHead(ctx, s.File, s.found, o.Engine.Room())
	if err == nil && with > 0 {
		err = s.dropHead(&o, fmt.Sprintf("with it, memory has room for a context of %d tokens", with))
	}
	if err != nil {
		return err
	}
	if cut > 0 && o.Planner.Notice != nil {
		o.Planner.Notice(fmt.Sprintf("the context has %d tokens, fewer than the model's own, because memory has no room for more", cut))
	}
	o.Engine.Devices, o.Engine.Notice = s.Planner, o.Planner.Notice
	o.Engine.Disk = planner.SpeedsOf(s.File.Path)
	if o.Expect != nil {
		o.Engine.Expect = func(m engine.Memory) { o.Expect(s.withBeside(m), s.Planner.Rate()) }
	}
	s.Engine, err = engine.Open(ctx, s.File, o.Engine)
	return err
}

// withBeside returns m with what was opened before the model.
func (s *Session) withBeside(m engine.Memory) engine.Memory {
	m.Beside = s.beside.RAM
	m.Need += s.beside.RAM
	m.OnGPUs += s.beside.GPU
	if m.Available > 0 {
		m.Available += s.beside.RAM
	}
	return m
}

// openDraft opens the draft model, if there is one, before the other takes what is left of the GPUs.
func (s *Session) openDraft(ctx context.Context, o *Options) error {
	d := o.Draft
	switch {
	case o.Engine.Drafts.Most == 0:
		return nil
	case d.Path == "":
		return s.findHead(o)
	}
	f, err := gguf.Open(d.Path)
	if err != nil {
		return err
	}
	if isHead(f) {
		return s.openHead(f, o)
	}
	if err := d.wants(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if s.draft, err = Open(ctx, f, o.ofDraft()); err != nil {
		return errors.Join(err, f.Close())
	}
	o.Engine.DraftModel = engine.DraftModel{Engine: s.draft.Engine, Least: o.Engine.Drafts.Least}
	need := s.draft.Takes()
	s.beside.add(need)
	o.spend(need.RAM)
	return nil
}

// ofDraft returns the options with which the draft model is opened.
func (o *Options) ofDraft() Options {
	e, p := o.Engine, o.Planner
	e.Drafts.Most, e.Adapters, e.Sparse, e.Activation, e.Threshold, e.Magnitudes, e.Bound, e.AlwaysOn, e.Skip, e.Predicting, e.Trace = 0, nil, model.Auto, "", nil, nil, model.Bound{}, 0, compute.Skip{}, nil, nil
	p.Devices, p.Layers, p.Tensors, p.Processor.Note = o.Draft.Devices, o.Draft.Layers, nil, nil
	return Options{Engine: e, Planner: p, Tower: Tower{Off: true}}
}

// needOfDraft returns the memory of the draft model for the model in f. If there is a draft head instead, it sets o to use
// it and returns its file, which the caller closes; the model's own need then includes it. found reports whether the head
// was found beside the model.
func (o *Options) needOfDraft(ctx context.Context, f *gguf.File) (n Need, head *gguf.File, found bool, err error) {
	if o.Draft.Path == "" || o.Engine.Drafts.Most == 0 {
		if head, _ = o.headBeside(f); head != nil {
			o.takeHead(head)
		}
		return n, head, head != nil, nil
	}
	file, err := gguf.Open(o.Draft.Path)
	if err != nil {
		return n, nil, false, err
	}
	if isHead(file) {
		o.takeHead(file)
		return n, file, false, nil
	}
	defer file.Close()
	n, err = NeedOf(ctx, file, o.ofDraft())
	return n, nil, false, err
}

// spend subtracts the bytes that something other than the model takes of RAM from the model's budget, if there is one.
func (o *Options) spend(bytes int64) {
	if o.Engine.RAM != nil {
		left := max(0, *o.Engine.RAM-bytes)
		o.Engine.RAM = &left
	}
}

func (s *Session) closeDraft() error {
	if s.draft == nil {
		return nil
	}
	return s.draft.Close()
}

func (s *Session) closeAdapters() error {
	var failed []error
	for _, f := range s.adapters {
		failed = append(failed, f.Close())
	}
	return errors.Join(failed...)
}

// Plan returns what Open would have the model in f computed on.
func Plan(ctx context.Context, f *gguf.File, o Options) (*planner.Planner, error) {
	p, err := o.plan(ctx, f)
	if err != nil {
		return nil, err
	}
	return o.planLongSteps(ctx, f, p, o.Engine.Room())
}

// Need is the memory that a model takes or would take, in bytes.
type Need struct {
	RAM    int64 // weights, KV cache, activations and what the process itself takes
	Least  int64 // of RAM, that the model can do with: less than RAM where experts may stay on the disk
	GPU    int64 // weights and KV cache that are planned for GPUs with what is free of their memory
	Wanted int64 // that GPUs would hold if they had room for all; 0 where none is used
}

// add adds what something beside the model takes.
func (n *Need) add(m Need) {
	n.RAM, n.Least, n.GPU = n.RAM+m.RAM, n.Least+m.Least, n.GPU+m.GPU
}

// Takes returns the planned memory of the model, its draft model and its tower, in RAM and on GPUs.
func (s *Session) Takes() Need {
	m := s.Memory()
	n := Need{RAM: m.Need, Least: m.Need, GPU: m.OnGPUs}
	n.add(s.beside)
	return n
}

// NeedOf returns what opening the model in f takes now, of which nothing is opened. A context that nobody asked for is
// cut to what the machine has room for when nothing else runs on it.
func NeedOf(ctx context.Context, f *gguf.File, o Options) (Need, error) {
	var n Need
	room := engine.Room{Whole: math.MaxInt64, OnDisk: math.MaxInt64}
	if memory, err := hw.ReadMemory(); err == nil {
		room = engine.RoomIn(int64(memory.Total-memory.Total/8), o.Engine.RAM)
	}
	onGPU, inRAM, err := o.needOfTower(f)
	if err != nil {
		return n, err
	}
	beside, head, found, err := o.needOfDraft(ctx, f)
	if err != nil {
		return n, err
	}
	if head != nil {
		defer head.Close()
	}
	beside.add(Need{RAM: inRAM, Least: inRAM, GPU: onGPU})
	devices, _, _, err := o.planWithHead(ctx, f, found, room)
	if err != nil {
		return n, err
	}
	plan, err := devices.Plan()
	if err != nil {
		return n, err
	}
	on := plan.Layout()
	n.GPU = on.Bytes
	m, err := o.Engine.Least(f, on)
	if err != nil {
		return n, err
	}
	if n.RAM, err = o.Engine.Memory(f, on); err != nil {
		return n, err
	}
	n.Least = m.Need
	n.add(beside)
	if o.Engine.RAM != nil { // what is more stays on the disk
		n.RAM = min(n.RAM, max(n.Least, *o.Engine.RAM))
	}
	if plan == nil {
		return n, nil
	}
	plan = nil // all in RAM
	n.Wanted, err = o.Engine.Memory(f, plan.Layout())
	return n, err
}

// leastContext is the length to which a context is cut at most, in tokens.
const leastContext = 4096

// cacheShare is the largest share of the room that keys and values take if experts stay on the disk and nobody asked for a
// context.
const cacheShare = 1. / 8

// planFitting plans for the context that is asked for. Where none is, it is the model's own, or halves of that down to
// leastContext where what the plan leaves in RAM has no room. cut is the length then, else 0. Where even leastContext
// has no room for the whole model and its experts may stay on the disk, the context takes a small share of the room.
func (o *Options) planFitting(ctx context.Context, f *gguf.File, room engine.Room) (p *planner.Planner, cut int, err error) {
	p, err = o.plan(ctx, f)
	if err != nil || o.Engine.Context != 0 {
		return p, 0, err
	}
	c, err := model.ReadConfig(f, o.Engine.Activation)
	if err != nil {
		return nil, 0, err
	}
	for length := c.Context; length > leastContext; {
		plan, err := p.Plan()
		if err != nil {
			return nil, 0, err
		}
		need, err := o.Engine.Memory(f, plan.Layout())
		if err != nil || need <= room.Whole {
			return p, cut, err
		}
		length = max(length/2, leastContext)
		cut, o.Engine.Context = length, length
		if p, err = o.plan(ctx, f); err != nil {
			return nil, 0, err
		}
	}
	if cut == 0 {
		return p, 0, nil
	}
	if cut, err = o.contextOnDisk(f, p, room, c.Context); err != nil || cut == leastContext {
		return p, cut, err
	}
	if o.Engine.Context = cut; cut == c.Context {
		cut = 0
	}
	p, err = o.plan(ctx, f)
	return p, cut, err
}

// contextOnDisk returns the context of a model that was planned for leastContext tokens. It is leastContext, unless the
// whole model has no room even so and its experts stay on the disk: then it is the model's own context, halved until keys
// and values take at most cacheShare of the room.
func (o *Options) contextOnDisk(f *gguf.File, p *planner.Planner, room engine.Room, own int) (int, error) {
	plan, err := p.Plan()
	if err != nil {
		return 0, err
	}
	on := plan.Layout()
	whole, err := o.Engine.Memory(f, on)
	if err != nil || whole <= room.Whole {
		return leastContext, err
	}
	for length := own; length > leastContext; length /= 2 {
		with := o.Engine
		with.Context = length
		m, err := with.Least(f, on)
		if err != nil {
			return 0, err
		}
		if m.OnDisk > 0 && m.Need <= room.OnDisk && float64(m.Cache) <= cacheShare*float64(room.OnDisk) {
			return length, nil
		}
	}
	return leastContext, nil
}

// plan chooses what the model in f is computed on, and in which order its neurons lie.
func (o *Options) plan(ctx context.Context, f *gguf.File) (*planner.Planner, error) {
	stats, err := Statistics(f, o.Statistics, o.Engine.Activation)
	if err != nil {
		return nil, err
	}
	e, p := &o.Engine, &o.Planner
	if e.UBatch == 0 {
		c, err := model.ReadConfig(f, e.Activation)
		if err != nil {
			return nil, err
		}
		if c.Later { // a text must lie in one step
			e.UBatch = engine.UsualBatch
		}
	}
	if stats != nil {
		e.Order = stats.Order()
	}
	p.Trace = e.Trace
	p.Lock = e.Lock
	p.Model = modelcost.Options{
		Context: e.Context, UBatch: e.LargestStep(), Outputs: e.Sequences, Drafts: e.DraftRows(), Further: e.GuessesFurther(), Head: e.Head, Neurons: e.Neurons, CacheTypes: e.CacheTypes, WholeCache: e.Cache.Whole, Adapters: e.Adapters,
		Law: modelcost.UsualLaw(), Stats: stats,
	}
	least, err := e.Least(f, placement.Layout{})
	if err != nil {
		return nil, err
	}
	room := e.Room()
	loaded := *e
	p.RAM = planner.RAM{
		Whole: room.Whole, OnDisk: room.OnDisk, Beside: least.Activations + least.Process + least.Reading, Mapped: e.Mapped,
		Fits: func(on placement.Layout) bool { return loaded.Fits(f, on, room.Whole) },
	}
	return planner.New(ctx, f, *p)
}

// Close frees the model and closes its file.
func (s *Session) Close() error {
	return errors.Join(s.Engine.Close(), s.closeTower(), s.closeDraft(), s.closeHead(), s.closeAdapters(), s.File.Close())
}

// Override replaces keys of f's metadata: each is KEY=TYPE:VALUE with a type of int, float, bool or str, as llama.cpp's
// --override-kv. A key that begins with ARCH has the file's architecture in its place.
func Override(f *gguf.File, overrides []string) error {
	for _, o := range overrides {
		key, rest, ok1 := strings.Cut(o, "=")
		typ, value, ok2 := strings.Cut(rest, ":")
		if !ok1 || !ok2 || key == "" {
			return setting.Errorf("%s %q is not KEY=TYPE:VALUE with a type of int, float, bool or str", setting.Setting("--override-kv|Options.Overrides"), o)
		}
		if rest, ok := strings.CutPrefix(key, "ARCH."); ok {
			arch, _, err := f.String("general.architecture")
			if err != nil {
				return err
			}
			key = arch + "." + rest
		}
		if err := f.Override(key, typ, value); err != nil {
			return err
		}
	}
	return nil
}

// Vocabulary returns the tokens of tok as grammars take them.
func Vocabulary(tok *tokenizer.Tokenizer) (*grammar.Vocabulary, error) {
	pieces := make([][]byte, tok.Size())
	var ends []int32
	special := map[string]int32{}
	for id := range int32(tok.Size()) {
		pieces[id] = tok.Piece(id, false)
		if tok.IsEOG(id) {
			ends = append(ends, id)
		}
		if len(pieces[id]) == 0 {
			special[tok.Text(id)] = id
		}
	}
	return grammar.NewVocabulary(pieces, ends, special)
}

// Of returns the session of a *powerinfer.Model. Package powerinfer, whose users do not see sessions, sets it when the
// program starts, so that other packages of this module can take its models.
var Of func(model any) *Session

// OptionsOf returns what a *powerinfer.Options says. Package powerinfer sets it, like Of.
var OptionsOf func(options any) (Options, error)
