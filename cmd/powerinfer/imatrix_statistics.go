package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/internal/imatrix/collect"
)

// showStatistics prints a line for each tensor, and each layer's means, weighted by the tensors' elements.
func showStatistics(out io.Writer, m *collect.Matrix) error {
	type layer struct{ elems, sum, outlying, alike float64 }
	layers := map[int]*layer{}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\ttensor\tΣ(act²)\tmin\tmax\tmean\tdeviation\tactive %\telements\tentropy\tentropy %\toutlying %\tcosine\t")
	for _, s := range m.Statistics() {
		where := "-"
		if n := float64(s.Elems); s.Layer >= 0 {
			where = fmt.Sprint(s.Layer)
			l := layers[s.Layer]
			if l == nil {
				l = &layer{}
				layers[s.Layer] = l
			}
			l.elems, l.sum, l.outlying, l.alike = l.elems+n, l.sum+n*s.Sum, l.outlying+n*s.Outlying, l.alike+n*s.Alike
		}
		most := math.Log2(float64(s.Elems))
		if most == 0 {
			most = 1
		}
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%.4f\t%.4f\t%.2f\t%.2f\t%.2f\t%d\t%.4f\t%.2f\t%.2f\t%.4f\t\n", where, strings.TrimSuffix(s.Part, ".weight"),
			s.Sum, s.Min, s.Max, s.Mean, s.Deviation, 100*s.Active, s.Elems, s.Entropy, 100*s.Entropy/most, 100*s.Outlying, s.Alike)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nlayer\tmean Σ(act²)\tmean outlying %\tmean cosine\t")
	for _, n := range slices.Sorted(maps.Keys(layers)) {
		l := layers[n]
		fmt.Fprintf(w, "%d\t%.2f\t%.4f\t%.4f\t\n", n, l.sum/l.elems, 100*l.outlying/l.elems, l.alike/l.elems)
	}
	return w.Flush()
}
