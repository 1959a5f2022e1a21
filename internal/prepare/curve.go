package prepare

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// A curve says what settings cost. Its limits come from the spread between documents, since a bound that is kept on
// average is not kept by each.

// laid lays the text held out in windows.
func (m *measurer) laid(window int) eval.Windows {
	var docs [][]int32
	for _, d := range m.text {
		docs = append(docs, d.tokens)
	}
	return eval.Lay(docs, window, 0)
}

// curveMaker measures the points of a curve.
type curveMaker struct {
	*measurer
	file   *gguf.File // that is measured
	config model.Config
	laying eval.Windows
}

// newCurve measures file's dense reference and returns a maker of points and the curve without points.
func (r *run) newCurve(ctx context.Context, file *gguf.File, way prepared.Way) (*curveMaker, *prepared.Curve, error) {
	m := &curveMaker{measurer: &measurer{f: r.f, w: r.w, o: r.o, text: r.texts.heldOut, mapped: r.id.Mapped}, file: file}
	window, err := m.window()
	if err != nil {
		return nil, nil, err
	}
	if m.config, err = model.ReadConfig(file, r.o.Activation); err != nil {
		return nil, nil, err
	}
	if err := m.dense(ctx, window); err != nil {
		return nil, nil, err
	}
	if m.laying = m.laid(window); m.laying.Single {
		r.o.note("the text held out has fewer than %d documents of %d tokens: limits come from the spread between its windows, and mean texts of that length", eval.LeastDocuments, window)
	}
	c := &prepared.Curve{Way: way, Documents: uint64(m.laying.Documents), Calibration: r.texts.calibrated(), HeldOut: r.texts.held()}
	dense, exact, err := m.bounds()
	c.DenseBytes, c.ExactBytes = float32(dense), float32(exact)
	return m, c, err
}

// bounds returns the bytes of feed-forward weights that a token is expected to read in mode off and in mode exact, by
// the file's frequencies.
func (m *curveMaker) bounds() (dense, exact float64, err error) {
	if m.config.Experts.Count > 0 {
		return m.config.ExpertBytes(m.file), 0, nil
	}
	for l := range m.config.Layers {
		k, err := layerCost(m.file, m.config, l, m.o.PredictorType)
		if err != nil {
			return 0, 0, err
		}
		dense += k.dense()
		if p := m.config.Prepared; p != nil {
			active := 0.0
			for _, f := range p.Layers[l].Frequency {
				active += float64(f) / float64(len(p.Layers[l].Frequency))
			}
			exact += k.exact(active)
		}
	}
	return dense, exact, nil
}

// point measures a setting, or returns what an earlier run found. value is the point's.
func (m *curveMaker) point(ctx context.Context, value float64, s setting) (p prepared.Point, err error) {
	name := fmt.Sprintf("point-%.6f.json", value)
	if b, ok, err := m.w.read(name); err != nil {
		return p, err
	} else if ok {
		if json.Unmarshal(b, &p) != nil {
			return p, m.w.damaged(name)
		}
		return p, nil
	}
	d, use, err := m.compare(ctx, m.file, s)
	if err != nil {
		return p, err
	}
	docs := m.laying.Join(d.Chunks)
	p = prepared.Point{
		Setting: float32(value), Magnitudes: s.magnitudes, KLDivergence: float32(max(0, d.KLD.Value)), Error: float32(eval.MeanError(docs)), SameTop: float32(d.SameTop.Value),
		MostKLD: float32(min(eval.MostKLD(docs), math.MaxFloat32)), LeastSameTop: float32(eval.LeastSameTop(docs)), Perplexity: float32(d.PPL.Value),
	}
	var active, bytes float64
	if m.config.Experts.Count > 0 {
		active, bytes = m.expertsRead(use)
	} else if active, bytes, err = m.reads(use); err != nil {
		return p, err
	}
	p.Active, p.Bytes = float32(active), float32(bytes)
	b, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	return p, m.w.write(name, b)
}

