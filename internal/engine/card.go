package engine

import (
	"os"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Card is a graphics card, and what of the model goes there.
type Card struct {
	Device   string            // as vulkan.Options has it
	Budget   int64             // bytes of its memory that may be in use
	Bytes    int64             // of weights and cache that Places put there
	Planned  int64             // with the memory for computing; only told
	Places   []placement.Place // [layers+1], of each layer and of the head
	Stream   hybrid.Streaming  // which prompts cold neurons are sent to the card for
	Messages func(string)      // switches the validation layer on and is told what it finds; nil: it is off
	Notice   func(string)      // is told in a line why the card is given up; may be nil

	wrap func(compute.Device) compute.Device // of tests
}

// open opens the processors: the host alone, or beside a card.
func (o *Options) open(threads int) (compute.Device, error) {
	host, err := cpu.New(cpu.Options{Threads: threads, ThreadsBatch: pick(o.ThreadsBatch, threads), Lock: o.Lock})
	if err != nil || o.Card == nil {
		return host, err
	}
	card, err := vulkan.Open(vulkan.Options{Device: o.Card.Device, Budget: o.Card.Budget, Cache: pipelineCache(), Messages: o.Card.Messages, Trace: o.Trace})
	if err != nil {
		host.Close()
		return nil, &hybrid.CardError{Err: err}
	}
	var attention []bool
	for _, p := range o.Card.Places[:max(0, len(o.Card.Places)-1)] {
		attention = append(attention, p.Attention)
	}
	var dev compute.Device = card
	if o.Card.wrap != nil {
		dev = o.Card.wrap(card)
	}
	both := hybrid.New(dev, host, attention)
	both.Trace(o.Trace)
	both.Stream(o.Card.Stream)
	return both, nil
}

// pipelineCache is the folder where compiled shaders are kept; empty where there is no home for it.
func pipelineCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "powerinfer")
}

// places are Card's, or nil.
func (o *Options) places() []placement.Place {
	if o.Card == nil {
		return nil
	}
	return o.Card.Places
}

// onCard is how many bytes of the model take no RAM.
func (o *Options) onCard() int64 {
	if o.Card == nil {
		return 0
	}
	return o.Card.Bytes
}

// CardUse is what a card's memory is used for, in bytes.
type CardUse struct{ Used, Planned, Budget int64 }

// CardUse is that of the engine's card; false if it has none, or no longer.
func (e *Engine) CardUse() (CardUse, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, ok := e.dev.(*hybrid.Device)
	if !ok {
		return CardUse{}, false
	}
	card, ok := d.Cards()[0].(interface{ Used() int64 })
	if !ok {
		return CardUse{}, false
	}
	return CardUse{Used: card.Used(), Planned: e.options.Card.Planned, Budget: e.options.Card.Budget}, true
}
