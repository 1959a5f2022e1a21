package prepared

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// The keys of a curve, as docs/prepared-file.md lists them. Prepared files with predictors may have them, and models
// with SiLU, GELU or experts.
const (
	keyCurve             = "powerinfer.curve." // prefix of all of them
	keyCurveMode         = keyCurve + "mode"
	keyCurveSetting      = keyCurve + "setting"
	keyCurveRank         = keyCurve + "rank"
	keyCurveKLD          = keyCurve + "kl_divergence"
	keyCurveError        = keyCurve + "kl_error"
	keyCurveMostKLD      = keyCurve + "kl_limit"
	keyCurveSameTop      = keyCurve + "same_top"
	keyCurveLeastSameTop = keyCurve + "same_top_limit"
	keyCurvePerplexity   = keyCurve + "perplexity"
	keyCurveActive       = keyCurve + "active"
	keyCurveBytes        = keyCurve + "bytes"
	keyCurveMagnitudes   = keyCurve + "magnitudes"
	keyCurveDense        = keyCurve + "dense_bytes"
	keyCurveExact        = keyCurve + "exact_bytes"
	keyCurveDocuments    = keyCurve + "documents"
	keyCurveText         = keyCurve + "calibration" // .sha256, .tokens
	keyCurveHeldOut      = keyCurve + "held_out"    // .sha256, .tokens
)

// maxPoints bounds the points of a curve.
const maxPoints = 1 << 10

// Way says what is left out, neurons or experts.
type Way string

// The ways.
const (
	ByPredictor Way = "predict"   // neurons with a logit of their layer's predictor below a threshold
	ByMagnitude Way = "threshold" // neurons with an activation smaller than their layer's threshold
	ByWeight    Way = "experts"   // experts of low rank that are not in RAM, with a weight below a share of their token's weights
)

// Curve says what it costs to leave neurons or experts out; later points leave out more. For experts it is the highest
// possible cost: none of the experts that may be left out is in RAM.
type Curve struct {
	Way                  Way
	Rank                 int // by weight: the highest ranked experts of a token that always stay
	Points               []Point
	DenseBytes           float32 // bytes of feed-forward weights, or of experts, that a token reads if nothing is left out
	ExactBytes           float32 // the same if neurons with an activation of exactly zero are left out; 0 if the activation has no zeros
	Documents            uint64  // that limits were found from
	Calibration, HeldOut Text    // what neurons were counted on, and what was measured on
}

// Point is one setting of a curve.
type Point struct {
	// Setting is, by predictor, the logit below which neurons are left out; by magnitude, the share of the calibration
	// text's activations that are set to zero, 0…1; by weight, the share of a token's weights, 0…1, below which an
	// expert may be left out.
	Setting      float32
	Magnitudes   []float32 // [layers] by magnitude: an activation of a smaller magnitude is taken as zero
	KLDivergence float32   // mean, nats a token, from dense
	Error        float32   // standard error of KLDivergence
	MostKLD      float32   // what at least 19 of 20 other documents are expected to stay within, each by its mean
	SameTop      float32   // share of tokens with the same likeliest successor as dense
	LeastSameTop float32   // what at least 19 of 20 other documents are expected to reach
	Perplexity   float32
	Active       float32 // share of neurons with up and down rows that are read, or of experts that stay
	Bytes        float32 // bytes of feed-forward weights, or of experts, that a token reads, predictors included
}

// Bound is what a setting has to keep in at least 19 of 20 documents. The zero value bounds nothing.
type Bound struct {
	KLD     float64 // mean KL divergence of a document from dense, in nats a token, at most; 0: any
	SameTop float64 // least share of a document's tokens with the same likeliest successor as dense; 0: any
}

// IsSet reports whether anything is bounded.
func (b Bound) IsSet() bool { return b != Bound{} }

// Check returns an error where b is no bound.
func (b Bound) Check() error {
	switch {
	case !(b.KLD >= 0) || math.IsInf(b.KLD, 0):
		return fmt.Errorf("a KL divergence of %g nats a token is no bound; give a number above 0, such as 0.01", b.KLD)
	case !(b.SameTop >= 0 && b.SameTop <= 1):
		return fmt.Errorf("%g is no share of tokens; give a number above 0 and up to 1, such as 0.97", b.SameTop)
	}
	return nil
}

func (b Bound) String() string {
	var parts []string
	if b.KLD > 0 {
		parts = append(parts, fmt.Sprintf("a KL divergence of %g", b.KLD))
	}
	if b.SameTop > 0 {
		parts = append(parts, fmt.Sprintf("the same top token for %g %% of tokens", 100*b.SameTop))
	}
	return strings.Join(parts, " and ")
}

// Keeps reports whether 19 of 20 documents are expected to keep b.
func (p *Point) Keeps(b Bound) bool {
	return (b.KLD == 0 || p.MostKLD <= float32(b.KLD)) && (b.SameTop == 0 || p.LeastSameTop >= float32(b.SameTop))
}

