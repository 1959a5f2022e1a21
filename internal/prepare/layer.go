package prepare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/train"
)

const rankStep = prepared.RankStep

// Layer holds the results of preparing a feed-forward layer. Shares are 0…1; bytes are those that a token reads.
type Layer struct {
	Mode     prepared.Mode
	Why      string // why it runs exact, one line
	Rank     int
	AlwaysOn int
	Learned  train.Quality // of the predicted neurons, on samples kept from training; also if the predictor was dropped
	HeldOut  train.Quality // of all neurons, on held-out text; zero without one
	Weights  float64       // bytes of the predictor
	Dense    float64
	Exact    float64
	Predict  float64 // of the layer in mode predict; Exact if it runs exact
}

// trainer trains the layers of one model.
type trainer struct {
	f       *gguf.File
	c       model.Config
	w       *work
	o       *Options
	stats   *neuron.Stats
	order   neuron.Order
	pool    *pool.Pool
	heldOut bool
}

// round is one pass over the layers with its own targets.
type round struct {
	number int
	recall float64 // of mass
}

// layer trains one layer's predictor, or returns an earlier run's.
func (t *trainer) layer(ctx context.Context, l int, r round, progress func(share float64)) (Layer, prepared.Predictor, error) {
	name := fmt.Sprintf("predictor-%d-%04d", r.number, l)
	y, p, ok, err := t.w.readLayer(name)
	if ok || err != nil {
		return y, p, err
	}
	if y, p, err = t.train(ctx, l, r, progress); err != nil {
		return y, p, err
	}
	if err := t.w.writeLayer(name, y, p); err != nil {
		return y, p, err
	}
	t.w.remove(checkpointName(l, r))
	return y, p, nil
}

func checkpointName(l int, r round) string { return fmt.Sprintf("checkpoint-%d-%04d", r.number, l) }

func (t *trainer) train(ctx context.Context, l int, r round, progress func(share float64)) (Layer, prepared.Predictor, error) {
	k, err := layerCost(t.f, t.c, l, t.o.PredictorType)
	if err != nil {
		return Layer{}, prepared.Predictor{}, err
	}
	active := 1 - t.stats.Sparsity(l)
	always := t.stats.AlwaysOn(l, k.alwaysFrom())
	y := Layer{Dense: k.dense(), Exact: k.exact(active)}
	exact := func(why string, args ...any) (Layer, prepared.Predictor, error) {
		y.Mode, y.Why, y.Predict, y.Rank, y.AlwaysOn, y.Weights = prepared.Exact, fmt.Sprintf(why, args...), y.Exact, 0, 0, 0
		return y, prepared.Predictor{}, nil
	}
	switch least := k.predict(rankStep, always, active, active); {
	case t.o.NoPredictors:
		return exact("no predictors were asked for")
	case t.c.FF-always < rankStep:
		return exact("all but %d neurons are active for nearly every token", t.c.FF-always)
	case least >= y.Exact:
		return exact("even the smallest predictor would read %.0f %% of what exact reads", 100*least/y.Exact)
	}
	s, err := readTrace(t.w, calibrating, l, t.c.Embd, t.c.FF)
	if err != nil {
		return y, prepared.Predictor{}, err
	}
	p, q, err := t.fit(ctx, s, k, l, always, r, progress)
	switch {
	case errors.Is(err, train.ErrInactive):
		return exact("no activation to learn from was sampled")
	case errors.Is(err, train.ErrDiverged):
		return exact("%v", err)
	case err != nil:
		return y, prepared.Predictor{}, fmt.Errorf("layer %d: %w", l, err)
	}
	y.Mode, y.Rank, y.AlwaysOn, y.Learned = prepared.Predict, p.Rank, always, q
	y.Weights = k.weights(p.Rank, t.c.FF-always)
	y.Predict = k.predict(p.Rank, always, q.PredictedShare, active)
	switch {
	case y.Predict >= y.Exact:
		return exact("the predictor that reaches the targets reads %.0f %% of what exact reads", 100*y.Predict/y.Exact)
	case q.Accuracy < t.o.Accuracy:
		return exact("at the target recall only %.1f %% of decisions are right", 100*q.Accuracy)
	}
	if t.heldOut {
		held, err := readTrace(t.w, holdingOut, l, t.c.Embd, t.c.FF)
		if err != nil {
			return y, prepared.Predictor{}, err
		}
		if y.HeldOut, err = train.Judge(held, p, t.order[l][always:], t.pool); err != nil {
			return y, prepared.Predictor{}, fmt.Errorf("layer %d: %w", l, err)
		}
	}
	return y, prepared.Predictor{Rank: p.Rank, FC1: p.FC1, FC2: p.FC2}, nil
}

