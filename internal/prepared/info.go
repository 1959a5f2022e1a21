// Package prepared reads and writes the metadata keys of prepared files: models with neurons stored hottest first,
// predictors, and measured figures. docs/prepared-file.md describes every key and tensor.
package prepared

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// Version is the form of prepared files that this package reads and writes.
const Version = 1

// RankStep divides the rank of a predictor, so that its rows are whole quantised blocks.
const RankStep = 32

// Info is everything that the keys of a prepared file say.
type Info struct {
	Activation          string  // relu, fatrelu, drelu or relu2
	ActivationThreshold float32 // fatrelu only: z > threshold ? z : 0
	Input               Input   // the predictors' input
	Threshold           float32 // a predicted neuron's logit is at least this
	Calibration         Text    // what the frequencies were counted on
	Layers              []Layer // [block_count]
	HeldOut             Text    // what Layers' figures and Quality were measured on; zero: nothing was measured
	Quality             *Quality
}

// Input names what a predictor reads.
type Input string

// The inputs of predictors.
const (
	Residual Input = "residual" // before the feed-forward norm (falcon: the layer's input), as the original's
	Normed   Input = "normed"   // after the feed-forward norm
)

// Mode says how a layer is run in mode predict.
type Mode string

// The modes of a layer.
const (
	Predict Mode = "predict" // by its predictor
	Exact   Mode = "exact"   // every gate row is read; the layer has no predictor
)

// Text identifies a text.
type Text struct {
	SHA256 string // 64 lower-case hexadecimal digits
	Tokens uint64
}

// Layer is one feed-forward layer. Shares are 0…1, on held-out text; a layer in exact has 1 in each.
type Layer struct {
	Frequency []float32 // [n_ff] share of calibration tokens for which the neuron was active; never rises
	Mode      Mode
	Rank      int     // of the predictor; 0 in exact
	AlwaysOn  int     // neurons [0, AlwaysOn) are computed for every token and have no row in fc2
	Recall    float32 // share of the activation mass: Σ|a_i|·‖d_i‖ of predicted neurons, divided by that of all neurons
	Found     float32 // recall by count: active neurons predicted over active ones
	Precision float32 // active neurons predicted over predicted ones
	Accuracy  float32 // (token, neuron) pairs predicted right
	Order     []int32 // [n_ff] neuron i is the Order[i]-th of the model before it was prepared; nil: not known, as in files of earlier versions
}

// Ordered reports whether i says in which order neurons were before.
func (i *Info) Ordered() bool {
	return !slices.ContainsFunc(i.Layers, func(y Layer) bool { return y.Order == nil })
}

// Quality says what prediction costs on held-out text.
type Quality struct {
	KLDivergence      float32 // mean, nats a token, of predict from dense
	PerplexityDense   float32
	PerplexityPredict float32
}

// Stats returns the frequencies as counts, exact up to 2²⁴ calibration tokens.
func (i *Info) Stats() *neuron.Stats {
	s := &neuron.Stats{Tokens: i.Calibration.Tokens}
	for l := range i.Layers {
		counts := make([]uint32, len(i.Layers[l].Frequency))
		for n, f := range i.Layers[l].Frequency {
			counts[n] = uint32(math.Round(float64(f) * float64(s.Tokens)))
		}
		s.Layers = append(s.Layers, counts)
	}
	return s
}

// check reports the first key that is out of range; ff is the model's n_ff.
func (i *Info) check(ff int) error {
	switch {
	case !slices.Contains([]string{"relu", "fatrelu", "drelu", "relu2"}, i.Activation):
		return bad(keyActivation, "%.80q leaves no neuron at zero; relu, fatrelu, drelu and relu2 do", i.Activation)
	case !finite(i.ActivationThreshold):
		return bad(keyActivationThreshold, "%g is not a threshold", i.ActivationThreshold)
	case i.Input != Residual && i.Input != Normed:
		return bad(keyInput, "%.80q is neither residual nor normed", string(i.Input))
	case !finite(i.Threshold):
		return bad(keyThreshold, "%g is not a threshold", i.Threshold)
	}
	if err := i.Calibration.check(keyCalibration); err != nil {
		return err
	}
	if i.HeldOut != (Text{}) {
		if err := i.HeldOut.check(keyHeldOut); err != nil {
			return err
		}
	}
	for l := range i.Layers {
		if err := i.Layers[l].check(l, ff); err != nil {
			return err
		}
		if i.HeldOut == (Text{}) && i.Layers[l].figures() {
			return bad(keyHeldOut+".sha256", "missing beside figures of layer %d", l)
		}
	}
	return i.Quality.check(i.HeldOut)
}