// Within returns the last point before the first one that does not keep b; nil if the first point does not.
func (c *Curve) Within(b Bound) *Point {
	for i := range c.Points {
		if !c.Points[i].Keeps(b) {
			if i == 0 {
				return nil
			}
			return &c.Points[i-1]
		}
	}
	return &c.Points[len(c.Points)-1]
}

// Add puts p where its setting belongs.
func (c *Curve) Add(p Point) {
	at, _ := slices.BinarySearchFunc(c.Points, p.Setting, func(p Point, v float32) int { return cmp.Compare(p.Setting, v) })
	c.Points = slices.Insert(c.Points, at, p)
}

func (c *Curve) check(layers int) error {
	switch n := len(c.Points); {
	case c.Way != ByPredictor && c.Way != ByMagnitude && c.Way != ByWeight:
		return bad(keyCurveMode, "%.80q is none of %s, %s and %s", string(c.Way), ByPredictor, ByMagnitude, ByWeight)
	case c.Way == ByWeight && (c.Rank < 1 || c.Rank > maxExperts):
		return bad(keyCurveRank, "%d is not a number of experts", c.Rank)
	case n < 1 || n > maxPoints:
		return bad(keyCurveSetting, "%d points; a curve has 1 to %d", n, maxPoints)
	case !(c.DenseBytes > 0) || !finite(c.DenseBytes):
		return bad(keyCurveDense, "%g is not a number of bytes", c.DenseBytes)
	case !(c.ExactBytes >= 0 && c.ExactBytes <= c.DenseBytes):
		return bad(keyCurveExact, "%g is outside 0…%g, the bytes of all neurons", c.ExactBytes, c.DenseBytes)
	}
	for i := range c.Points {
		p := &c.Points[i]
		if i > 0 && !(p.Setting > c.Points[i-1].Setting) {
			return bad(keyCurveSetting, "element %d: %g is not above %g before it", i, p.Setting, c.Points[i-1].Setting)
		}
		if err := c.checkSetting(i, layers); err != nil {
			return err
		}
		if err := p.check(i); err != nil {
			return err
		}
	}
	if err := c.Calibration.check(keyCurveText); err != nil {
		return err
	}
	return c.HeldOut.check(keyCurveHeldOut)
}

func (c *Curve) checkSetting(i, layers int) error {
	p := &c.Points[i]
	if c.Way == ByPredictor {
		if !finite(p.Setting) {
			return bad(keyCurveSetting, "element %d: %g is not a threshold", i, p.Setting)
		}
		return nil
	}
	if !(p.Setting > 0 && p.Setting < 1) {
		return bad(keyCurveSetting, "element %d: %g is not a share above 0 and below 1", i, p.Setting)
	}
	if c.Way == ByWeight {
		return nil
	}
	if len(p.Magnitudes) != layers {
		return bad(keyCurveMagnitudes, "%d thresholds of point %d for %d layers", len(p.Magnitudes), i, layers)
	}
	for l, t := range p.Magnitudes {
		if !(t >= 0) || math.IsInf(float64(t), 0) {
			return bad(keyCurveMagnitudes, "point %d, layer %d: %g is not a threshold", i, l, t)
		}
	}
	return nil
}

func (p *Point) check(i int) error {
	for _, x := range []struct {
		key    string
		value  float32
		lo, hi float32
	}{
		{keyCurveKLD, p.KLDivergence, 0, math.MaxFloat32},
		{keyCurveError, p.Error, 0, math.MaxFloat32},
		{keyCurveMostKLD, p.MostKLD, 0, math.MaxFloat32},
		{keyCurveSameTop, p.SameTop, 0, 1},
		{keyCurveLeastSameTop, p.LeastSameTop, 0, 1},
		{keyCurvePerplexity, p.Perplexity, 1, math.MaxFloat32},
		{keyCurveActive, p.Active, 0, 1},
		{keyCurveBytes, p.Bytes, 0, math.MaxFloat32},
	} {
		if !(x.value >= x.lo && x.value <= x.hi) {
			return bad(x.key, "element %d: %g is outside %g…%g", i, x.value, x.lo, x.hi)
		}
	}
	return nil
}

// Keys returns the metadata of c, which ReadCurve gives back; an error names the key that it would refuse.
func (c *Curve) Keys() ([]gguf.KV, error) {
	if len(c.Points) == 0 {
		return nil, bad(keyCurveSetting, "no points")
	}
	if err := c.check(len(c.Points[0].Magnitudes)); err != nil {
		return nil, err
	}
	figures := map[string][]float32{}
	var magnitudes []float32
	for i := range c.Points {
		p := &c.Points[i]
		for k, v := range p.figures() {
			key := curveKeys()[k]
			figures[key] = append(figures[key], *v)
		}
		magnitudes = append(magnitudes, p.Magnitudes...)
	}
	keys := []gguf.KV{{Key: keyCurveMode, Value: string(c.Way)}}
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: key, Value: v}) }
	for _, key := range curveKeys() {
		add(key, figures[key])
	}
	switch c.Way {
	case ByMagnitude:
		add(keyCurveMagnitudes, magnitudes)
	case ByWeight:
		add(keyCurveRank, uint32(c.Rank))
	}
	add(keyCurveDense, c.DenseBytes)
	add(keyCurveExact, c.ExactBytes)
	add(keyCurveDocuments, c.Documents)
	add(keyCurveText+".sha256", c.Calibration.SHA256)
	add(keyCurveText+".tokens", c.Calibration.Tokens)
	add(keyCurveHeldOut+".sha256", c.HeldOut.SHA256)
	add(keyCurveHeldOut+".tokens", c.HeldOut.Tokens)
	return keys, nil
}

