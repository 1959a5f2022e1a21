// Package hybrid makes one device of several: a card, or a Fleet of them, that holds what the plan put there, and the host that computes
// the rest where it lies. Only activations pass between them.
//
// Every verb runs where its weights are; verbs without weights run where their operands are. A feed-forward layer that is split by
// neuron runs on both at the same time. Since placement is fixed when weights are taken in, the same verbs always take the same
// ways, and the card may record them once and replay them.
package hybrid

import (
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Meeting is what the card's verbs must be able to besides, for two processors to work at the same time. Functions that it returns
// are valid in every replay.
type Meeting interface {
	compute.Verbs
	// Beside waits for what was recorded so far and calls host, while the card computes what during records. What is recorded behind
	// it sees what host wrote.
	Beside(host func(p *compute.Params) error, during func())
	// Show copies t for the host, in the next Beside, or, if none follows, when all has run: [t.Rows·t.Cols].
	Show(t compute.Tensor) func() []float32
	// ShowSet copies a set's bits for the host: token i's are words[i·perRow:].
	ShowSet(s compute.Set) func() (words []uint32, perRow int)
	// Take makes t, here, what an earlier Beside's host writes to the returned memory: [t.Rows·t.Cols].
	Take(t compute.Tensor) func() []float32
	// TakeSet does so with a set's bits.
	TakeSet(s compute.Set) func() (words []uint32, perRow int)
}

// Host is the processor beside the card.
type Host interface {
	compute.Device
	// Data is a tensor's memory.
	Data(t compute.Tensor) []float32
	// FillSet makes token i's neurons those, counted from first, whose bits are set in words[i·perRow:].
	FillSet(s compute.Set, words []uint32, perRow, first int)
	// SetWords writes every token's neurons as bits.
	SetWords(s compute.Set, words []uint32, perRow int)
}

// Device is a card and the host. It implements compute.Device.
type Device struct {
	card      compute.Device // its verbs are a Meeting
	index     int            // of the card, in a Fleet
	host      Host
	attention []bool             // of each layer: keys and values are on the card
	rows      int                // of the largest activations: tokens of the largest step
	partials  map[int]tensorPair // [rows, columns] by columns
	ahead     Ahead
	early     compute.Set // the host's, of a guess
	rehearsal bool        // Run records only
	trace     *trace.Log  // or nil
	streaming Streaming
	rooms     rooms
	joins     map[compute.Segment][]join // what a run has counted apart
}

// Recorder is a card that can record a segment without running it.
type Recorder interface {
	Record(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error
}

// CardError is an error of a card, without which others and the host may do.
type CardError struct {
	Err  error
	Card int // of a Fleet's
}

func (e *CardError) Error() string { return e.Err.Error() }

// Unwrap is the card's error.
func (e *CardError) Unwrap() error { return e.Err }

// ofCard marks an error of the card's.
func (d *Device) ofCard(err error) error {
	if err == nil {
		return nil
	}
	return &CardError{err, d.index}
}

// New is a device of card and host, which it closes. attention says of each layer whether keys and values lie on the card.
func New(card compute.Device, host Host, attention []bool) *Device {
	return &Device{card: card, host: host, attention: attention, partials: map[int]tensorPair{}, joins: map[compute.Segment][]join{}}
}

// Trace has the host's parts kept in l.
func (d *Device) Trace(l *trace.Log) { d.trace = l }

// Name says what computes.
func (d *Device) Name() string { return d.card.Name() + " and " + d.host.Name() }

// Cards is the card alone.
func (d *Device) Cards() []compute.Device { return []compute.Device{d.card} }

// Err says why the card can compute no more; nil: it can, and what Read has returned is what was computed.
func (d *Device) Err() error {
	if card, ok := d.card.(interface{ Err() error }); ok {
		return d.ofCard(card.Err())
	}
	return nil
}

// Close closes both devices.
func (d *Device) Close() error { return errors.Join(d.card.Close(), d.host.Close()) }

// matrix is a weight's two parts; the second's rows, or neurons, follow the first's. Either may be nil.
type matrix struct {
	card, host *compute.Matrix
	hot        int // neurons, or rows, on the card
	home       int // which card that is, in a Fleet
}

func mem(m *compute.Matrix) *matrix { return m.Mem.(*matrix) }

// onCard reports whether the card has all of m.
func onCard(m *compute.Matrix) bool { return mem(m).host == nil }

// Matrix takes rows or neurons [0, src.Hot) to the card and the others to the host.
func (d *Device) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	n := src.Rows
	if use == compute.Columns {
		n = src.Cols
	}
	out := &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols}
	m := &matrix{hot: src.Hot}
	out.Mem = m
	split := use == compute.Rows || use == compute.Columns
	if src.Hot < 0 || src.Hot > n || !split && src.Hot != 0 && src.Hot != n {
		return nil, fmt.Errorf("tensor %q: %d of its %d rows cannot be on the card", src.Name, src.Hot, n)
	}
	var err error
	switch src.Hot {
	case n:
		src.Pinned = false
		m.card, err = d.card.Matrix(src, use)
		err = d.ofCard(err)
	case 0:
		m.host, err = d.host.Matrix(src, use)
	default:
		var part compute.Source
		if part, err = neurons(src, use, 0, src.Hot); err != nil {
			return nil, err
		}
		part.Pinned = false
		if m.card, err = d.card.Matrix(part, use); err != nil {
			return nil, d.ofCard(err)
		}
		if part, err = neurons(src, use, src.Hot, n); err != nil {
			return nil, err
		}
		m.host, err = d.host.Matrix(part, use)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// vector is on both devices.
type vector struct {
	card, host *compute.Vector
	home       int // which card that is, in a Fleet
	data       []float32
	parts      map[piece]*compute.Vector
}

// piece is a part of a vector on one of the devices.
type piece struct {
	dev      compute.Device
	from, to int
}

// Vector takes a one-dimensional weight in.
func (d *Device) Vector(src compute.Source) (*compute.Vector, error) {
	v := &vector{parts: map[piece]*compute.Vector{}}
	var err error
	if v.card, err = d.card.Vector(src); err != nil {
		return nil, d.ofCard(err)
	}
	if v.host, err = d.host.Vector(src); err != nil {
		return nil, err
	}
	v.data = make([]float32, src.Cols)
	quant.Decode(src.Type, v.data, src.Data)
	return &compute.Vector{Name: src.Name, Len: src.Cols, Mem: v}, nil
}

// part is elements [from, to) of v on dev; nil for a nil v.
func part(v *compute.Vector, dev compute.Device, from, to int) (*compute.Vector, error) {
	if v == nil {
		return nil, nil
	}
	m, key := v.Mem.(*vector), piece{dev, from, to}
	if have := m.parts[key]; have != nil {
		return have, nil
	}
	data := make([]byte, 4*(to-from))
	quant.Encode(quant.F32, data, m.data[from:to])
	made, err := dev.Vector(compute.Source{Name: v.Name, Type: quant.F32, Rows: 1, Cols: to - from, Data: data})
	if err == nil {
		m.parts[key] = made
	}
	return made, err
}

func cardVector(v *compute.Vector) *compute.Vector {
	if v == nil {
		return nil
	}
	return v.Mem.(*vector).card
}

func hostVector(v *compute.Vector) *compute.Vector {
	if v == nil {
		return nil
	}
	return v.Mem.(*vector).host
}

// tensorPair is one activation's memory on both devices.
type tensorPair struct{ card, host compute.Tensor }

// tensor is a tensorPair and where its content is, at the place that a recording has reached.
type tensor struct {
	tensorPair
	onCard, onHost bool
}

// pair is host, with as much memory on the card.
func (d *Device) pair(host compute.Tensor) (tensorPair, error) {
	card, err := d.card.Tensor(host.Rows, host.Cols)
	d.rows = max(d.rows, host.Rows)
	return tensorPair{card, host}, d.ofCard(err)
}

// partial is memory for the host's part of outputs of cols columns, as many rows as any step has: layers take turns, for each part is
// added before the next one's is made.
func (d *Device) partial(cols int) (tensorPair, error) {
	p, ok := d.partials[cols]
	if !ok {
		host, err := d.host.Tensor(d.rows, cols)
		if err != nil {
			return p, err
		}
		if p, err = d.pair(host); err != nil {
			return p, err
		}
		d.partials[cols] = p
	}
	return p, nil
}

// Tensor allocates an activation [rows, cols] on both devices.
func (d *Device) Tensor(rows, cols int) (compute.Tensor, error) {
	host, err := d.host.Tensor(rows, cols)
	if err != nil {
		return compute.Tensor{}, err
	}
	return d.tensor(host)
}

// tensor is an activation on both devices whose memory on the host is host's.
func (d *Device) tensor(host compute.Tensor) (compute.Tensor, error) {
	p, err := d.pair(host)
	if err != nil {
		return compute.Tensor{}, err
	}
	return compute.Tensor{Rows: host.Rows, Cols: host.Cols, Mem: &tensor{tensorPair: p}}, nil
}

// set is a set's memory on both devices, and where its content is.
type set struct {
	card, host     compute.Set
	cold           compute.Set // the host's, of the neurons that are not on the card
	words          []uint32    // scratch: bits of host
	onCard, onHost bool
}

// Set allocates a set on both devices.
func (d *Device) Set(rows, n int) (compute.Set, error) {
	host, err := d.host.Set(rows, n)
	if err != nil {
		return compute.Set{}, err
	}
	cold, err := d.host.Set(rows, n)
	if err != nil {
		return compute.Set{}, err
	}
	return d.set(host, cold)
}

// set is a set on both devices whose memory on the host is host's and cold's.
func (d *Device) set(host, cold compute.Set) (compute.Set, error) {
	card, err := d.card.Set(host.Rows, host.N)
	if err != nil {
		return compute.Set{}, d.ofCard(err)
	}
	return compute.Set{Rows: host.Rows, N: host.N, Mem: &set{card: card, host: host, cold: cold}}, nil
}

// cache is the layers of a KV cache that each device holds.
type cache struct {
	card, host *compute.Cache
	index      []int // [layers] within its device's
}

// Cache allocates every layer where its attention is computed.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	if len(d.attention) != spec.Layers {
		return nil, fmt.Errorf("a plan for %d layers is not for a cache of %d", len(d.attention), spec.Layers)
	}
	c := &cache{}
	card, host := spec, spec
	card.Layers, host.Layers = 0, 0
	for _, on := range d.attention {
		n := &host.Layers
		if on {
			n = &card.Layers
		}
		c.index = append(c.index, *n)
		*n++
	}
	var err error
	if card.Layers > 0 {
		c.card, err = d.card.Cache(card)
		err = d.ofCard(err)
	}
	if err == nil && host.Layers > 0 {
		c.host, err = d.host.Cache(host)
	}
	if err != nil {
		return nil, err
	}
	return &compute.Cache{CacheSpec: spec, Mem: c}, nil
}

