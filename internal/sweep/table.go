package sweep

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// whereHow says where a speed is reached and how it is known; machine is a described one or empty.
func whereHow(machine string) (where, how string) {
	if machine == "" {
		return "here", "measured"
	}
	return "on " + machine, "expected"
}

// Table prints a line for each point, and the recommended settings.
func (rep *Report) Table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "setting\tKL divergence\t\tsame top\tperplexity\tactive\tcomputed\tMB a token\ttokens/s\t\tfront\t")
	for i := range rep.Points {
		p := &rep.Points[i]
		fmt.Fprintf(w, "%s\t", p.Name)
		if q := p.Quality; q != nil {
			active, computed := q.Active()
			fmt.Fprintf(w, "%.6f\t± %.6f\t%.2f %%\t%.4f\t%.1f %%\t%.1f %%\t", q.KLDivergence.Value, q.KLDivergence.Error, 100*q.SameTop.Value, q.Perplexity.Value, 100*active, 100*computed)
		} else {
			fmt.Fprint(w, "\t\t\t\t\t\t")
		}
		if p.Reads != nil {
			fmt.Fprintf(w, "%.3f\t", p.Reads.All()/1e6)
		} else {
			fmt.Fprint(w, "\t")
		}
		if s := p.Speed; s != nil {
			fmt.Fprintf(w, "%.1f\t%.1f to %.1f\t", s.Median, s.Least, s.Most)
		} else {
			fmt.Fprint(w, "\t\t")
		}
		mark := ""
		if p.Front {
			mark = "speed"
		}
		if p.Thrifty {
			mark = strings.TrimPrefix(mark+", bytes", ", ")
		}
		fmt.Fprintf(w, "%s\t\n", mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, b := range rep.Best {
		where, how := whereHow(b.Machine)
		fmt.Fprintf(out, "within a KL divergence of %g, %s: %s, %.1f tokens/s %s (dense %.1f)\n", rep.Bounds.MaxKLD, where, b.Flags, b.Rate, how, b.Dense)
	}
	for i := range rep.Beside {
		b := &rep.Beside[i]
		where, how := whereHow(b.Machine)
		fmt.Fprintf(out, "beside them, %s: %s, %.1f tokens/s %s, KL divergence %.6f: %s\n", where, b.Name, b.Rate, how, b.KLD, b.Verdict())
	}
	if rep.Text.Single {
		fmt.Fprintf(out, "the text has too few documents: what 19 of 20 keep is of windows of %d tokens\n", rep.Text.Window)
	}
	if len(rep.Best) == 0 {
		fmt.Fprintf(out, "no setting that was timed keeps a KL divergence of %g\n", rep.Bounds.MaxKLD)
	}
	return nil
}