// curveKeys returns the arrays of a number per point, in the order of Point.figures.
func curveKeys() []string {
	return []string{
		keyCurveSetting, keyCurveKLD, keyCurveError, keyCurveMostKLD, keyCurveSameTop, keyCurveLeastSameTop, keyCurvePerplexity, keyCurveActive, keyCurveBytes,
	}
}

func (p *Point) figures() []*float32 {
	return []*float32{
		&p.Setting, &p.KLDivergence, &p.Error, &p.MostKLD, &p.SameTop, &p.LeastSameTop, &p.Perplexity, &p.Active, &p.Bytes,
	}
}

// ReadCurve reads and validates the curve of a model with that many layers. It returns nil if f has none. Errors are
// one line and name file and key.
func ReadCurve(f *gguf.File, layers int) (*Curve, error) {
	r := &reader{f: f}
	if !r.has(keyCurveMode) {
		return nil, nil
	}
	c := &Curve{
		Way: Way(value(r, f.String, keyCurveMode)), Documents: value(r, f.Uint, keyCurveDocuments),
		DenseBytes: float32(value(r, f.Float, keyCurveDense)), ExactBytes: float32(value(r, f.Float, keyCurveExact)),
		Calibration: r.text(keyCurveText), HeldOut: r.text(keyCurveHeldOut),
	}
	settings := value(r, f.Float32s, keyCurveSetting)
	if n := len(settings); r.err == nil && (n < 1 || n > maxPoints) {
		r.bad(keyCurveSetting, "%d points; a curve has 1 to %d", n, maxPoints)
	}
	if r.err != nil {
		return nil, r.err
	}
	c.Points = make([]Point, len(settings))
	for k, key := range curveKeys() {
		for i, v := range list(r, f.Float32s, key, len(c.Points)) {
			*c.Points[i].figures()[k] = v
		}
	}
	switch c.Way {
	case ByMagnitude:
		r.magnitudes(c, layers)
	case ByWeight:
		c.Rank = r.count(keyCurveRank, maxExperts)
	}
	if r.err == nil {
		if err := c.check(layers); err != nil {
			r.fail(fmt.Errorf("%s: %w", f.Path, err))
		}
	}
	return c, r.err
}

// magnitudes reads the points' thresholds.
func (r *reader) magnitudes(c *Curve, layers int) {
	all := value(r, r.f.Float32s, keyCurveMagnitudes)
	if r.err == nil && len(all) != len(c.Points)*layers {
		r.bad(keyCurveMagnitudes, "%d thresholds for %d points of %d layers", len(all), len(c.Points), layers)
	}
	if r.err != nil {
		return
	}
	for i := range c.Points {
		c.Points[i].Magnitudes = all[i*layers:][:layers:layers]
	}
}

// HasCurve reports whether f says that it has a curve.
func HasCurve(f *gguf.File) bool { return len(CurveKeys(f)) > 0 }

// CurveKeys returns what f says of a curve, unread.
func CurveKeys(f *gguf.File) (keys []gguf.KV) {
	for _, kv := range f.Keys {
		if strings.HasPrefix(kv.Key, keyCurve) {
			keys = append(keys, kv)
		}
	}
	return keys
}

// WriteCurve writes src to path as it is, with the curve in place of one that it may have.
func WriteCurve(ctx context.Context, path string, src *gguf.File, c *Curve, progress func(done, total int64)) error {
	added, err := c.Keys()
	if err != nil {
		return fmt.Errorf("preparing %s: %w", src.Path, err)
	}
	var keys []gguf.KV
	for _, kv := range src.Keys {
		if !strings.HasPrefix(kv.Key, keyCurve) && !strings.HasPrefix(kv.Key, "split.") {
			keys = append(keys, kv)
		}
	}
	var tensors []gguf.Source
	for _, t := range src.Tensors {
		tensors = append(tensors, copied(t))
	}
	return gguf.Create(ctx, path, src.Magic, append(keys, added...), tensors, progress)
}

// SetCurve gives the file at path a curve. It is rewritten, and replaced when that is complete.
func SetCurve(ctx context.Context, path string, c *Curve, progress func(done, total int64)) error {
	return replace(path, func(path, next string) error { return withCurve(ctx, next, path, c, progress) })
}

// withCurve writes the file at path to next, with another curve.
func withCurve(ctx context.Context, next, path string, c *Curve, progress func(done, total int64)) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return WriteCurve(ctx, next, f, c, progress)
}