// strictness is the share of the allowed misses that training may make: documents that it does not judge by have about
// a tenth more on the demo model.
const strictness = 0.85

// strict returns the target of training for a target on other text.
func strict(target float64) float64 { return 1 - strictness*(1-target) }

// fit runs the training, from a checkpoint if there is one.
func (t *trainer) fit(ctx context.Context, s *train.Samples, k cost, l, always int, r round, progress func(share float64)) (*train.Predictor, train.Quality, error) {
	gate, err := t.gateRows(l)
	if err != nil {
		return nil, train.Quality{}, err
	}
	checkpoint, _, err := t.w.read(checkpointName(l, r))
	if err != nil {
		return nil, train.Quality{}, err
	}
	active := 1 - t.stats.Sparsity(l)
	trials, shown := 0.0, 0.0
	show := func(share float64) { // training may be prolonged, which makes the same epoch a smaller share
		shown = max(shown, share)
		progress(shown)
	}
	return train.Train(ctx, s, train.Options{
		Neurons: t.order[l][always:], MassRecall: strict(r.recall), Accuracy: strict(t.o.Accuracy), Type: t.o.PredictorType, Seed: t.o.Seed + uint64(l),
		Pool: t.pool, Gate: gate, Resume: checkpoint,
		Bytes: func(rank int, predicted float64) float64 { return k.predict(rank, always, predicted, active) },
		Save:  func(b []byte) error { return t.w.write(checkpointName(l, r), b) },
		Progress: func(p train.Progress) {
			if p.Trial { // the search takes about half of the time
				trials = 0.5 * (1 - math.Pow(0.8, float64(p.Epoch)))
				show(trials)
				return
			}
			show(trials + (1-trials)*float64(p.Epoch)/float64(p.Epochs))
		},
	})
}

// gateRows reads the rows that decide whether a layer's neurons are active, and the offsets of their products.
func (t *trainer) gateRows(l int) (func(row []float32, neuron int) float32, error) {
	bias := []float32(nil)
	if !t.c.Blocks[l].Gated {
		if b := t.f.Tensor(fmt.Sprintf("blk.%d.ffn_up.bias", l)); b != nil && b.Elems() == t.c.FF && b.Type.BlockElems() == 1 {
			bias = make([]float32, t.c.FF)
			quant.Decode(b.Type, bias, b.Data)
		}
	}
	n := t.c.NeuronRows(t.f, l)
	w := n.Deciding()
	if w == nil || w.Rows() != t.c.FF || w.Shape[0] != t.c.Embd {
		return nil, fmt.Errorf("%s: layer %d has no rows that decide about %d neurons", t.f.Path, l, t.c.FF)
	}
	bytes := w.Type.RowBytes(t.c.Embd)
	threshold := float32(0)
	if t.c.Act.Kind == compute.FATReLU {
		threshold = t.c.Act.Threshold
	}
	return func(row []float32, neuron int) float32 {
		quant.Decode(w.Type, row, w.Data[neuron*bytes:][:bytes])
		if bias != nil {
			return bias[neuron] - threshold
		}
		return -threshold
	}, nil
}

// A finished layer's file: the length of what follows as JSON, u32, that JSON, and the predictor's weights, F32;
// sealed.

func (w *work) writeLayer(name string, y Layer, p prepared.Predictor) error {
	head, err := json.Marshal(y)
	if err != nil {
		return err
	}
	b := appendFields(nil, uint32(len(head)), head, uint64(len(p.FC1)), p.FC1, uint64(len(p.FC2)), p.FC2)
	return w.write(name, sealed(b))
}

func (w *work) readLayer(name string) (y Layer, p prepared.Predictor, ok bool, err error) {
	b, ok, err := w.read(name)
	if !ok || err != nil {
		return y, p, false, err
	}
	bad := func() (Layer, prepared.Predictor, bool, error) {
		return Layer{}, prepared.Predictor{}, false, w.damaged(name)
	}
	b, ok = unsealed(b)
	if !ok {
		return bad()
	}
	var n uint32
	if b, ok = readFields(b, &n); !ok || int(n) > len(b) || json.Unmarshal(b[:n], &y) != nil {
		return bad()
	}
	b = b[n:]
	for _, weights := range []*[]float32{&p.FC1, &p.FC2} {
		var n uint64
		if b, ok = readFields(b, &n); !ok || n > uint64(len(b)/4) {
			return bad()
		}
		if n == 0 {
			continue
		}
		*weights = make([]float32, n)
		if b, ok = readFields(b, *weights); !ok {
			return bad()
		}
	}
	p.Rank = y.Rank
	return y, p, true, nil
}