// CopyPage copies a page on both devices.
func (d *Device) CopyPage(c *compute.Cache, to, from int32) {
	m := c.Mem.(*cache)
	if m.card != nil {
		d.card.CopyPage(m.card, to, from)
	}
	if m.host != nil {
		d.host.CopyPage(m.host, to, from)
	}
}

// Read returns row i of t from where its content is.
func (d *Device) Read(t compute.Tensor, i int) []float32 {
	m := t.Mem.(*tensor)
	if m.onHost {
		return d.host.Read(viewed(t, m.host), i)
	}
	return d.card.Read(viewed(t, m.card), i)
}

// viewed is memory in the shape of t, which is a view of it.
func viewed(t, memory compute.Tensor) compute.Tensor {
	return compute.Tensor{Rows: t.Rows, Cols: t.Cols, Mem: memory.Mem}
}

// Run has the card run body, whose verbs pass what is the host's to the host.
func (d *Device) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	var failed error // while recording, and of the host
	run := d.card.Run
	if d.rehearsal {
		run = d.card.(Recorder).Record
	}
	err := run(seg, p, func(v compute.Verbs) {
		m, ok := v.(Meeting)
		if !ok {
			failed = fmt.Errorf("%s cannot work beside another processor", d.card.Name())
			return
		}
		delete(d.joins, seg)
		r := &verbs{d: d, card: m, seg: seg}
		body(r)
		r.meet(nil)
		failed = r.err
	})
	if err == nil {
		for _, j := range d.joins[seg] {
			j.to.Join(j.part)
		}
		return failed
	}
	return errors.Join(failed, d.whose(err))
}

// Rehearse has the card record, and not run, the segments that f runs, if it can: what they need of the card is there afterwards, or
// is this error. Nothing can be read of what they would have computed.
func (d *Device) Rehearse(f func() error) error {
	if _, ok := d.card.(Recorder); !ok {
		return nil
	}
	d.rehearsal = true
	defer func() { d.rehearsal = false }()
	return f()
}

// hostError is an error of the host's part of a run, which the card passes on.
type hostError struct{ err error }

func (e *hostError) Error() string { return e.err.Error() }

// whose tells errors of the card from the host's.
func (d *Device) whose(err error) error {
	var host *hostError
	if errors.As(err, &host) {
		return host.err
	}
	return d.ofCard(err)
}
