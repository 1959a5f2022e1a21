package engine

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Plan is what of a model lies on which graphics cards.
type Plan struct {
	Cards    []Card
	Places   []placement.Place // [layers+1], of each layer and of the head
	Bytes    int64             // of weights and cache that Places put on cards
	Rate     float64           // tokens per second that are expected of generation, 0 where nothing is known; only told
	Ahead    hybrid.Ahead      // whether the processor reads ahead while it waits for cards
	Messages func(string)      // switches the validation layer on and is told what it finds; nil: it is off
	Notice   func(string)      // is told in a line why a card is given up; may be nil

	// Rest is a plan for what is left without a card of several that has failed, or nil for none; it may be nil itself.
	Rest func(card int) *Plan

	wrap func(compute.Device) compute.Device // of tests
}

// Without is how to go on when a card has failed, and a word about it; with a nil plan the processor goes on alone.
func (p *Plan) Without(card int) (*Plan, string) {
	if len(p.Cards) == 1 {
		return nil, "going on without it"
	}
	if p.Rest != nil {
		if rest := p.Rest(card); rest != nil {
			return rest, "going on without it"
		}
	}
	return nil, "going on without cards"
}

// Layers is how many layers have something on a card.
func (p *Plan) Layers() int {
	n := 0
	for _, y := range p.Places[:max(0, len(p.Places)-1)] {
		if y.Attention || y.Predictor || y.Hot > 0 {
			n++
		}
	}
	return n
}

// Card is a graphics card.
type Card struct {
	Device  string           // as vulkan.Options has it
	Budget  int64            // bytes of its memory that may be in use
	Planned int64            // bytes that are expected to be; only told
	Stream  hybrid.Streaming // which prompts cold neurons are sent to the card for
}

// beside is the device of an engine that has cards.
type beside interface {
	compute.Device
	Cards() []compute.Device
	Err() error
	Rehearse(f func() error) error
}

// open opens the processors: the host alone, or beside cards.
func (o *Options) open(threads int) (compute.Device, error) {
	host, err := cpu.New(cpu.Options{Threads: threads, ThreadsBatch: pick(o.ThreadsBatch, threads), Lock: o.Lock})
	if err != nil || o.Plan == nil {
		return host, err
	}
	var pairs []*hybrid.Device
	for j := range o.Plan.Cards {
		card, err := o.Plan.open(j, o.Trace.OfCard(j))
		if err != nil {
			for _, d := range pairs {
				d.Cards()[0].Close()
			}
			host.Close()
			return nil, &hybrid.CardError{Err: err, Card: j}
		}
		d := hybrid.New(card, host, o.Plan.attention(j))
		d.Trace(o.Trace)
		d.Stream(o.Plan.Cards[j].Stream)
		d.ReadAhead(o.Plan.Ahead)
		pairs = append(pairs, d)
	}
	if len(pairs) == 1 {
		return pairs[0], nil
	}
	return hybrid.NewFleet(pairs, o.Plan.homes()), nil
}

// open opens card j.
func (p *Plan) open(j int, l *trace.Log) (compute.Device, error) {
	c := &p.Cards[j]
	card, err := vulkan.Open(vulkan.Options{Device: c.Device, Budget: c.Budget, Cache: pipelineCache(), Messages: p.Messages, Trace: l})
	if err != nil || p.wrap == nil {
		return card, err
	}
	return p.wrap(card), nil
}

// homes are the cards that layers belong to. One that lies in RAM belongs to its neighbour's, so that a pass need not change cards
// for it. [layers]
func (p *Plan) homes() []int {
	var homes []int
	for _, place := range p.places() {
		homes = append(homes, place.GPU)
	}
	return homes[:max(0, len(homes)-1)]
}

// places are Places with a card for every layer, and for the head.
func (p *Plan) places() []placement.Place {
	home := max(0, slices.IndexFunc(p.Places, func(y placement.Place) bool { return y.GPU != placement.RAM }))
	if len(p.Places) > 0 {
		home = max(0, p.Places[home].GPU)
	}
	all := slices.Clone(p.Places)
	for l := range all {
		if all[l].GPU != placement.RAM {
			home = all[l].GPU
		}
		all[l].GPU = home
	}
	return all
}

// attention says of card j's layers whether keys and values lie there.
func (p *Plan) attention(j int) []bool {
	var on []bool
	for l, home := range p.homes() {
		if home == j {
			on = append(on, p.Places[l].Attention)
		}
	}
	return on
}

// pipelineCache is the folder where compiled shaders are kept; empty where there is no home for it.
func pipelineCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "powerinfer")
}

// places are the plan's, or nil.
func (o *Options) places() []placement.Place {
	if o.Plan == nil {
		return nil
	}
	return o.Plan.places()
}

// onCards is how many bytes of the model take no RAM.
func (o *Options) onCards() int64 {
	if o.Plan == nil {
		return 0
	}
	return o.Plan.Bytes
}

// Plan is what of the model lies on cards; nil if it has none, or no longer.
func (e *Engine) Plan() *Plan {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.dev.(beside); !ok {
		return nil
	}
	return e.options.Plan
}

// CardUse is what a card's memory is used for, in bytes.
type CardUse struct {
	Name                  string
	Used, Planned, Budget int64
	Note                  string // what a user may want to know of the card
}

// CardUse is that of the engine's cards; empty if it has none, or no longer.
func (e *Engine) CardUse() []CardUse {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, ok := e.dev.(beside)
	if !ok {
		return nil
	}
	var all []CardUse
	for j, c := range d.Cards() {
		plan := &e.options.Plan.Cards[j]
		use := CardUse{Name: c.Name(), Planned: plan.Planned, Budget: plan.Budget}
		if c, ok := c.(interface{ Used() int64 }); ok {
			use.Used = c.Used()
		}
		if c, ok := c.(interface{ Note() string }); ok {
			use.Note = c.Note()
		}
		all = append(all, use)
	}
	return all
}
