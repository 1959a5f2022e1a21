package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// store writes the model to path with what thresholds of its predictors cost, in place of what the file said of that.
func (r *run) store(ctx context.Context, rep *Report, path string) error {
	c, err := r.curve(rep)
	if err != nil {
		return fmt.Errorf("%s is not written: %w", path, err)
	}
	return prepared.WriteCurve(ctx, path, r.file, c, nil)
}

// curve returns the points that differ only in the predictors' threshold.
func (r *run) curve(rep *Report) (*prepared.Curve, error) {
	if r.config.Prepared == nil {
		return nil, errors.New("the model has no predictors whose thresholds could be stored; powerinfer prepare stores what others need")
	}
	if n := r.lab.text.Documents; n < eval.LeastDocuments {
		return nil, fmt.Errorf("%d windows of text were measured, and limits need the spread between %d; give more with --chunks", n, eval.LeastDocuments)
	}
	held := uint64(r.lab.count) * uint64(r.lab.window)
	c := &prepared.Curve{
		Way: prepared.ByPredictor, Documents: uint64(r.lab.text.Documents), Calibration: r.config.Prepared.Calibration, HeldOut: prepared.Text{SHA256: r.textSum, Tokens: held},
	}
	for i := range rep.Points {
		p := &rep.Points[i]
		if p.File != "" || p.Quality == nil || p.Reads == nil || p.Activation != "" || p.AlwaysOn > 0 || p.Budget > 0 {
			continue
		}
		c.DenseBytes = float32(p.Reads.Full - (p.Reads.All() - p.Reads.FFN))
		switch p.Mode {
		case model.Exact.String():
			c.ExactBytes = float32(p.Reads.FFN)
		case model.Predict.String():
			c.Add(p.stored(&r.lab.text))
		}
	}
	if len(c.Points) == 0 {
		return nil, errors.New("no threshold of the predictors was measured and timed; --modes has to name predict, and -r at least one run")
	}
	if c.ExactBytes == 0 {
		return nil, errors.New("mode exact was not measured, which is what is left where no threshold keeps a bound; --modes has to name it")
	}
	return c, nil
}

// stored returns p as a file's curve has it.
func (p *Point) stored(y *eval.Windows) prepared.Point {
	q := p.Quality
	active, _ := q.Active()
	return prepared.Point{
		Setting: *p.Threshold, KLDivergence: float32(q.KLDivergence.Value), Error: float32(eval.MeanError(q.limit(y))), SameTop: float32(q.SameTop.Value),
		MostKLD: float32(q.MostKLD), LeastSameTop: float32(q.LeastSameTop), Perplexity: float32(q.Perplexity.Value),
		Active: float32(active), Bytes: float32(p.Reads.FFN),
	}
}
