package sweep

import (
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
)

// Figure is a mean with its standard error.
type Figure struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

// Quality says how far a setting is from dense on the text.
type Quality struct {
	Tokens       int    `json:"tokens"` // that were predicted
	Perplexity   Figure `json:"perplexity"`
	KLDivergence Figure `json:"kl_divergence"` // nats a token
	SameTop      Figure `json:"same_top"`      // share of tokens with the same likeliest successor as dense

	KLDs     []float64 `json:"window_kl_divergence"` // [windows] mean of each
	SameTops []float64 `json:"window_same_top"`      // [windows]

	MostKLD      float64 `json:"kl_limit"`       // what at least 19 of 20 other documents are expected to stay within, as prepared.Point has it
	LeastSameTop float64 `json:"same_top_limit"` // and to reach

	Layers []Layer `json:"layers"`
}

// Layer says what a layer's tokens needed, as shares of its neurons.
type Layer struct {
	Mode     string  `json:"mode"`
	Active   float64 `json:"active"`   // with a non-zero activation
	Computed float64 `json:"computed"` // with a computed activation
}

// first returns the divergence of the first windows; its error is the whole text's.
func (q *Quality) first(windows int) Figure {
	n := min(windows, len(q.KLDs))
	sum := 0.0
	for _, v := range q.KLDs[:n] {
		sum += v / float64(n)
	}
	return Figure{sum, q.KLDivergence.Error}
}

// limit finds the limits of documents from windows, which are laid in y.
func (q *Quality) limit(y *eval.Windows) []eval.Document {
	q.MostKLD, q.LeastSameTop = 0, 1
	if len(q.KLDs) == 0 { // dense itself
		return nil
	}
	var windows []eval.Document
	for i := range q.KLDs {
		windows = append(windows, eval.Document{Count: q.Tokens / len(q.KLDs), KLD: q.KLDs[i], SameTop: q.SameTops[i]})
	}
	docs := y.Join(windows)
	q.MostKLD, q.LeastSameTop = min(eval.MostKLD(docs), math.MaxFloat32), eval.LeastSameTop(docs)
	return docs
}

// Predictor says how well predictors choose, by count, on inputs as a dense model has them.
type Predictor struct {
	Recall    float64 `json:"recall"`    // share of the active neurons that was chosen
	Precision float64 `json:"precision"` // share of the chosen neurons that is active
}

// Reads are the bytes of weights that a generated token reads. KV is not among them.
type Reads struct {
	RAM  float64 `json:"ram"`
	VRAM float64 `json:"vram"`
	FFN  float64 `json:"feed_forward"` // of RAM and VRAM together, the part for feed-forward layers and their predictors
	Full float64 `json:"full"`         // of all weights, if no neuron is left out and nothing is predicted
	Hot  float64 `json:"hot"`          // share of the neurons on GPUs
}

// All returns the bytes of all tiers.
func (r *Reads) All() float64 { return r.RAM + r.VRAM }

// Speed holds tokens per second of generation. The runs took turns with other settings' runs.
type Speed struct {
	Runs   []float64 `json:"runs"` // in the order of the rounds
	Median float64   `json:"median"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
}

func speedOf(runs []float64) *Speed {
	if len(runs) == 0 {
		return nil
	}
	v := slices.Sorted(slices.Values(runs))
	s := &Speed{Runs: runs, Least: v[0], Most: v[len(v)-1], Median: v[len(v)/2]}
	if len(v)%2 == 0 {
		s.Median = (v[len(v)/2-1] + v[len(v)/2]) / 2
	}
	return s
}

// Expected is the speed that a plan expects of a setting on a described machine.
type Expected struct {
	Machine string  `json:"machine"`
	Rate    float64 `json:"tokens_per_second"`
	Hot     float64 `json:"hot"` // share of the neurons on GPUs
	Fits    bool    `json:"fits"`
}

// Score is a task's result.
type Score struct {
	Task   string      `json:"task"`
	Metric string      `json:"metric"`
	Figure task.Figure `json:"figure"`
}

// Point is a setting and its measurements. A missing measurement is nil.
type Point struct {
	Name      string `json:"name"`
	Setting   `json:"setting"`
	Quality   *Quality    `json:"quality,omitempty"`
	Predictor *Predictor  `json:"predictor,omitempty"`
	Choices   []Predictor `json:"layer_predictors,omitempty"` // [layers] zero where a layer has no predictor
	Reads     *Reads      `json:"bytes_per_token,omitempty"`
	Speed     *Speed      `json:"tokens_per_second,omitempty"`
	Expected  []Expected  `json:"expected,omitempty"`
	Scores    []Score     `json:"scores,omitempty"`
	Front     bool        `json:"front"`    // no other point is faster and no further from dense
	Thrifty   bool        `json:"thrifty"`  // no other point reads less and is at least as near to dense
	Within    bool        `json:"within"`   // the bounds are kept
	Commands  []string    `json:"commands"` // that reproduce the figures
}

// Active returns the share of all neurons with a non-zero activation, and the share with a computed one.
func (q *Quality) Active() (active, computed float64) {
	for _, y := range q.Layers {
		active += y.Active / float64(len(q.Layers))
		computed += y.Computed / float64(len(q.Layers))
	}
	return active, computed
}
