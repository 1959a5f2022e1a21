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

// The keys of a curve, as docs/prepared-file.md lists them. Any model of SiLU or GELU may have them.
const (
	keyCurve           = "powerinfer.threshold." // all of them begin so
	keyCurveShare      = keyCurve + "share"
	keyCurveKLD        = keyCurve + "kl_divergence"
	keyCurveError      = keyCurve + "kl_error"
	keyCurveSameTop    = keyCurve + "same_top"
	keyCurvePerplexity = keyCurve + "perplexity"
	keyCurveMagnitudes = keyCurve + "magnitudes"
	keyCurveText       = keyCurve + "calibration" // .sha256, .tokens
	keyCurveHeldOut    = keyCurve + "held_out"    // .sha256, .tokens
)

// maxPoints bounds the points of a curve.
const maxPoints = 1 << 10

// Curve says what taking small activations as zero costs, the more of them the further along.
type Curve struct {
	Points               []Point
	Calibration, HeldOut Text // what magnitudes were counted on, and what was measured on
}

// Point is one setting of a curve.
type Point struct {
	Share        float32   // of the activations of calibration text that are taken as zero, 0…1
	Magnitudes   []float32 // [layers] an activation of a smaller magnitude is taken as zero
	KLDivergence float32   // mean, nats a token, from dense
	Error        float32   // standard error of KLDivergence
	SameTop      float32   // share of tokens whose likeliest successor is that of dense
	Perplexity   float32
}

// Worst returns the divergence with twice its error.
func (p *Point) Worst() float64 { return float64(p.KLDivergence) + 2*float64(p.Error) }

// Within returns the last point up to which no divergence, with twice its error, is above most; nil if the first already is.
func (c *Curve) Within(most float64) *Point {
	for i := range c.Points {
		if c.Points[i].Worst() > most {
			if i == 0 {
				return nil
			}
			return &c.Points[i-1]
		}
	}
	return &c.Points[len(c.Points)-1]
}

// Add puts p where its share belongs.
func (c *Curve) Add(p Point) {
	at, _ := slices.BinarySearchFunc(c.Points, p.Share, func(p Point, share float32) int { return cmp.Compare(p.Share, share) })
	c.Points = slices.Insert(c.Points, at, p)
}

func (c *Curve) check(layers int) error {
	if n := len(c.Points); n < 1 || n > maxPoints {
		return bad(keyCurveShare, "%d points; a curve has 1 to %d", n, maxPoints)
	}
	last := float32(0)
	for i := range c.Points {
		p := &c.Points[i]
		switch {
		case !(p.Share > last && p.Share < 1):
			return bad(keyCurveShare, "element %d: %g does not rise to below 1", i, p.Share)
		case !(p.KLDivergence >= 0) || !finite(p.KLDivergence):
			return bad(keyCurveKLD, "element %d: %g is not a divergence", i, p.KLDivergence)
		case !(p.Error >= 0) || !finite(p.Error):
			return bad(keyCurveError, "element %d: %g is not an error", i, p.Error)
		case !(p.SameTop >= 0 && p.SameTop <= 1):
			return bad(keyCurveSameTop, "element %d: %g is outside 0…1", i, p.SameTop)
		case !(p.Perplexity >= 1) || !finite(p.Perplexity):
			return bad(keyCurvePerplexity, "element %d: %g is not a perplexity", i, p.Perplexity)
		case len(p.Magnitudes) != layers:
			return bad(keyCurveMagnitudes, "%d thresholds of point %d for %d layers", len(p.Magnitudes), i, layers)
		}
		for l, t := range p.Magnitudes {
			if !(t >= 0) || math.IsInf(float64(t), 0) {
				return bad(keyCurveMagnitudes, "point %d, layer %d: %g is not a threshold", i, l, t)
			}
		}
		last = p.Share
	}
	if err := c.Calibration.check(keyCurveText); err != nil {
		return err
	}
	return c.HeldOut.check(keyCurveHeldOut)
}

// Keys returns the metadata of c, which ReadCurve gives back; an error names the key that it would refuse.
func (c *Curve) Keys() ([]gguf.KV, error) {
	var figures [5][]float32
	var magnitudes []float32
	for i := range c.Points {
		p := &c.Points[i]
		for k, v := range p.figures() {
			figures[k] = append(figures[k], *v)
		}
		magnitudes = append(magnitudes, p.Magnitudes...)
	}
	if len(c.Points) == 0 {
		return nil, bad(keyCurveShare, "no points")
	}
	if err := c.check(len(c.Points[0].Magnitudes)); err != nil {
		return nil, err
	}
	var keys []gguf.KV
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: key, Value: v}) }
	for k, key := range curveKeys() {
		add(key, figures[k])
	}
	add(keyCurveMagnitudes, magnitudes)
	add(keyCurveText+".sha256", c.Calibration.SHA256)
	add(keyCurveText+".tokens", c.Calibration.Tokens)
	add(keyCurveHeldOut+".sha256", c.HeldOut.SHA256)
	add(keyCurveHeldOut+".tokens", c.HeldOut.Tokens)
	return keys, nil
}

// curveKeys returns the arrays of a number per point, in the order of Point.figures.
func curveKeys() [5]string {
	return [5]string{keyCurveShare, keyCurveKLD, keyCurveError, keyCurveSameTop, keyCurvePerplexity}
}

func (p *Point) figures() [5]*float32 {
	return [5]*float32{&p.Share, &p.KLDivergence, &p.Error, &p.SameTop, &p.Perplexity}
}

// ReadCurve reads and validates the curve of a model with so many layers; it is nil where f has none. Errors are one line and name file and key.
func ReadCurve(f *gguf.File, layers int) (*Curve, error) {
	r := &reader{f: f}
	if !r.has(keyCurveShare) {
		return nil, nil
	}
	c := &Curve{Calibration: r.text(keyCurveText), HeldOut: r.text(keyCurveHeldOut)}
	shares := value(r, f.Float32s, keyCurveShare)
	magnitudes := value(r, f.Float32s, keyCurveMagnitudes)
	if n := len(shares); r.err == nil && (n < 1 || n > maxPoints || len(magnitudes) != n*layers) {
		r.bad(keyCurveMagnitudes, "%d thresholds for %d points of %d layers", len(magnitudes), n, layers)
	}
	if r.err != nil {
		return nil, r.err
	}
	c.Points = make([]Point, len(shares))
	for i := range c.Points {
		c.Points[i].Magnitudes = magnitudes[i*layers:][:layers:layers]
	}
	for k, key := range curveKeys() {
		for i, v := range list(r, f.Float32s, key, len(c.Points)) {
			*c.Points[i].figures()[k] = v
		}
	}
	if r.err == nil {
		if err := c.check(layers); err != nil {
			r.fail(fmt.Errorf("%s: %w", f.Path, err))
		}
	}
	return c, r.err
}

// WriteCurve writes src to path, an ordinary GGUF file as it is, with the curve in place of one that it may have.
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
	return gguf.Create(ctx, path, "GGUF", append(keys, added...), tensors, progress)
}
