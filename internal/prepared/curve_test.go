package prepared

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// sampleCurve is one of two layers.
func sampleCurve() *Curve {
	return &Curve{
		Points: []Point{
			{Share: 0.1, Magnitudes: []float32{0.01, 0}, KLDivergence: 0.001, Error: 0.0001, SameTop: 0.99, Perplexity: 10},
			{Share: 0.4, Magnitudes: []float32{0.05, 0.02}, KLDivergence: 0.008, Error: 0.0005, SameTop: 0.95, Perplexity: 10.1},
			{Share: 0.7, Magnitudes: []float32{0.2, 0.1}, KLDivergence: 0.1, Error: 0.01, SameTop: 0.8, Perplexity: 12},
		},
		Calibration: Text{hash, 1000}, HeldOut: Text{strings.Repeat("f", 64), 500},
	}
}

func TestCurveRoundTrip(t *testing.T) {
	keys, err := sampleCurve().Keys()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCurve(write(t, keys), 2)
	if err != nil || !reflect.DeepEqual(c, sampleCurve()) {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, err := ReadCurve(write(t, modelKeys()), 2); c != nil || err != nil {
		t.Errorf("a file without a curve has %v, %v", c, err)
	}
	if _, err := ReadCurve(write(t, keys), 3); err == nil || !strings.Contains(err.Error(), "6 thresholds for 3 points of 3 layers") {
		t.Errorf("of another model: %v", err)
	}
	for i, kv := range keys { // each key is needed once there is a curve
		if i == 0 {
			continue
		}
		some := append(append([]gguf.KV{}, keys[:i]...), keys[i+1:]...)
		if _, err := ReadCurve(write(t, some), 2); err == nil || !strings.Contains(err.Error(), kv.Key) {
			t.Errorf("without %s: %v", kv.Key, err)
		}
	}
}

// The point is the last before the divergence, with twice its error, is first above the bound.
func TestWithin(t *testing.T) {
	c := sampleCurve()
	for _, x := range []struct {
		most  float64
		share float32 // 0: none
	}{{0.0011, 0}, {0.0013, 0.1}, {0.0089, 0.1}, {0.0091, 0.4}, {0.12, 0.4}, {1, 0.7}} {
		p := c.Within(x.most)
		if p == nil && x.share != 0 || p != nil && p.Share != x.share {
			t.Errorf("within %g: %+v, want a share of %g", x.most, p, x.share)
		}
	}
}

func TestCurveRefused(t *testing.T) {
	for want, change := range map[string]func(c *Curve){
		keyCurveShare:               func(c *Curve) { c.Points[1].Share = 0.1 },
		keyCurveKLD:                 func(c *Curve) { c.Points[0].KLDivergence = -1 },
		keyCurveError:               func(c *Curve) { c.Points[0].Error = float32(math.NaN()) },
		keyCurveSameTop:             func(c *Curve) { c.Points[2].SameTop = 1.5 },
		keyCurvePerplexity:          func(c *Curve) { c.Points[2].Perplexity = 0.5 },
		keyCurveMagnitudes:          func(c *Curve) { c.Points[2].Magnitudes[1] = float32(math.Inf(1)) },
		keyCurveText + ".sha256":    func(c *Curve) { c.Calibration.SHA256 = "x" },
		keyCurveHeldOut + ".tokens": func(c *Curve) { c.HeldOut.Tokens = 0 },
	} {
		c := sampleCurve()
		change(c)
		if _, err := c.Keys(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
