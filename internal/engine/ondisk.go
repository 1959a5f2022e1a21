package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// staying says which of a model's weights may stay on the disk: experts, of which a token uses some, and neurons of layers
// that are computed by neuron.
type staying struct {
	model.Config       // with the mode in which its layers are computed
	none         error // why none of them may; nil: some may
}

// staying returns what of the model in f may stay on the disk.
func (o *Options) staying(f *gguf.File, c model.Config) staying {
	s := staying{Config: c}
	mode := o.Sparse
	if o.Observer != nil { // it sees every neuron
		mode = model.Off
	}
	if o.Magnitudes == nil || mode != model.Threshold {
		if choice, err := c.Choose(c.ModeWith(mode, o.Adapters), o.Bound); err == nil { // loading says what is wrong with it
			s.Take(choice)
		}
	} else {
		s.Sparse, s.Config.Magnitudes = model.Threshold, o.Magnitudes
	}
	s.AlwaysOn, s.Predicting = o.AlwaysOn, o.Predicting
	switch {
	case o.NoRepack:
		s.none = errors.New("the file is computed on as it is mapped")
	case slices.ContainsFunc(f.Tensors, func(t *gguf.Tensor) bool {
		_, _, copied := c.Loaded(f, t)
		return copied && s.ofExperts(t)
	}):
		s.none = errors.New("its experts cannot stay on the disk, for the file has factors that loading puts into them")
	default:
		s.none = s.CanStayOnDisk()
	}
	return s
}

// ofExperts reports whether t has stacked matrices of experts. Their biases and factors are loaded.
func (s *staying) ofExperts(t *gguf.Tensor) bool {
	p, loaded := s.Purpose(t.Name)
	return loaded && (p.Role == nn.OfExperts || p.Role == nn.PredictsExperts) && strings.HasSuffix(t.Name, ".weight")
}

// part returns how many of n bytes of t may stay on the disk.
func (s *staying) part(t *gguf.Tensor, n int64) int64 {
	p, loaded := s.Purpose(t.Name)
	switch {
	case s.none != nil || !loaded || !strings.HasSuffix(t.Name, ".weight"):
		return 0
	case s.ofExperts(t):
		return n
	case p.Role != nn.OfNeurons || p.Layer >= s.Layers:
		return 0
	}
	rows, gates := s.NeuronsOnDisk(p.Layer)
	b := &s.Blocks[p.Layer]
	switch {
	case !rows:
		return 0
	case strings.Contains(t.Name, ".ffn_down_t."), gates:
		return n
	case b.Gated && t.Rows() == 2*b.FF: // of gates, which say which neurons are open, and ups
		return n / 2
	case b.Gated && strings.Contains(t.Name, ".ffn_up."):
		return n
	}
	return 0
}

// units returns how many experts or neurons a layer has.
func (s *staying) units(layer int) int64 {
	if layer >= s.Layers || s.Blocks[layer].Experts {
		return int64(s.Experts.Count)
	}
	return int64(s.Blocks[layer].FF)
}

// name returns what units are.
func (s *staying) name() string {
	if s.Experts.Count > 0 {
		return "experts"
	}
	return "neurons"
}

// units are experts and neurons that stay on the disk, each with all of its rows that do.
type units struct {
	file    int64 // bytes of all in the file
	packed  int64 // and in memory
	least   int64 // in memory, of as many as computing takes
	reading int64 // in memory, of what reading and keeping them takes beside them
}

// What the device has of a unit, in bytes beside its rows: its use, its checksums, and that of the slot that it may have.
const unitBytes = 64

// Of neurons, a prompt needs those of a whole layer together, beside which tokens must have room for some.
const leastNeurons = 1. / 8 // of a layer

