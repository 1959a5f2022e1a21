package neuronreport

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Text writes everything that can be said without pictures.
func (p *Report) Text(w io.Writer) error {
	if p.Experts != nil {
		return p.expertText(w)
	}
	_, err := fmt.Fprintf(w, "neurons of %s: %d layers, %s tokens observed, %.2f %% of (token, neuron) pairs inactive\n",
		p.Model, len(p.Figures), grouped(p.Stats.Tokens), 100*p.Stats.Overall())
	for _, f := range p.Facts {
		if err == nil {
			_, err = fmt.Fprintf(w, "%s: %s\n", printable(f.Name), printable(f.Value))
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	if err == nil {
		err = p.Table(w)
	}
	if err == nil && p.Predictors != nil {
		err = p.predictorTable(w)
	}
	return err
}

// Table writes the figures as text, one line for each layer.
func (p *Report) Table(w io.Writer) error {
	if p.Experts != nil {
		return p.expertTable(w)
	}
	_, err := fmt.Fprintf(w, "%5s %8s %9s %8s %8s %8s %8s %9s %6s %9s %6s\n",
		"layer", "neurons", "sparsity", "for 50%", "for 80%", "for 90%", "for 99%", "exponent", "KS", "always on", "dead")
	for _, f := range append(slices.Clone(p.Figures), p.Overall()) {
		if err != nil {
			return err
		}
		name, law, ks := fmt.Sprint(f.Layer), "-", "-"
		if f.Layer < 0 {
			name = "all"
		}
		if f.Law.To > 0 {
			law, ks = fmt.Sprintf("%.3f", f.Law.Exponent), fmt.Sprintf("%.3f", f.Law.KS)
		}
		_, err = fmt.Fprintf(w, "%5s %8d %8.2f%% %7.2f%% %7.2f%% %7.2f%% %7.2f%% %9s %6s %9d %6d\n", name, f.Neurons, 100*f.Sparsity,
			100*f.Share50, 100*f.Share80, 100*f.Share90, 100*f.Share99, law, ks, f.AlwaysOn, f.Dead)
	}
	return err
}

// predictorTable writes how layers are predicted, one line for each layer, and the predictors' bytes.
func (p *Report) predictorTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\n%5s %8s %9s %9s %8s %8s %9s %9s %10s\n",
		"layer", "mode", "rank", "always on", "recall", "by count", "precision", "accuracy", "predictor")
	var bytes int64
	for l, q := range p.Predictors {
		if err != nil {
			return err
		}
		bytes += q.Bytes
		measured := fmt.Sprintf("%8s %8s %9s %9s", "-", "-", "-", "-")
		if q.Measured {
			measured = fmt.Sprintf("%7.2f%% %7.2f%% %8.2f%% %8.2f%%", 100*q.Recall, 100*q.Found, 100*q.Precision, 100*q.Accuracy)
		}
		_, err = fmt.Fprintf(w, "%5d %8s %9d %9d %s %10s\n", l, q.Mode, q.Rank, q.AlwaysOn, measured, size(q.Bytes))
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "%5s %66s %10s\n", "all", "", size(bytes))
	}
	return err
}

// MarshalJSON gives the figures; the counts themselves are left out.
func (p *Report) MarshalJSON() ([]byte, error) {
	if p.Experts != nil {
		return p.expertJSON()
	}
	return json.Marshal(struct {
		Model      string      `json:"model"`
		Tokens     uint64      `json:"tokens"`
		Facts      []Fact      `json:"facts,omitempty"`
		Layers     []Figures   `json:"layers"`
		Overall    Figures     `json:"overall"`
		Predictors []Predictor `json:"predictors,omitempty"`
	}{p.Model, p.Stats.Tokens, p.Facts, p.Figures, p.Overall(), p.Predictors})
}
