package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// canStay reports whether weights of the model in f may stay on the disk: it has experts or neurons that only some tokens
// read, and loading does not change them by factors that the file has.
func (o *Options) canStay(f *gguf.File, c model.Config) bool {
	return c.CanStayOnDisk() == nil && !o.Mapped && !slices.ContainsFunc(f.Tensors, func(t *gguf.Tensor) bool {
		_, _, copied := c.Loaded(f, t)
		return copied && stays(&c, t)
	})
}

// whyNot says why none of a model's weights may stay on the disk. Its text continues a sentence after a semicolon.
func (o *Options) whyNot(c model.Config) string {
	switch {
	case c.CanStayOnDisk() == nil:
		return "its " + unitsOn(&c) + " cannot stay on the disk, because loading changes them; "
	case c.Act.Sparse() && !c.Transposed:
		return "its neurons could stay on the disk if powerinfer prepare had sorted them; "
	}
	return "its weights cannot stay on the disk, because every token reads all of them; "
}

// unitsOn names the units of a model that stay on the disk.
func unitsOn(c *model.Config) string {
	if c.Experts.Count > 0 {
		return "experts"
	}
	return "neurons"
}

// stays reports whether a tensor stays on the disk when experts or neurons do. Stacked matrices of experts do, and
// matrices with a row for each neuron. Their biases and factors are loaded.
func stays(c *model.Config, t *gguf.Tensor) bool {
	p, loaded := c.Purpose(t.Name)
	name, weight := strings.CutSuffix(t.Name, ".weight")
	if !loaded || !weight {
		return false
	}
	switch p.Role {
	case nn.OfExperts, nn.PredictsExperts:
		return true
	case nn.OfNeurons:
		rows, gates := c.NeuronsOnDisk(p.Layer)
		b := &c.Blocks[p.Layer]
		deciding := strings.HasSuffix(name, ".ffn_gate") || strings.HasSuffix(name, ".ffn_up") && (!b.Gated || t.Rows() != b.FF)
		return rows && (gates || !deciding)
	}
	return false
}

// units are experts or neurons that stay on the disk, each with the rows of all its matrices.
type units struct {
	file    int64 // bytes of all in the file
	packed  int64 // and in memory
	whole   int64 // in memory, of all neurons of a layer, which a prompt needs together
	least   int64 // in memory, of as many as computing a token takes
	reading int64 // in memory, of buffers that they are read into, of the ends of pages that they do not fill, and of lists
}

// all returns the most memory that is of use: for all units, and for two layers of neurons, so that one is read while
// the other is computed.
func (u units) all() int64 { return u.packed + 2*u.whole }

const (
	// neuronPiece is the most bytes of neurons that are read at a time.
	neuronPiece = 1 << 20
	// neuronLists is the bytes that lists take for each neuron on the disk: its uses, its slot, its checksums.
	neuronLists = 96
	// neuronShare is the share of a layer's neurons that a token uses, as a divisor: a prepared model's mostly use less.
	neuronShare = 8
)

// unitsOf returns the experts or neurons of the model in f that are on no GPU.
func unitsOf(f *gguf.File, c model.Config, on placement.Layout) (u units) {
	type shape struct {
		file, packed int64 // bytes of all units of a layer
		n            int64 // units
		rest         int64 // that are on no GPU
		parts        int64 // matrices
		neurons      bool
	}
	layers := map[int]shape{}
	pieces, largest := 0, int64(0)
	places := slices.Clone(on.Places)
	for l := range places {
		places[l].Slots = false // RAM needs room only for experts that are on no GPU; which these are changes
	}
	for _, t := range f.Tensors {
		if !stays(&c, t) {
			continue
		}
		typ, bytes, _ := c.Loaded(f, t)
		p, _ := c.Purpose(t.Name)
		y := layers[p.Layer]
		y.n = int64(c.Experts.Count)
		if y.neurons = p.Role == nn.OfNeurons; y.neurons {
			y.n = int64(c.Blocks[p.Layer].FF)
		}
		y.file += bytes
		y.packed += layout.Packed(typ, bytes)
		y.rest = c.InRAM(t.Name, y.n, places)
		y.parts++
		layers[p.Layer] = y
		switch {
		case y.rest == 0:
		case y.neurons:
			pieces, largest = max(pieces, int(2*y.file/neuronPiece)), neuronPiece
		default:
			pieces, largest = max(pieces, int(y.rest*y.parts)), max(largest, bytes/y.n)
		}
	}
	type class struct{ rest, held, parts int64 } // units on no GPU, how many of them a layer needs in memory together, and matrices
	classes := map[int64]class{}                 // classes of units of equal size, by their bytes
	for _, y := range layers {
		if y.rest == 0 {
			continue
		}
		unit := (y.packed + y.n - 1) / y.n
		u.file += y.file * y.rest / y.n
		u.packed += unit * y.rest
		held := 2 * int64(c.Experts.Used)
		if y.neurons {
			held = max(1, y.n/neuronShare)
			u.whole = max(u.whole, unit*y.rest+y.parts*layout.HugePage)
			u.reading += neuronLists * y.rest
		}
		k := classes[unit]
		classes[unit] = class{k.rest + y.rest, max(k.held, min(y.rest, held)), y.parts}
	}
	for unit, k := range classes {
		u.least += unit * k.held
		u.reading += k.parts * layout.HugePage
	}
	u.least += u.whole
	if u.reading = min(u.reading, u.packed); pieces > 0 {
		u.reading += disk.Buffered(pieces, largest)
	}
	return u
}

