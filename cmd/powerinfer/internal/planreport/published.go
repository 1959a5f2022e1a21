package planreport

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// Published prints published figures and, next to them, the cost model's for the same settings.
func Published(out io.Writer) error {
	list, err := planner.Simulate()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "machine\tmodel\ttype\tPowerInfer\tplan\tllama.cpp\tplan\tspeed-up\tplan\tsource\t")
	number := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", v)
	}
	for i := range list {
		s := &list[i]
		ratio := 0.0
		if s.PowerInfer > 0 && s.LlamaCPP > 0 {
			ratio = s.PowerInfer / s.LlamaCPP
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f\t%s\t%.2f\t%s\t%.2f\t%s\t\n", s.PC, s.Shape, s.Type, number(s.PowerInfer), 1/s.Plan.Seconds,
			number(s.LlamaCPP), 1/s.ByLayers.Seconds, number(ratio), s.ByLayers.Seconds/s.Plan.Seconds, s.Source)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if _, err = fmt.Fprintln(out, "\nTokens per second. The plan counts memory alone: where most activations are on the GPU, something else limited the original.\n"+
		"llama.cpp is that of 2023; its plan is whole dense layers. Assumptions: docs/placement.md."); err != nil {
		return err
	}
	return largerTable(out)
}

// PublishedExperts prints expected speeds of models with experts on described machines, as Markdown: of one model, or
// of all published ones.
func PublishedExperts(out io.Writer, description string) error {
	list := modelcost.PublishedExperts()
	if description != "" {
		list = []string{description}
	}
	for i, text := range list {
		all, err := planner.Expect(text)
		if err != nil {
			return err
		}
		if i == 0 {
			fmt.Fprintf(out, "Tokens per second. *: the model does not fit into RAM, and a part of what a token reads comes from the disk, at %.0f GB/s.\n"+
				"llama.cpp is at its best -ngl and -ncmoe; hits are uses of experts on the GPU, of experts that stay and of experts that follow the text.\n", planner.AssumedDisk/1e9)
		}
		fmt.Fprintf(out, "\n%s, %s, %.1f GiB with keys and values of %d tokens\n\n", all[0].Model, all[0].Type, quantity.GiB(all[0].Bytes), planner.ExpertsContext)
		fmt.Fprint(out, "| GPU | RAM | processor | llama.cpp | at | plan | hits | following | hits |\n|---|---|---:|---:|---|---:|---:|---:|---:|\n")
		for i := range all {
			e := &all[i]
			memory := fmt.Sprintf("%d GiB, %.0f GB/s", e.Memory, e.Stream/1e9)
			rate := func(w *planner.Way) string {
				if w.ReadDisk > 0 {
					return fmt.Sprintf("%.1f*", 1/w.Seconds)
				}
				return fmt.Sprintf("%.1f", 1/w.Seconds)
			}
			w := e.Ways
			_, at, _ := strings.Cut(w[1].Name, " ")
			following := "– | –" // experts known to be used most stay
			if len(w) > 3 {
				following = fmt.Sprintf("%s | %.0f %%", rate(&w[3]), 100*w[3].Hits)
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s | `%s` | %s | %.0f %% | %s |\n", e.Card, memory, rate(&w[0]), rate(&w[1]), at, rate(&w[2]), 100*w[2].Hits, following)
		}
	}
	return nil
}
