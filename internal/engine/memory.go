package engine

import (
	"errors"
	"fmt"
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
	Weights     int64 // in RAM; those that are computed on in the mapped file are not counted
	Cache       int64 // in RAM, of keys, values and states
	Activations int64 // of the largest step, and its rows of logits
	Process     int64 // of the program itself, the vocabulary's share of garbage collection, and sampling
	Need        int64 // of RAM: the sum
	Available   int64 // of RAM; 0: unknown
	OnGPUs      int64 // weights and cache in the memory of GPUs
}

// fits reports whether that is available, as far as is known.
func (m *Memory) fits() bool { return m.Available == 0 || m.Need <= m.Available }

// Parts says the sum and its parts, which add up to it as they are written.
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
	parts := fmt.Sprintf("weights %s, KV cache %s, activations %s, the program %s", part(m.Weights), part(m.Cache), part(m.Activations), part(m.Process))
	return fmt.Sprintf("%s %s (%s)", text(sum), name, parts)
}

// bytesText writes a number of bytes in the unit that Parts would take for it.
func bytesText(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// MemoryError is the error of a model that does not fit into memory.
type MemoryError struct {
	File string
	Memory
	Advice error // what would make it fit
}

func (e *MemoryError) Error() string { return e.Text(setting.Flags) }

// Text implements setting.Namer.
func (e *MemoryError) Text(n setting.Names) string {
	return setting.Sprintf(n, "%s: the model needs %s of memory, and %s are available; %s", e.File, e.Parts(), bytesText(e.Available), e.Advice)
}

// What the program takes besides, as measured on Linux with models of 9, 272 and 651 MB: the binary's own heap, stacks and
// caches, bytes of each text of the vocabulary, which are collected as garbage only when as many more are in use, and
// bytes for each token of the vocabulary that one sequence's sampling takes.
const (
	programBytes = 16 << 20
	textBytes    = 128
	sampledBytes = 16
)

// Memory returns the bytes of RAM that opening the model in f takes where what on says lies on GPUs.
func (o *Options) Memory(f *gguf.File, on placement.Layout) (int64, error) {
	m, err := o.memoryOf(f, on)
	return m.Need, err
}

// Fits reports whether memory has room for the model in f where what on says lies on GPUs, as far as is known.
func (o *Options) Fits(f *gguf.File, on placement.Layout) (bool, error) {
	m, err := o.memoryOf(f, on)
	return m.fits(), err
}

func (o *Options) memoryOf(f *gguf.File, on placement.Layout) (Memory, error) {
	c, err := model.ReadConfig(f, o.Activation)
	if err != nil {
		return Memory{}, err
	}
	c.FurtherCached = o.GuessesFurther()
	return o.memory(f, c, on), nil
}

// readMemory is hw.ReadMemory; tests have other machines.
var readMemory = hw.ReadMemory

// memory returns what the model in f takes where what on says lies on GPUs.
func (o *Options) memory(f *gguf.File, c model.Config, on placement.Layout) Memory {
	m := o.needs(f, c, on)
	if free, err := readMemory(); err == nil {
		m.Available = int64(free.Available)
	}
	return m
}

// needs is memory without what is available.
func (o *Options) needs(f *gguf.File, c model.Config, on placement.Layout) Memory {
	m := Memory{OnGPUs: on.Bytes}
	for _, t := range f.Tensors {
		if _, loaded := c.Purpose(t.Name); !loaded {
			continue
		}
		typ, bytes, copied := c.Loaded(f, t)
		if copied || !o.NoRepack { // pages of a mapped file may be dropped and read again
			m.Weights += layout.InHugePages(c.InRAM(t.Name, layout.Packed(typ, bytes), on.Places))
		}
		m.Weights += c.ExpandedBytes(t, on.Places)
	}
	for _, a := range o.Adapters {
		for _, t := range a.File.Tensors {
			m.Weights += c.InRAM(nn.Adapted(t.Name), nn.AdapterBytes(t), on.Places)
		}
	}
	context := pick(o.Context, c.Context)
	m.Cache = c.CacheInRAM(c.CacheSpec(o.cacheSize(c), o.CacheTypes), on.Places)
	rows := int64(pick(o.Outputs, 1) + o.DraftRows())
	m.Activations = o.activations(c, min(o.LargestStep(), context)) + 4*rows*int64(c.Vocab)
	texts := 0
	for _, k := range f.Keys {
		if list, ok := k.Value.([]string); ok {
			texts += len(list)
		}
	}
	m.Process = programBytes + textBytes*int64(texts) + sampledBytes*int64(pick(o.Outputs, 1))*int64(c.Vocab)
	m.Need = m.Weights + m.Cache + m.Activations + m.Process
	return m
}

// activations returns the bytes that a step of n tokens takes: activations, the widest of them again as integers with
// scales, with room to grow by a quarter, and lists of open neurons where layers are computed by neuron.
func (o *Options) activations(c model.Config, n int) int64 {
	widest := max(c.Embd, c.FF, c.Heads*c.HeadDim)
	bytes := c.ActivationBytes(n) + int64(n)*int64(widest)*layout.ActBytes*5/(4*256)
	if mode, err := c.Resolve(o.Sparse); err == nil && mode != model.Off {
		bytes += 4 * int64(n) * int64(c.FF)
	}
	return bytes
}

// The least that advice goes down to.
const (
	leastContext = 512
	leastStep    = 32
)

// change is settings that lower what a model needs, and the options that they make.
type change struct {
	text   string // with a verb for each setting
	values []any
	to     func(o Options) Options
}

// advise says several changes, which word joins.
func advise(text string, changes []change, word string) error {
	var texts []string
	var values []any
	for _, x := range changes {
		texts = append(texts, x.text)
		values = append(values, x.values...)
	}
	return setting.Errorf(text+strings.Join(texts, word), values...)
}

// advice says what would make a model fit that needs more than is available: the settings that suffice alone, else all
// that are needed together.
func (o *Options) advice(f *gguf.File, c model.Config, on placement.Layout, need Memory) error {
	context, step := pick(o.Context, c.Context), o.LargestStep()
	var alone []change
	var each []change // at its strongest
	weaken := func(changes ...change) {
		for _, x := range changes {
			with := x.to(*o)
			if with.needs(f, c, on).Need <= need.Available {
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
	if !o.NoRepack {
		weaken(change{"%s, which computes on the file and is slower", []any{setting.Mapped}, func(o Options) Options { o.NoRepack = true; return o }})
	}
	if len(alone) > 0 {
		return advise("what makes it fit: ", alone, ", or ")
	}
	all, lowest := *o, need.Need
	var together []change
	for _, x := range each {
		with := x.to(all)
		if n := with.needs(f, c, on).Need; n < lowest-(need.Need-need.Available)/20 { // a twentieth of what is missing
			all, lowest, together = with, n, append(together, x)
		}
	}
	if lowest <= need.Available && len(together) > 0 {
		return advise("what makes it fit, together: ", together, " and ")
	}
	return errors.New("no setting makes it fit: take a smaller model, or the same in a type of fewer bits")
}

// halved returns changes that lower a number by halves, down to the least.
func halved(s setting.Setting, n, least int, to func(o Options, n int) Options) (list []change) {
	for next := n / 2; next >= least; next /= 2 {
		list = append(list, change{"%s", []any{s.To(next)}, func(o Options) Options { return to(o, next) }})
	}
	return list
}
