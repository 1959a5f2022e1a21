package planreport

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// The machine of largerTable: a desktop with two channels of DDR5 and an RTX 4060.
const (
	largerRAM    = 32 << 30 // bytes
	largerStream = 60e9     // bytes per second
	largerGPU    = 8        // GB
	largerRead   = 272e9    // bytes per second
)

// larger plans for a published model with experts that is larger than the desktop's memory, with an SSD that reads so
// many bytes per second.
func larger(model string, ssd float64) (*planner.Planner, error) {
	m := planner.Described(largerRAM, largerStream)
	m.Add("RTX 4060", largerGPU<<30, largerRead)
	m.AddSSD(ssd)
	return session.PlanOn(m, engine.Options{}, planner.Options{}, func(ubatch int) (modelcost.Cost, error) {
		e := engine.Options{Limits: engine.Limits{UBatch: ubatch}}
		return modelcost.Described(model, modelcost.Options{Context: planner.ExpertsContext, UBatch: e.LargestStep()})
	})
}

// largerTable prints expected speeds of models larger than memory, with SSDs on PCIe 3, 4 and 5.
func largerTable(out io.Writer) error {
	fmt.Fprintf(out, "\nLarger than memory: %d GiB of RAM at %.0f GB/s, a GPU of %d GB, and SSDs\n\n", largerRAM>>30, largerStream/1e9, largerGPU)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "model\ttype\tGiB\tSSD GB/s\tplan\tGPU GiB\tRAM GiB\tdisk GiB\thits\tdisk MB\t")
	for _, model := range []string{"gpt-oss-120b", "glm-4.5-air", "qwen3-235b-a22b", "deepseek-v4-flash", "deepseek-v3"} {
		for _, ssd := range []float64{3.5e9, 7e9, 14e9} {
			p, err := larger(model, ssd)
			if err != nil {
				return err
			}
			s, err := p.Solve()
			if err != nil {
				return err
			}
			b, y := p.Cost(), &s.Plan
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%.1f\t%.0f %%\t%.0f\t\n", model, b.Type, quantity.GiB(b.Model.Bytes()+b.Rest), ssd/1e9, 1/y.Seconds,
				quantity.GiB(y.VRAM[0]), quantity.GiB(y.RAM+b.Rest), quantity.GiB(y.Disk.Bytes), 100*y.Disk.Hits, y.Disk.Read/1e6)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "\nTokens per second; hits are uses of experts that are on no GPU and are found in RAM, MB what a token reads from the SSD.")
	return err
}
