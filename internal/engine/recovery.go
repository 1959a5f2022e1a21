package engine

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/model"
)

// recover continues after a step failed with err, if Devices has something left to try: it loads the model there again,
// and the error is errLost. Otherwise it returns err, or why it cannot continue.
func (e *Engine) recover(err error) error {
	if !e.options.Devices.After(err) {
		return err
	}
	if err := e.reload(err); err != nil {
		return err
	}
	return errLost
}

// reload loads the model again on the devices that Devices has left after cause. All keys and values are lost. It
// belongs to no request, so it has no context.
func (e *Engine) reload(cause error) error {
	past := e.neurons()
	_ = e.dev.Close()                                    // says only that a GPU has failed
	e.options.Progress, e.options.UBatch = nil, e.ubatch // the scheduler's steps stay as they are
	if err := e.load(context.Background()); err != nil {
		e.closeFiles()
		e.broken = fmt.Errorf("%w, and what is left cannot go on: %w", cause, err)
		return e.broken
	}
	// What was counted stays counted: NeuronUse.Since takes away.
	e.past = make([]model.NeuronUse, len(past))
	for l, u := range past {
		e.past[l] = model.NeuronUse{}.Since(u)
	}
	return nil
}