func (t Text) check(prefix string) error {
	if len(t.SHA256) != 64 || strings.Trim(t.SHA256, "0123456789abcdef") != "" {
		return bad(prefix+".sha256", "%.80q is not a SHA-256 in lower-case hexadecimal digits", t.SHA256)
	}
	if t.Tokens < 1 || t.Tokens > math.MaxUint32 {
		return bad(prefix+".tokens", "%d is outside 1…%d", t.Tokens, uint32(math.MaxUint32))
	}
	return nil
}

func (y *Layer) check(l, ff int) error {
	if len(y.Frequency) != ff {
		return bad(keyFrequency(l), "%d frequencies for %d neurons", len(y.Frequency), ff)
	}
	last := float32(1)
	for n, f := range y.Frequency {
		if !(f >= 0 && f <= 1) {
			return bad(keyFrequency(l), "element %d: %g is outside 0…1", n, f)
		}
		if f > last {
			return bad(keyFrequency(l), "element %d: %g is above the %g before it; neurons must lie hottest first", n, f, last)
		}
		last = f
	}
	if y.Order != nil {
		if err := (neuron.Order{y.Order}).Check([]int{ff}); err != nil {
			return bad(keyOrder(l), "%v", err)
		}
	}
	switch {
	case y.Mode != Predict && y.Mode != Exact:
		return bad(keyMode, "element %d: %.80q is neither predict nor exact", l, string(y.Mode))
	case y.Mode == Exact && y.Rank != 0:
		return bad(keyRank, "element %d: a rank of %d in a layer that runs exact", l, y.Rank)
	case y.Mode == Predict && (y.Rank < RankStep || y.Rank > maxRank || y.Rank%RankStep != 0):
		return bad(keyRank, "element %d: %d is not a multiple of %d up to %d", l, y.Rank, RankStep, maxRank)
	case y.AlwaysOn < 0 || y.AlwaysOn > ff:
		return bad(keyAlwaysOn, "element %d: %d of %d neurons", l, y.AlwaysOn, ff)
	case y.Mode == Predict && y.AlwaysOn == ff:
		return bad(keyAlwaysOn, "element %d: all %d neurons, which leaves none to predict", l, ff)
	case y.Mode == Exact && y.AlwaysOn != 0:
		return bad(keyAlwaysOn, "element %d: %d neurons in a layer that runs exact", l, y.AlwaysOn)
	}
	for k, key := range measuredKeys() {
		if v := *y.measured()[k]; !(v >= 0 && v <= 1) {
			return bad(key, "element %d: %g is outside 0…1", l, v)
		}
	}
	return nil
}

// figures reports whether anything was measured in the layer.
func (y *Layer) figures() bool {
	return [4]float32{y.Recall, y.Found, y.Precision, y.Accuracy} != [4]float32{}
}

// measured returns the layer's figures in the order of measuredKeys.
func (y *Layer) measured() [4]*float32 {
	return [4]*float32{&y.Recall, &y.Found, &y.Precision, &y.Accuracy}
}

// check accepts nil: nothing was measured.
func (q *Quality) check(heldOut Text) error {
	if q == nil {
		return nil
	}
	switch {
	case heldOut == Text{}:
		return bad(keyHeldOut+".sha256", "missing beside %q", keyKLDivergence)
	case !(q.KLDivergence >= 0) || !finite(q.KLDivergence):
		return bad(keyKLDivergence, "%g is not a divergence", q.KLDivergence)
	case !(q.PerplexityDense >= 1) || !finite(q.PerplexityDense):
		return bad(keyPerplexityDense, "%g is not a perplexity", q.PerplexityDense)
	case !(q.PerplexityPredict >= 1) || !finite(q.PerplexityPredict):
		return bad(keyPerplexityPredict, "%g is not a perplexity", q.PerplexityPredict)
	}
	return nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

func bad(key, format string, args ...any) error {
	return fmt.Errorf("key %q: %s", key, fmt.Sprintf(format, args...))
}
