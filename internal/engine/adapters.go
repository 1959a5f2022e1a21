package engine

import "slices"

// An Adapter is a LoRA adapter of an open engine.
type Adapter struct {
	Path  string
	Scale float32 // the adapter's default scale, for requests without their own
}

// Adapters returns the engine's adapters.
func (e *Engine) Adapters() []Adapter {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]Adapter, len(e.options.Adapters))
	for i, a := range e.options.Adapters {
		list[i] = Adapter{a.File.Path, a.Scale}
	}
	return list
}

// SetScales changes the adapters' scales for the steps that follow. Keys and values that were computed before serve no
// later request.
func (e *Engine) SetScales(scales []float32) error {
	if err := e.checkScales(scales); err != nil {
		return err
	}
	e.sched.forget(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.model.Scales = slices.Clone(scales)
		e.options.Adapters = slices.Clone(e.options.Adapters) // a later reload after a GPU failure must use the new scales
		for i := range e.options.Adapters {
			e.options.Adapters[i].Scale = scales[i]
		}
	})
	return nil
}

func (e *Engine) checkScales(scales []float32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil {
		return e.broken
	}
	return e.model.CheckScales(scales)
}
