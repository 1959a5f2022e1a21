package model

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// Adapter is a LoRA adapter.
type Adapter = nn.Adapter

// ModeWith returns asked. If that is Auto and an adapter changes feed-forward layers, it returns the safe mode instead,
// which changes no results: the file's predictors and their measured cost belong to the model without the adapter.
func (c *Config) ModeWith(asked SparseMode, files []Adapter) SparseMode {
	if asked == Auto && nn.AdaptsNeurons(files) != "" {
		return c.safe()
	}
	return asked
}

// scalesOf returns the adapters' scales of a step: its own, else the model's.
func (m *Model) scalesOf(p *compute.Params) []float32 {
	if p.Scales != nil {
		return p.Scales
	}
	return m.Scales
}

// CheckScales reports whether scales are numbers for each of the model's adapters.
func (m *Model) CheckScales(scales []float32) error { return m.adapters.CheckScales(scales) }
