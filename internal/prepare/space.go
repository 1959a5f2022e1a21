package prepare

import (
	"fmt"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// predictorShare is how much predictors and statistics add to a model at most: ranks are an eighth of the width,
// usually less.
const predictorShare = 0.1

// space is the number of bytes that a run writes.
type space struct {
	samples     float64 // of all layers' traces
	model       float64 // of the prepared file
	predictions float64 // of the model on the text held out
}

// checkSpace returns an error if the disks have less room than the run will need; samples are the bytes of all traces.
func (r *run) checkSpace(samples float64) error {
	s := space{}
	if r.sampled() {
		s.samples = samples
	}
	if !r.o.profileOnly {
		for _, t := range r.f.Tensors {
			s.model += (1 + predictorShare) * float64(len(t.Data))
		}
		const bytesPerLogit = 2 // in llama.cpp's form of saved predictions, for half of the positions
		s.predictions = float64(countTokens(r.texts.heldOut)) / 2 * float64(r.c.Vocab) * bytesPerLogit
	}
	if err := s.fits(r.w.dir, "--work", s.samples+s.model+s.predictions); err != nil {
		return err
	}
	return s.fits(filepath.Dir(r.o.Out), "-o", s.model)
}

// fits refuses a folder on a disk with less than need bytes of room; flag names another.
func (s *space) fits(dir, flag string, need float64) error {
	free, err := hw.FreeDisk(dir)
	if unknown := err != nil; unknown || float64(free) >= need {
		return nil
	}
	const mib = 1 << 20
	return fmt.Errorf("%s needs %.0f MiB (samples %.0f, model %.0f, predictions %.0f) and its disk has %.0f free; make room, name a folder elsewhere with %s, or lower --trace-budget, and go on with --resume",
		dir, need/mib, s.samples/mib, s.model/mib, s.predictions/mib, float64(free)/mib, flag)
}