// least returns the least memory that the model in f takes if GPUs hold the parts that on names. If experts or neurons
// may stay on the disk and that takes less, they do, with room for the units of a layer that a token uses.
func (o *Options) least(f *gguf.File, c model.Config, on placement.Layout) Memory {
	if !o.canStay(f, c) {
		return o.needs(f, c, on)
	}
	m, u := o.needsWith(f, c, on, true), unitsOf(f, c, on)
	m.OnDisk = u.file
	m.Units, m.Reading = u.least, u.reading
	m.add()
	if whole := o.needs(f, c, on); whole.Need <= m.Need {
		return whole
	}
	return m
}

// provision says how a model is loaded.
type provision struct {
	config model.Config
	layout placement.Layout
	need   Memory
	stream *gguf.Stream // layers that steps read from the disk; nil: there are none
}

// provide decides how the model in f is loaded if GPUs get the parts that on names: with all of it in memory if that
// fits, else without the MTP layer, else with experts or neurons on the disk. It tells the user what changes.
func (o *Options) provide(f *gguf.File, on placement.Layout) (p provision, err error) {
	if o.Mapped && o.RAM != nil {
		return p, setting.Errorf("%s bounds what is loaded, and with %s the system decides how much of the mapped file is in memory: give one of them", setting.RAM, setting.Mapped)
	}
	c, err := o.config(f)
	if err != nil {
		return p, err
	}
	notice := func(format string, args ...any) {
		if o.Notice != nil {
			o.Notice(fmt.Sprintf(format, args...))
		}
	}
	need := o.memory(f, c, on)
	if c.FurtherCached && !on.Further() && (!need.fits() || need.OnDisk > 0) {
		without := c
		without.FurtherCached = false
		if less := o.memory(f, without, on); less.fits() && (less.OnDisk == 0 || !need.fits()) {
			drafts := "the layer that predicts a further token"
			if o.Head != nil {
				drafts = "the draft head"
			}
			notice("%s guesses nothing: with it the model would take %s of RAM, and %s are available", drafts, bytesText(o.needs(f, c, on).Need), bytesText(less.Budget))
			c, need = without, less
		}
	}
	if need.OnDisk > 0 && on.Places == nil { // GPUs have room for the step that was planned, see LongStep
		need = o.takeLongSteps(f, c, on, need)
	}
	if o.Expect != nil {
		o.Expect(need)
	}
	if !need.fits() {
		if m, stream := o.streamed(f, c, on); stream != nil {
			notice("the model takes %s and %s of memory may be used: every step reads %s of it from the disk%s",
				bytesText(need.Need), bytesText(m.Budget), bytesText(stream.Bytes()), o.whyStreamed(c))
			return provision{c, on, m, stream}, nil
		}
		return p, &MemoryError{File: f.Path, Memory: need, Advice: o.advice(f, c, on, need)}
	}
	if need.OnDisk > 0 {
		whole := o.needs(f, c, on)
		notice("the model takes %s and %s of memory may be used: its %s stay on the disk, and %s of RAM keep those that are used most", bytesText(whole.Need), bytesText(need.Budget), unitsOn(&c), bytesText(need.Units))
	}
	return provision{c, on, need, nil}, nil
}

