package prepared

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// sampleCurve is a curve of two layers.
func sampleCurve() *Curve {
	return &Curve{
		Way: ByMagnitude, DenseBytes: 1000, Documents: 9,
		Points: []Point{
			{0.1, []float32{0.01, 0}, 0.001, 0.0001, 0.0015, 0.99, 0.98, 10, 0.9, 900},
			{0.4, []float32{0.05, 0.02}, 0.008, 0.0005, 0.01, 0.95, 0.93, 10.1, 0.6, 700},
			{0.7, []float32{0.2, 0.1}, 0.1, 0.01, 0.15, 0.8, 0.7, 12, 0.3, 500},
		},
		Calibration: Text{hash, 1000}, HeldOut: Text{strings.Repeat("f", 64), 500},
	}
}

// predictorCurve is a curve of predictors, with negative thresholds.
func predictorCurve() *Curve {
	c := sampleCurve()
	c.Way, c.ExactBytes = ByPredictor, 950
	for i := range c.Points {
		c.Points[i].Setting, c.Points[i].Magnitudes = float32(i-1), nil
	}
	return c
}

func TestCurveRoundTrip(t *testing.T) {
	for _, want := range []*Curve{predictorCurve(), sampleCurve()} {
		keys, err := want.Keys()
		if err != nil {
			t.Fatal(err)
		}
		if c, err := ReadCurve(write(t, keys), 2); err != nil || !reflect.DeepEqual(c, want) {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	keys, err := sampleCurve().Keys()
	if err != nil {
		t.Fatal(err)
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

// The point is the last before a limit is first beyond the bound, of either kind.
func TestWithin(t *testing.T) {
	c := sampleCurve()
	for _, x := range []struct {
		bound   Bound
		setting float32 // 0: none
	}{
		{Bound{KLD: 0.0014}, 0},
		{Bound{KLD: 0.0016}, 0.1},
		{Bound{KLD: 0.0099}, 0.1},
		{Bound{KLD: 0.0101}, 0.4},
		{Bound{KLD: 1}, 0.7},
		{Bound{SameTop: 0.99}, 0},
		{Bound{SameTop: 0.94}, 0.1},
		{Bound{SameTop: 0.93}, 0.4},
		{Bound{KLD: 1, SameTop: 0.98}, 0.1},
		{Bound{}, 0.7},
	} {
		p := c.Within(x.bound)
		if p == nil && x.setting != 0 || p != nil && p.Setting != x.setting {
			t.Errorf("within %s: %+v, want %g", x.bound, p, x.setting)
		}
	}
	c.Points[1].MostKLD = 0.2 // the third, which keeps the bound by chance, is not taken
	if p := c.Within(Bound{KLD: 0.16}); p == nil || p.Setting != 0.1 {
		t.Errorf("behind a setting that does not keep the bound: %+v", p)
	}
}

func TestCurveRefused(t *testing.T) {
	for want, change := range map[string]func(c *Curve){
		keyCurveMode:                func(c *Curve) { c.Way = "chance" },
		keyCurveSetting:             func(c *Curve) { c.Points[1].Setting = 0.1 },
		keyCurveDense:               func(c *Curve) { c.DenseBytes = 0 },
		keyCurveExact:               func(c *Curve) { c.ExactBytes = 1001 },
		keyCurveMostKLD:             func(c *Curve) { c.Points[0].MostKLD = float32(math.Inf(1)) },
		keyCurveLeastSameTop:        func(c *Curve) { c.Points[1].LeastSameTop = -1 },
		keyCurveActive:              func(c *Curve) { c.Points[1].Active = 2 },
		keyCurveBytes:               func(c *Curve) { c.Points[1].Bytes = -1 },
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
