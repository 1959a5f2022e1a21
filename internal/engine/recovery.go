package engine

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/model"
)

// recover continues after a step failed with err, if Devices has another choice: it loads the model there, and returns
// errLost. Otherwise it returns err, or why it cannot continue.
func (e *Engine) recover(err error) error {
	if !e.options.Devices.After(err) {
		return err
	}
	if err := e.reload(err); err != nil {
		return err
	}
	return errLost
}

// reload loads the model on the remaining devices after cause. All keys and values are lost. It belongs to no request,
// so it has no context.
func (e *Engine) reload(cause error) error {
	past := e.neurons()
	_ = e.dev.Close()                                    // its error says only that a GPU has failed
	e.options.Progress, e.options.UBatch = nil, e.ubatch // the scheduler's steps stay as they are
	if err := e.load(context.Background()); err != nil {
		e.closeFiles()
		e.broken = fmt.Errorf("%w, and what is left cannot go on: %w", cause, err)
		return e.broken
	}
	// Counts continue; NeuronUse.Since subtracts.
	e.work.past = make([]model.NeuronUse, len(past))
	for l, u := range past {
		e.work.past[l] = model.NeuronUse{}.Since(u)
	}
	return nil
}
