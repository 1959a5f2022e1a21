package neuronreport

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// byHand returns a small portrait with a predicted, an unmeasured and an exact layer.
func byHand(t *testing.T) *Report {
	t.Helper()
	p := portrait(t, "m\x1b[31m", &neuron.Stats{Tokens: 2000, Layers: [][]uint32{{600, 2000, 200, 1200}, {0, 0}, {2000, 2000}}})
	p.Facts = []Fact{{"quality", "good\nenough"}}
	p.Predictors = []Predictor{
		{Mode: "predict", Rank: 64, AlwaysOn: 1, Bytes: 3 << 10, Measured: true, Recall: 0.995, Found: 0.9, Precision: 0.5, Accuracy: 0.75},
		{Mode: "predict", Rank: 32, Bytes: 1 << 10},
		{Mode: "exact"},
	}
	return p
}

func TestText(t *testing.T) {
	var b strings.Builder
	if err := byHand(t).Text(&b); err != nil {
		t.Fatal(err)
	}
	// 4000 of 8000, 0 of 4000, 4000 of 4000: half of all pairs are inactive.
	for _, want := range []string{
		"neurons of m [31m: 3 layers, 2,000 tokens observed, 50.00 % of (token, neuron) pairs inactive\n",
		"\nquality: good enough\n\nlayer ",
		"\n    0        4    50.00%   25.00%   50.00%   75.00%  100.00% ",
		"\n    0  predict        64         1   99.50%   90.00%    50.00%    75.00%    3.0 KiB\n",
		"\n    1  predict        32         0        -        -         -         -    1.0 KiB\n",
		"\n    2    exact         0         0        -        -         -         -          –\n",
		"    4.0 KiB\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	// A reader that goes away is an error, wherever it does.
	for room := range b.Len() {
		if err := byHand(t).Text(&full{room}); !errors.Is(err, errFull) {
			t.Fatalf("room for %d bytes of %d: %v", room, b.Len(), err)
		}
	}
}

var errFull = errors.New("full")

// full accepts this many bytes.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	f.room -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func TestJSON(t *testing.T) {
	b, err := json.Marshal(byHand(t))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tokens     int
		Layers     []map[string]any
		Overall    map[string]any
		Predictors []map[string]any
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Tokens != 2000 || len(got.Layers) != 3 || got.Layers[0]["share_50"] != 0.25 || got.Overall["sparsity"] != 0.5 || got.Predictors[0]["recall"] != 0.995 {
		t.Errorf("%s", b)
	}
}