// unitsOf returns the units of the model in f that are on no GPU.
func (s *staying) unitsOf(f *gguf.File, on placement.Layout) (u units) {
	type layer struct {
		file, packed int64 // bytes of all of its units
		rest         int64 // units that are on no GPU
		parts        int64 // matrices
		piece        int64 // bytes that are read together
	}
	layers := map[int]layer{}
	places := withoutSlots(on).Places
	for _, t := range f.Tensors {
		typ, bytes, _ := s.Loaded(f, t)
		stay := s.part(t, bytes)
		if stay == 0 {
			continue
		}
		p, _ := s.Purpose(t.Name)
		y, n := layers[p.Layer], s.units(p.Layer)
		y.file += stay
		y.packed += layout.Packed(typ, stay)
		y.rest = s.InRAM(t.Name, n, places)
		y.parts++
		y.piece = max(y.piece, stay/n)
		layers[p.Layer] = y
	}
	type class struct{ rest, held, parts int64 } // units of layers whose units are equally large, and how many a layer must have in memory
	classes := map[int64]class{}                 // by the bytes of a unit
	whole, buffers, slack := int64(0), int64(0), int64(0)
	for l, y := range layers {
		if y.rest == 0 {
			continue
		}
		n := s.units(l)
		unit := (y.packed + n - 1) / n
		u.file += y.file * y.rest / n
		u.packed += unit * y.rest
		held, pieces := min(y.rest, 2*int64(s.Experts.Used)), y.rest*y.parts
		if l < s.Layers && !s.Blocks[l].Experts {
			held = int64(leastNeurons*float64(y.rest)) + 1
			whole = max(whole, unit*y.rest)
			y.piece, pieces = min(y.file, wholePiece), y.file/wholePiece+1
		}
		k := classes[unit]
		classes[unit] = class{k.rest + y.rest, max(k.held, held), y.parts}
		buffers = max(buffers, disk.Buffered(int(pieces), y.piece))
		u.reading += unitBytes * y.rest
	}
	one := int64(0) // so that each class, which has its share of memory, has room for a unit
	for unit, k := range classes {
		u.least += unit * k.held
		one = max(one, (u.packed+k.rest-1)/k.rest+1)
		if unit*k.rest >= k.parts*layout.HugePage {
			slack += k.parts * layout.HugePage // the ends of pages that they do not fill
		}
	}
	u.least = whole + max(u.least, one)
	u.reading += buffers + min(slack, u.packed)
	return u
}

// wholePiece is what is read at a time of a whole layer of neurons, at most. [bytes]
const wholePiece = 1 << 20

// least returns the least that the model in f takes where what on says lies on GPUs: with units on the disk if they may
// stay there and that is less, and room for those that a token of a layer uses and as many that are read.
func (o *Options) least(f *gguf.File, c model.Config, on placement.Layout) Memory {
	whole, s := o.needs(f, c, on), o.staying(f, c)
	if s.none != nil {
		return whole
	}
	m, u := o.needsWith(f, c, on, &s), s.unitsOf(f, on)
	m.OnDisk = u.file
	m.Units, m.Reading = u.least, u.reading
	if m.add(); whole.Need <= m.Need {
		return whole
	}
	return m
}

// provision says how a model is loaded.
type provision struct {
	config  model.Config
	layout  placement.Layout
	need    Memory
	neurons bool // neurons stay on the disk
}

// provide decides how the model in f is loaded where what on says goes to GPUs: all of it in memory if that fits, else
// without the layer that predicts a further token, else with units on the disk. It tells the user what changes.
func (o *Options) provide(f *gguf.File, on placement.Layout) (p provision, err error) {
	if o.NoRepack && o.RAM != nil {
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
			notice("the layer that predicts a further token guesses nothing: with it the model would take %s of RAM, and %s are available", bytesText(o.needs(f, c, on).Need), bytesText(less.Budget))
			c, need = without, less
		}
	}
	if need.OnDisk > 0 {
		on = withoutSlots(on)
	}
	if o.Expect != nil {
		o.Expect(need)
	}
	if !need.fits() {
		return p, &MemoryError{File: f.Path, Memory: need, Advice: o.advice(f, c, on, need)}
	}
	if need.OnDisk > 0 {
		whole := o.needs(f, c, on)
		stay := o.staying(f, c)
		notice("the model takes %s and %s of memory may be used: its %s stay on the disk, and %s of RAM keep those that are used most", bytesText(whole.Need), bytesText(need.Budget), stay.name(), bytesText(need.Units))
		p.neurons = c.Transposed
	}
	return provision{c, on, need, p.neurons}, nil
}

// withoutSlots returns on with experts that stay where they are: those that follow the text would have to be in RAM.
func withoutSlots(on placement.Layout) placement.Layout {
	on.Places = slices.Clone(on.Places)
	for l := range on.Places {
		on.Places[l].Slots = false
	}
	return on
}

// grow gives experts on the disk the room that the budget leaves, as far as they have a use for it.
func (m *Memory) grow(all int64) {
	if m.OnDisk > 0 && m.Need < m.Budget {
		m.Units = min(all, m.Units+m.Budget-m.Need)
		m.add()
	}
}
