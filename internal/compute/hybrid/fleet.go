package hybrid

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Fleet is several cards and one host. Each layer has one card, and a pass is cut into stages where the card changes: a stage is what
// a Device, of that card and the host, runs. What one stage leaves for another passes through the host's memory. It implements
// compute.Device.
type Fleet struct {
	pairs  []*Device // a card each, and the same host
	home   []int     // [layers] each one's card
	index  []int     // [layers] each one's number among those of its card
	stages map[compute.Segment][]stage
}

// NewFleet is a device of several, which have the same host, and which it closes. home says which of them each layer belongs to; the
// devices were told of their layers alone where keys and values lie.
func NewFleet(pairs []*Device, home []int) *Fleet {
	f := &Fleet{pairs: pairs, home: home, stages: map[compute.Segment][]stage{}}
	for j, d := range pairs {
		d.index = j
	}
	layers := make([]int, len(pairs))
	for _, j := range home {
		f.index = append(f.index, layers[j])
		layers[j]++
	}
	return f
}

// Name says what computes.
func (f *Fleet) Name() string {
	var names []string
	for _, c := range f.Cards() {
		names = append(names, c.Name())
	}
	return strings.Join(names, ", ") + " and " + f.host().Name()
}

// Cards are all processors but the host.
func (f *Fleet) Cards() []compute.Device {
	var all []compute.Device
	for _, d := range f.pairs {
		all = append(all, d.card)
	}
	return all
}

func (f *Fleet) host() Host { return f.pairs[0].host }

// Err says why one of the cards can compute no more; nil: all can.
func (f *Fleet) Err() error {
	for _, d := range f.pairs {
		if err := d.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all devices.
func (f *Fleet) Close() error {
	var errs []error
	for _, d := range f.pairs {
		errs = append(errs, d.card.Close())
	}
	return errors.Join(append(errs, f.host().Close())...)
}

// Rehearse has every card record, and not run, the segments that do runs.
func (f *Fleet) Rehearse(do func() error) error {
	for _, d := range f.pairs {
		inner := do
		do = func() error { return d.Rehearse(inner) }
	}
	return do()
}

// of is the device whose card src belongs to.
func (f *Fleet) of(src *compute.Source) (*Device, error) {
	if src.Card < 0 || src.Card >= len(f.pairs) {
		return nil, fmt.Errorf("tensor %q: there are %d cards, and no card %d", src.Name, len(f.pairs), src.Card)
	}
	return f.pairs[src.Card], nil
}

// Matrix takes rows or neurons [0, src.Hot) to the card that src names and the others to the host.
func (f *Fleet) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	d, err := f.of(&src)
	if err != nil {
		return nil, err
	}
	m, err := d.Matrix(src, use)
	if err == nil {
		mem(m).home = src.Card
	}
	return m, err
}

// Vector takes a one-dimensional weight to the card that src names and to the host.
func (f *Fleet) Vector(src compute.Source) (*compute.Vector, error) {
	d, err := f.of(&src)
	if err != nil {
		return nil, err
	}
	v, err := d.Vector(src)
	if err == nil {
		v.Mem.(*vector).home = src.Card
	}
	return v, err
}

// spread is an activation on every card and on the host, whose memory all pairs share.
type spread struct {
	on []compute.Tensor // [cards]
	at int              // the card of the stage that saw it last
}

// Tensor allocates an activation [rows, cols] on all devices.
func (f *Fleet) Tensor(rows, cols int) (compute.Tensor, error) {
	host, err := f.host().Tensor(rows, cols)
	if err != nil {
		return compute.Tensor{}, err
	}
	s := &spread{on: make([]compute.Tensor, len(f.pairs))}
	for j, d := range f.pairs {
		if s.on[j], err = d.tensor(host); err != nil {
			return compute.Tensor{}, err
		}
	}
	return compute.Tensor{Rows: rows, Cols: cols, Mem: s}, nil
}

// Set allocates a set on all devices.
func (f *Fleet) Set(rows, n int) (compute.Set, error) {
	host, err := f.host().Set(rows, n)
	if err != nil {
		return compute.Set{}, err
	}
	cold, err := f.host().Set(rows, n)
	if err != nil {
		return compute.Set{}, err
	}
	on := make([]compute.Set, len(f.pairs))
	for j, d := range f.pairs {
		if on[j], err = d.set(host, cold); err != nil {
			return compute.Set{}, err
		}
	}
	return compute.Set{Rows: rows, N: n, Mem: on}, nil
}

// Cache allocates every layer where its attention is computed.
func (f *Fleet) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	if len(f.home) != spec.Layers {
		return nil, fmt.Errorf("a plan for %d layers is not for a cache of %d", len(f.home), spec.Layers)
	}
	on := make([]*compute.Cache, len(f.pairs))
	for j, d := range f.pairs {
		part := spec
		part.Layers = len(d.attention)
		if part.Layers == 0 {
			continue
		}
		var err error
		if on[j], err = d.Cache(part); err != nil {
			return nil, err
		}
	}
	return &compute.Cache{CacheSpec: spec, Mem: on}, nil
}

