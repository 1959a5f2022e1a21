package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Memory holds the bytes of a machine's memory that a model is expected to take, before anything is loaded.
type Memory struct {
	Weights     int64 // weights in RAM, without weights in the mapped file or on the disk
	Units       int64 // in RAM: room for experts or neurons that stay on the disk
	Reading     int64 // RAM for buffers of reads from the disk, lists of neurons, and the system's own memory for the process
	Sending     int64 // RAM that weights pass through on their way to GPUs while texts are computed
	Cache       int64 // keys, values and states in RAM
	Activations int64 // activations of the largest step, and its rows of logits
	Process     int64 // the program itself, garbage of the vocabulary, and sampling
	Beside      int64 // RAM of a draft model and of what shows pictures; only told
	Need        int64 // RAM in all: the sum
	Available   int64 // RAM available; 0: unknown
	Budget      int64 // RAM that may be used; math.MaxInt64: no bound is known
	OnGPUs      int64 // weights and cache in the memory of GPUs
	OnDisk      int64 // experts or neurons that stay on the disk; Units has room for some of them. 0: nothing stays there
}

// fits reports whether the model may take this memory.
func (m *Memory) fits() bool { return m.Need <= m.Budget }

// add makes Need the sum.
func (m *Memory) add() {
	m.Need = m.Weights + m.Units + m.Reading + m.Sending + m.Cache + m.Activations + m.Process + m.Beside
}

// Parts names the sum and its parts, rounded so that the parts add up to the sum.
func (m *Memory) Parts() string {
	unit, name, digits := int64(1<<20), "MiB", 0
	if m.Need >= 10<<30 {
		unit, name, digits = 1<<30/10, "GiB", 1
	}
	sum := int64(0)
	text := func(n int64) string {
		n = (n + unit/2) / unit
		if digits == 0 {
			return fmt.Sprint(n)
		}
		return fmt.Sprintf("%d.%d", n/10, n%10)
	}
	part := func(n int64) string {
		sum += (n + unit/2) / unit * unit
		return text(n)
	}
	parts := "weights " + part(m.Weights)
	if m.OnDisk > 0 || m.Reading > 0 {
		parts += ", weights from the disk " + part(m.Units+m.Reading)
	}
	if m.Sending > 0 {
		parts += ", weights for GPUs " + part(m.Sending)
	}
	parts += fmt.Sprintf(", KV cache %s, activations %s, the program %s", part(m.Cache), part(m.Activations), part(m.Process))
	if m.Beside > 0 {
		parts += ", drafts and pictures " + part(m.Beside)
	}
	return fmt.Sprintf("%s %s (%s)", text(sum), name, parts)
}