// takeLongSteps lets steps have as many tokens as a batch, unless the user chose their size: in every step a prompt reads
// each unit that is not in RAM, so fewer steps are faster. It does so only if the activations of such steps take at most
// an eighth of the room for units.
func (o *Options) takeLongSteps(f *gguf.File, c model.Config, on placement.Layout, need Memory) Memory {
	if o.UBatch != 0 {
		return need
	}
	long := o.withLongSteps()
	m := long.memoryIn(f, c, on, Room{need.Budget, need.Budget})
	if m.Available = need.Available; !m.fits() || m.Units < need.Units-need.Units/8 {
		return need
	}
	o.UBatch = long.UBatch
	return m
}

// LongStep returns the UBatch for which the model in f should be planned in room if GPUs hold the parts that on names:
// that of o, unless units stay on the disk even so, and steps of a whole batch leave enough room for them.
func (o *Options) LongStep(f *gguf.File, on placement.Layout, room Room) (int, error) {
	c, err := o.config(f)
	if err != nil {
		return 0, err
	}
	planned := *o
	if need := o.memoryIn(f, c, on, room); need.OnDisk > 0 {
		planned.takeLongSteps(f, c, on, need)
	}
	return planned.UBatch, nil
}

// withLongSteps returns o with steps of as many tokens as a batch.
func (o *Options) withLongSteps() Options {
	long := *o
	long.UBatch = pick(o.Batch, UsualBatch)
	return long
}

// kernelShare is the share of the room for units that is left for what nobody counts, as a divisor: small areas that the
// system gives huge pages, tables of pages, stacks and sockets, which control groups count, too. In a group of 1300 MiB,
// as large as the budget, these were some 20 MiB.
const kernelShare = 32

// grow gives units on the disk the rest of the budget, at most all bytes.
func (m *Memory) grow(all int64) {
	if room := m.Budget - m.Need; m.OnDisk > 0 && room > 0 {
		m.Reading += room / kernelShare
		m.Units = min(all, m.Units+room-room/kernelShare)
		m.add()
	}
}

// looked is the state of checks of the file that units are read from.
type looked struct {
	steps  int
	told   bool // that it was changed
	unread bool // the user was told of a part that cannot be read
}

// stepsPerLook is the number of steps between two looks at the file.
const stepsPerLook = 64

// lookAtFile tells the user, once, that the file of a model that is read from the disk was replaced or written to. It
// checks after a step that failed, and from time to time.
func (e *Engine) lookAtFile(failed bool) {
	y := &e.looked
	if e.need.OnDisk == 0 && e.stream == nil || y.told || e.options.Notice == nil {
		return
	}
	if y.steps++; !failed && y.steps%stepsPerLook != 0 {
		return
	}
	if err := e.file.Changed(); err != nil {
		y.told = true
		e.options.Notice(err.Error())
	}
}

// tellUnread tells the user, once, of err, the error of a read ahead of need; nil: there was none.
func (e *Engine) tellUnread(err error) {
	if y := &e.looked; err != nil && !y.unread && e.options.Notice != nil {
		y.unread = true
		e.options.Notice(fmt.Sprintf("%v; it was to be read ahead, and requests that need it end with this error", err))
	}
}

// openBundle opens the file of neurons if neurons stay on the disk, and makes it if it is missing. Without this file a
// neuron's rows are read one by one.
func (e *Engine) openBundle(ctx context.Context, p provision) (err error) {
	if p.need.OnDisk == 0 || e.bundle != nil || !severalRows(&p.config) {
		return nil
	}
	o := &e.options
	e.bundle, err = bundle.For(ctx, e.file, bundle.Making{Progress: o.Bundling, Notice: o.Notice})
	if err == nil || ctx.Err() != nil {
		return err
	}
	if o.Notice != nil {
		o.Notice(fmt.Sprintf("neurons are read from the model's own file, which is slower: %v", err))
	}
	return nil
}

// severalRows reports whether neurons of a layer have several rows on the disk.
func severalRows(c *model.Config) bool {
	for l := range c.Blocks {
		if rows, gates := c.NeuronsOnDisk(l); rows && (gates || c.Blocks[l].Gated) {
			return true
		}
	}
	return false
}

// closeFiles closes the file of neurons, which is only read, and ends reading layers.
func (e *Engine) closeFiles() {
	e.stream.Close()
	if e.bundle != nil {
		_ = e.bundle.Close()
	}
}