// CopyPage copies a page on every device.
func (f *Fleet) CopyPage(c *compute.Cache, to, from int32) {
	for j, part := range c.Mem.([]*compute.Cache) {
		if part != nil {
			f.pairs[j].CopyPage(part, to, from)
		}
	}
}

// Read returns row i of t from where its content is.
func (f *Fleet) Read(t compute.Tensor, i int) []float32 {
	s := t.Mem.(*spread)
	return f.pairs[s.at].Read(viewed(t, s.on[s.at]), i)
}

// Run runs body stage by stage.
func (f *Fleet) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	stages, ok := f.stages[seg]
	if !ok {
		stages = f.survey(seg, body)
		f.stages[seg] = stages
	}
	for i := range stages {
		if err := f.run(&stages[i], p, body); err != nil {
			return err
		}
	}
	return nil
}

// run has the stage's device run its verbs of body.
func (f *Fleet) run(s *stage, p *compute.Params, body func(compute.Verbs)) error {
	for _, t := range s.seen {
		t.at = s.card
	}
	err := f.pairs[s.card].Run(s.seg, p, func(v compute.Verbs) {
		r := v.(*verbs)
		w := &stageVerbs{f: f, s: s, to: r}
		r.arrive(w.all(s.takes)...)
		body(w)
		s.bring = r.leave(w.all(s.leaves)...)
	})
	if err != nil {
		return err
	}
	for _, bring := range s.bring {
		bring()
	}
	return nil
}

// stage is a stretch of a pass: the verbs of one card, and of the host.
type stage struct {
	card     int              // -1: not known yet
	seg      compute.Segment  // what it is on its card
	from, to int              // its verbs, counted through the pass
	seen     []*spread        // activations that it takes or writes
	takes    []compute.Tensor // activations that earlier stages left in the host's memory
	leaves   []compute.Tensor // those that it leaves there
	bring    []func()         // brings those that are on the card, as it was recorded last
}

// survey cuts body's verbs into stages, without running them.
func (f *Fleet) survey(seg compute.Segment, body func(compute.Verbs)) []stage {
	w := &survey{stages: []stage{{card: -1}}, writer: map[*spread]int{}}
	body(&stageVerbs{f: f, survey: w})
	for i := range w.stages {
		s := &w.stages[i]
		s.card = max(s.card, 0)
		s.seg = seg
		s.seg.Name = fmt.Sprintf("%s, stage %d", seg.Name, i)
	}
	return w.stages
}

// survey finds out where a pass changes cards, and what crosses there.
type survey struct {
	stages []stage
	writer map[*spread]int // the stage that wrote it last
}

// verb takes in the next verb: it needs home's card, or any where that is negative.
func (w *survey) verb(home int, in, out []compute.Tensor) {
	now := len(w.stages) - 1
	switch s := &w.stages[now]; {
	case home < 0 || home == s.card:
	case s.card < 0:
		s.card = home
	default:
		w.stages = append(w.stages, stage{card: home, from: s.to, to: s.to})
		now++
	}
	s := &w.stages[now]
	s.to++
	for _, t := range in {
		m, ok := t.Mem.(*spread)
		if !ok {
			continue
		}
		if by, ok := w.writer[m]; ok && by != now {
			s.takes = cross(s.takes, t)
			s.see(m)
			w.stages[by].leaves = cross(w.stages[by].leaves, t)
		}
	}
	for _, t := range out {
		m := t.Mem.(*spread)
		w.writer[m] = now
		s.see(m)
	}
}

func (s *stage) see(m *spread) {
	if !slices.Contains(s.seen, m) {
		s.seen = append(s.seen, m)
	}
}

// cross adds t to what crosses; of several views of one activation the largest counts.
func cross(list []compute.Tensor, t compute.Tensor) []compute.Tensor {
	for i, have := range list {
		if have.Mem == t.Mem {
			if t.Rows*t.Cols > have.Rows*have.Cols {
				list[i] = t
			}
			return list
		}
	}
	return append(list, t)
}