// reads returns the share of neurons with up and down rows that were read, and the bytes of feed-forward weights that a
// token read.
func (m *curveMaker) reads(use []model.NeuronUse) (active, bytes float64, err error) {
	var neurons, passed float64
	for l, u := range use {
		k, err := layerCost(m.file, m.config, l, m.o.PredictorType)
		if err != nil {
			return 0, 0, err
		}
		tokens := max(1, float64(u.Tokens))
		gated := float64(u.Gated) / tokens
		neurons, passed = neurons+float64(k.ff), passed+gated
		if u.Mode == model.Off {
			bytes += k.dense()
			continue
		}
		bytes += float64(u.Predicted)/tokens*float64(k.deciding) + gated*float64(k.following)
		if u.Mode == model.Predict {
			bytes += float64(predictorBytes(m.file, l))
		}
	}
	return passed / neurons, bytes, nil
}

// predictorBytes returns the size of a layer's predictor.
func predictorBytes(f *gguf.File, layer int) (n int) {
	for _, name := range []string{"fc1", "fc2"} {
		if t := f.Tensor(fmt.Sprintf("blk.%d.%s.weight", layer, name)); t != nil {
			n += len(t.Data)
		}
	}
	return n
}

// The thresholds of predictors' logits of a curve, as steps from the file's own, in logits. They are measured from the
// file's own outwards, until another step changes nothing worth it.
const (
	thresholdStep = 1.0
	mostSteps     = 4   // each way
	worstKLD      = 0.3 // nats a token; nobody wants a setting beyond
)

// predictorCurve measures what thresholds of the predictors of the prepared file at path cost.
func (r *run) predictorCurve(ctx context.Context, file *gguf.File) (*prepared.Curve, error) {
	m, c, err := r.newCurve(ctx, file, prepared.ByPredictor)
	if err != nil {
		return nil, err
	}
	own := m.config.Threshold
	for _, direction := range []float32{-1, 1} {
		for i := range r.o.steps + 1 {
			if i == 0 && direction > 0 {
				continue
			}
			at := own + direction*float32(i)*thresholdStep
			p, err := m.point(ctx, float64(at), setting{mode: model.Predict, threshold: &at})
			if err != nil {
				return nil, err
			}
			c.Add(p)
			if direction < 0 && p.Bytes >= c.ExactBytes || direction > 0 && p.KLDivergence > worstKLD {
				break
			}
		}
	}
	return c, nil
}

// measureCurve measures a prepared file, or any with experts, and writes it with its curve.
func (r *run) measureCurve(ctx context.Context) (*Report, error) {
	v, err := r.observer(nil)
	if err != nil {
		return nil, err
	}
	defer v.close()
	if err := v.announce(ctx); err != nil {
		return nil, err
	}
	v.close() // before the file is loaded in another mode
	var c *prepared.Curve
	if r.c.Experts.Count > 0 {
		c, err = r.expertCurve(ctx)
	} else if c, err = r.predictorCurve(ctx, r.f); err == nil {
		c.Calibration = r.c.Prepared.Calibration
	}
	if err != nil {
		return nil, err
	}
	if err := prepared.WriteCurve(ctx, r.w.path(fileModel), r.f, c, r.o.bytes(StageWrite)); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Report{Curve: c, Calibration: c.Calibration, HeldOut: c.HeldOut}, r.finish(ctx)
}

// giveCurve measures the prepared file at path, with neurons counted on calibration, and stores its curve.
func (r *run) giveCurve(ctx context.Context, path string, calibration prepared.Text) (*prepared.Curve, error) {
	c, err := r.curveAt(ctx, path)
	if err != nil {
		return nil, err
	}
	c.Calibration = calibration
	return c, prepared.SetCurve(ctx, path, c, nil)
}

func (r *run) curveAt(ctx context.Context, path string) (*prepared.Curve, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return r.predictorCurve(ctx, f)
}