// bytesText writes a number of bytes in the unit that Parts would take for it.
func bytesText(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// inGiB writes at least n bytes.
func inGiB(n int64) string { return fmt.Sprintf("%.2f GiB", math.Ceil(float64(n)/(1<<30)*100)/100) }

// MemoryError means that a model does not fit into memory.
type MemoryError struct {
	File string
	Memory
	Advice error // a change that would make it fit
}

func (e *MemoryError) Error() string { return e.Text(setting.Flags) }

// Text implements setting.Namer.
func (e *MemoryError) Text(n setting.Names) string {
	needs := "the model needs"
	if e.OnDisk > 0 {
		needs = "with weights on the disk the model needs at least"
	}
	if e.Budget == e.Available {
		return setting.Sprintf(n, "%s: %s %s of memory, and %s are available; %s", e.File, needs, e.Parts(), bytesText(e.Available), e.Advice)
	}
	return setting.Sprintf(n, "%s: %s %s of memory, and %s may be used; %s", e.File, needs, e.Parts(), bytesText(e.Budget), e.Advice)
}

// Memory of the program itself, measured on Linux with models of 9, 272 and 651 MB: the binary's own heap, stacks and
// caches; bytes for each text of the vocabulary, because the heap doubles before garbage is collected; and bytes for
// each token of the vocabulary that one sequence's sampling takes.
const (
	programBytes = 16 << 20
	textBytes    = 128
	sampledBytes = 16
)

// Memory returns the bytes of RAM that opening the model in f takes, with the parts in on on GPUs and all others in
// RAM.
func (o *Options) Memory(f *gguf.File, on placement.Layout) (int64, error) {
	c, err := o.config(f)
	if err != nil {
		return 0, err
	}
	return o.needs(f, c, on).Need, nil
}

// Least returns the least memory for opening the model in f, with the parts in on on GPUs, and with experts or neurons
// on the disk if they may stay there.
func (o *Options) Least(f *gguf.File, on placement.Layout) (Memory, error) {
	c, err := o.config(f)
	if err != nil {
		return Memory{}, err
	}
	return o.least(f, c, on), nil
}

// Fits reports whether the model in f fits into room bytes with the parts in on on GPUs, if need be without the MTP
// layer. A model that cannot be read fits: opening it reports the error.
func (o *Options) Fits(f *gguf.File, on placement.Layout, room int64) bool {
	c, err := o.config(f)
	if err != nil {
		return true
	}
	need := o.needs(f, c, on).Need
	if c.FurtherCached && !on.Further() {
		c.FurtherCached = false
		need = min(need, o.needs(f, c, on).Need)
	}
	return need <= room
}

// config returns the configuration in the header of f.
func (o *Options) config(f *gguf.File) (model.Config, error) {
	c, err := model.ReadConfig(f, o.Activation)
	c.FurtherCached = o.GuessesFurther()
	if err == nil && c.FurtherCached {
		err = c.TakeHead(f, o.Head)
	}
	if err == nil {
		mo := o.model()
		_ = c.Settle(&mo) // loading reports the error
	}
	return c, err
}

// readMemory is hw.ReadMemory; tests have other machines.
var readMemory = hw.ReadMemory

// Room is the RAM that a model may take, in bytes; math.MaxInt64: no bound is known.
type Room struct {
	Whole  int64 // with all of the model in memory
	OnDisk int64 // with experts or neurons on the disk
}

// diskShare is the share of the available memory that a model with weights on the disk takes without a budget. Without
// this limit it would take all.
const diskShare = 0.94

// RoomIn returns the room for a model if available bytes are free and it may take budget bytes of them; nil: no budget.
func RoomIn(available int64, budget *int64) Room {
	if budget != nil {
		n := min(available, *budget)
		return Room{n, n}
	}
	return Room{available, int64(diskShare * float64(available))}
}

// Room returns the room for the model now.
func (o *Options) Room() Room {
	r, _ := o.room()
	return r
}

// room is Room, with the available memory; 0: unknown.
func (o *Options) room() (r Room, available int64) {
	if free, err := readMemory(); err == nil && free.Available > 0 {
		available = int64(free.Available)
	}
	return RoomIn(cmp.Or(available, math.MaxInt64), o.RAM), available
}

// memory returns the memory of the model in f with the parts in on on GPUs: with all of the model in memory if that
// fits, else with experts or neurons on the disk if they may stay there.
func (o *Options) memory(f *gguf.File, c model.Config, on placement.Layout) Memory {
	room, available := o.room()
	m := o.memoryIn(f, c, on, room)
	m.Available = available
	return m
}

// memoryIn is memory in a room. It leaves out what is available.
func (o *Options) memoryIn(f *gguf.File, c model.Config, on placement.Layout, room Room) Memory {
	m := o.needs(f, c, on)
	if m.Budget = room.Whole; m.fits() || !o.canStay(f, c) {
		return m
	}
	least := o.least(f, c, on)
	if least.OnDisk == 0 { // with units on the disk it would take more
		return m
	}
	m = least
	m.Budget = room.OnDisk
	m.grow(unitsOf(f, c, on).all())
	return m
}

// needs returns the memory that the model takes with all of it in memory. It leaves out what is available.
func (o *Options) needs(f *gguf.File, c model.Config, on placement.Layout) Memory {
	return o.needsWith(f, c, on, false)
}

// needsWith is needs if onDisk is false. Otherwise experts or neurons are on the disk, and RAM has no room for them.
func (o *Options) needsWith(f *gguf.File, c model.Config, on placement.Layout, onDisk bool) Memory {
	m := Memory{OnGPUs: on.Bytes, Sending: on.Staged}
	for _, t := range f.Tensors {
		if _, loaded := c.Purpose(t.Name); !loaded || onDisk && stays(&c, t) {
			continue
		}
		m.Weights += o.loadedBytes(f, &c, t, on)
	}
	if !o.Mapped {
		for _, t := range c.HeadTensors() {
			m.Weights += layout.InHugePages(c.HeadInRAM(t, layout.Packed(t.Type, t.Bytes()), on.Places))
		}
	}
	for _, a := range o.Adapters {
		for _, t := range a.File.Tensors {
			m.Weights += c.InRAM(nn.Adapted(t.Name), nn.AdapterBytes(t), on.Places)
		}
	}
	context := pick(o.Context, c.Context)
	m.Cache = c.CacheInRAM(c.CacheSpec(o.cacheSize(c), o.CacheTypes), on.Places)
	rows := int64(pick(o.Sequences, 1) + o.DraftRows())
	m.Activations = o.activations(c, min(o.LargestStep(), context)) + 4*rows*int64(c.Vocab)
	texts := textsOf(f)
	if head := o.Head; head != nil && c.FurtherCached {
		texts += textsOf(head)
	}
	m.Process = programBytes + textBytes*texts + sampledBytes*int64(pick(o.Sequences, 1))*int64(c.Vocab)
	m.add()
	return m
}

// textsOf returns the number of texts in f's metadata: tokens and merges.
func textsOf(f *gguf.File) (n int64) {
	for _, k := range f.Keys {
		if list, ok := k.Value.([]string); ok {
			n += int64(len(list))
		}
	}
	return n
}

// loadedBytes returns what a tensor of f takes in RAM.
func (o *Options) loadedBytes(f *gguf.File, c *model.Config, t *gguf.Tensor, on placement.Layout) (n int64) {
	typ, bytes, copied := c.Loaded(f, t)
	if copied || !o.Mapped { // pages of a mapped file may be dropped and read again
		n = layout.InHugePages(c.InRAM(t.Name, layout.Packed(typ, bytes), on.Places))
	}
	return n + c.ExpandedBytes(t, on.Places)
}

// activations returns the bytes of a step of n tokens: activations, the widest of them again as integers with scales, a
// quarter more as room to grow, and lists of active neurons if layers are computed by neuron.
func (o *Options) activations(c model.Config, n int) int64 {
	widest := max(c.Embd, c.FF, c.Heads*c.HeadDim)
	bytes := c.ActivationBytes(n) + int64(n)*int64(widest)*layout.ActBytes*5/(4*256)
	if mode, err := c.Resolve(o.Sparse); err == nil && mode != model.Off {
		bytes += 4 * int64(n) * int64(c.FF)
	}
	if e := &c.Experts; e.Count > 0 {
		pairs := min(n*e.Used, max(n, layout.MostPairs)) // with all in RAM there may be more
		bytes += int64(pairs) * layout.PairBytes(pick(e.Latent, c.Embd), e.FF, c.ExpertMode() != model.Off)
	}
	return bytes
}

// The smallest values that advice suggests.
const (
	leastContext = 512
	leastStep    = 32
)

// change is a list of settings that lower a model's memory, and the resulting options.
type change struct {
	text   string // with a verb for each setting
	values []any
	to     func(o Options) Options
}

// advise returns an error that lists changes, joined by word.
func advise(text string, changes []change, word string) error {
	var texts []string
	var values []any
	for _, x := range changes {
		texts = append(texts, x.text)
		values = append(values, x.values...)
	}
	return setting.Errorf(text+strings.Join(texts, word), values...)
}

// advice returns how to make a model fit that needs at least more memory than it may take: settings that suffice alone,
// else all settings that are necessary together.
func (o *Options) advice(f *gguf.File, c model.Config, on placement.Layout, need Memory) error {
	context, step := pick(o.Context, c.Context), o.LargestStep()
	var alone []change
	var each []change // at its strongest
	if o.RAM != nil && (need.Available == 0 || need.Need <= need.Available) {
		alone = append(alone, change{"%s of at least %s", []any{setting.RAM, inGiB(need.Need)}, nil})
	}
	weaken := func(changes ...change) {
		for _, x := range changes {
			with := x.to(*o)
			if with.smallest(f, &c, on) <= need.Budget {
				alone = append(alone, x)
				break
			}
		}
		if len(changes) > 0 {
			each = append(each, changes[len(changes)-1])
		}
	}
	weaken(halved(setting.Context, context, leastContext, func(o Options, n int) Options { o.Context = n; return o })...)
	if f16 := (compute.CacheTypes{}); o.CacheTypes == f16 {
		eight := compute.CacheTypes{Key: compute.KVQ8_0, Value: compute.KVQ8_0}
		if c.CacheSpec(compute.CacheSpec{}, eight).Check() == nil {
			weaken(change{"%s with %s", []any{setting.CacheKeys.To("q8_0"), setting.CacheValues.To("q8_0")}, func(o Options) Options { o.CacheTypes = eight; return o }})
		}
	}
	weaken(halved(setting.Step, min(step, context), leastStep, func(o Options, n int) Options { o.UBatch = n; return o })...)
	if !o.Mapped && o.RAM == nil {
		weaken(change{"%s, which computes on the file and is slower", []any{setting.Mapped}, func(o Options) Options { o.Mapped = true; return o }})
	}
	why := ""
	if !o.Mapped && !o.canStay(f, c) && need.Weights > need.Budget {
		why = o.whyNot(c)
	}
	if len(alone) > 0 {
		return advise(why+"what makes it fit: ", alone, ", or ")
	}
	all, lowest := *o, need.Need
	var together []change
	for _, x := range each {
		with := x.to(all)
		if n := with.smallest(f, &c, on); n < lowest-(need.Need-need.Budget)/20 { // a twentieth of the missing memory
			all, lowest, together = with, n, append(together, x)
		}
	}
	if lowest <= need.Budget && len(together) > 0 {
		return advise(why+"what makes it fit, together: ", together, " and ")
	}
	return errors.New(why + "no setting makes it fit: take a smaller model, or the same in a type of fewer bits")
}

// halved returns changes that halve a number again and again, down to the least.
func halved(s setting.Setting, n, least int, to func(o Options, n int) Options) (list []change) {
	for next := n / 2; next >= least; next /= 2 {
		list = append(list, change{"%s", []any{s.To(next)}, func(o Options) Options { return to(o, next) }})
	}
	return list
}
