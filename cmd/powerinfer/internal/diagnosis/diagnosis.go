// Package diagnosis prints a machine's figures and what they mean: CPU and memory, GPUs, drivers, disks and kernels,
// and expected speeds of models.
package diagnosis

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// Machine prints a description of the machine.
func Machine(out io.Writer) {
	cpu := hw.Detect()
	cores := quantity.Of(cpu.PhysicalCores, "physical core")
	if cpu.Usable != cpu.PhysicalCores {
		cores += fmt.Sprintf(", %d of them usable by this process", cpu.Usable)
	}
	fmt.Fprintf(out, "%s, %s, kernels: %s\n", cpu.Name, cores, measure.Kernels())
	if mem, err := hw.ReadMemory(); err == nil {
		fmt.Fprintf(out, "memory: %.1f GiB, %.1f of them available\n", quantity.GiB(mem.Total), quantity.GiB(mem.Available))
	} else {
		fmt.Fprintln(out, "memory: unknown:", err)
	}
}

// Details prints all figures of a machine.
func Details(out io.Writer, m *measure.Machine) {
	ram(out, m)
	for i := range m.Disks {
		diskSpeeds(out, &m.Disks[i])
	}
	speeds(out, m)
	kernels(out, m)
}

// speeds prints how long each processor takes for the parts of a layer.
func speeds(out io.Writer, m *measure.Machine) {
	fmt.Fprintln(out, "\nA token in a layer, in Q4_0: µs to start, and GB/s read from then on; what a further token of the same step takes:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tattention\t\tpredictor\t\tdense FFN\t\tsparse FFN\t\tevery row\t\tfurther token\t")
	row := func(name string, s *placement.Speeds) {
		if s == nil {
			return
		}
		fmt.Fprintf(w, "%s\t", name)
		for _, r := range []placement.Rate{s.Attention, s.Predictor, s.Dense, s.Sparse, s.EveryRow} {
			if r == (placement.Rate{}) {
				fmt.Fprint(w, "–\t–\t")
				continue
			}
			fmt.Fprintf(w, "%.0f\t%.1f\t", 1e6*r.Start, r.Read/1e9)
		}
		fmt.Fprintf(w, "%.0f %%\t\n", 100*s.Each*s.Dense.Read)
	}
	row("CPU", m.Speeds)
	for i := range m.GPUs {
		row(fmt.Sprintf("GPU %d", i), m.GPUs[i].Speeds)
	}
	w.Flush()
}

// ram prints the speed of reading memory and of computing prompts.
func ram(out io.Writer, m *measure.Machine) {
	fmt.Fprintln(out, "\nRAM, GB/s read:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "threads\tin order\t")
	for _, r := range m.RAM[0].Rows {
		fmt.Fprintf(w, "rows of %.1f KB\t", float64(r.Bytes)/1e3)
	}
	fmt.Fprintln(w)
	for _, r := range m.RAM {
		fmt.Fprintf(w, "%d\t%.1f\t", r.Threads, r.Stream/1e9)
		for _, row := range r.Rows {
			fmt.Fprintf(w, "%.1f\t", row.Read/1e9)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	taken(out, m)
	if m.Products > 0 {
		fmt.Fprintf(out, "prompts: %.0f billion multiplications and additions a second with %s, in Q4_0; %.1f GB/s packed for a GPU\n", m.Products/1e9, quantity.Of(m.Cores, "thread"), m.Packs/1e9)
	}
}

// kernels prints which kernels were chosen, and why.
func kernels(out io.Writer, m *measure.Machine) {
	if len(m.Kernels) == 0 {
		return
	}
	fmt.Fprintln(out, "\nKernels of generation, GB/s of weights in RAM, each in its best round; loading a model chooses anew on its own weights, --kernels overrides:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "type\trow\tchosen\tGB/s\twhy\tall")
	for i := range m.Kernels {
		k := &m.Kernels[i]
		var all []string
		for _, s := range k.Speeds {
			all = append(all, fmt.Sprintf("%s %.1f", s.Kernel, s.Speed/1e9))
		}
		row := strconv.Itoa(k.Cols)
		if k.Scattered {
			row += ", scattered"
		}
		if k.Mapped {
			row += ", mapped"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%s\t%s\n", k.Type, row, k.Chosen, k.Speed(k.Chosen)/1e9, k.Why, strings.Join(all, ", "))
	}
	w.Flush()
}

// taken prints when and how RAM was measured, and doubts about the figures.
func taken(out io.Writer, m *measure.Machine) {
	t := m.Taken
	if t == nil {
		return
	}
	fmt.Fprintf(out, "measured %s over %d MiB", t.At.Local().Format("2006-01-02 15:04"), t.Buffer>>20)
	if way := m.Best().Way; way != "" {
		fmt.Fprintf(out, ", in order fastest by %s", way)
	}
	fmt.Fprintln(out)
	if t.Small() {
		fmt.Fprintf(out, "the caches hold %d MiB of that, so memory may be slower; there was no room for a larger buffer\n", t.Caches>>20)
	}
	for _, d := range t.Doubts {
		fmt.Fprintln(out, "doubtful:", d)
	}
	if len(t.Doubts) > 0 {
		fmt.Fprintln(out, "doubtful figures are measured again once the machine is less busy; doctor --again does so now")
	}
}

// GPUs prints the GPUs, with verbose also the figures of each.
func GPUs(out io.Writer, m *measure.Machine, why error, verbose bool) {
	if len(m.GPUs) == 0 {
		if why == nil {
			fmt.Fprintln(out, "graphics: no GPU; models are computed on the CPU")
			return
		}
		fmt.Fprintf(out, "graphics: %v; models are computed on the CPU\n", why)
		return
	}
	usable := 0
	for i := range m.GPUs {
		k := &m.GPUs[i]
		if !verbose && (k.Lacks != "" || k.Software) {
			continue
		}
		fmt.Fprintf(out, "graphics %d: %s, %.1f GiB, %s\n", i, k.Name, quantity.GiB(k.Memory), k.Driver)
		switch {
		case k.Lacks != "":
			fmt.Fprintln(out, "  cannot be used:", k.Lacks)
			continue
		case k.Software:
			fmt.Fprintln(out, "  is software on the CPU: nothing is placed on it unless it is named")
		case k.Spare:
			fmt.Fprintln(out, "  is used only where it is named: GPUs come first, and each of them through one driver")
		default:
			usable++
		}
		if verbose {
			fmt.Fprintf(out, "  reads %.0f GB/s, takes %.1f GB/s and gives %.1f GB/s over the bus, hand-off %.0f µs, launches %.0f µs a layer\n",
				k.Read/1e9, k.Upload/1e9, k.Download/1e9, 1e6*k.HandOff, 1e6*k.Launch)
			if k.Products > 0 {
				fmt.Fprintf(out, "  prompts: %.0f billion multiplications and additions a second, in Q4_0; %.1f GB/s packed to be sent to it\n", k.Products/1e9, k.Packs/1e9)
			}
		}
	}
	switch {
	case usable == 0:
		fmt.Fprintln(out, "graphics: no GPU can be used; models are computed on the CPU")
	case usable > 1:
		fmt.Fprintf(out, "models are divided among %d GPUs, each layer between one of them and the CPU\n", usable)
	}
}

// Drivers prints which parts of Vulkan are missing and, with verbose, what was found.
func Drivers(out *bufio.Writer, found *vulkan.Installed, verbose bool) {
	if verbose {
		for _, l := range found.Loaders {
			fmt.Fprintln(out, "Vulkan loader:", l)
		}
		for _, m := range found.Drivers {
			fmt.Fprintf(out, "Vulkan driver: %s, of %s\n", m.Library, m.Path)
		}
		for _, l := range found.CUDA {
			fmt.Fprintln(out, "CUDA driver:", l)
		}
	}
	for _, advice := range found.Advice() {
		screen.Wrap(out, strings.Fields(advice), 0, 2)
	}
}

// Context is the context that the speeds are told for, and doctorLaw the law of their neurons.
const (
	Context   = 4096
	doctorLaw = "active=0.1,share80=0.35"
)

// Expected prints the speeds that the figures allow for some models.
func Expected(out io.Writer, m *measure.Machine) error {
	fmt.Fprintf(out, "\nTokens per second to expect at a context of %d, by memory alone:\n", Context)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "Q4_0 model\tGiB\tdense\t90 % sparse: exact\tpredict\t")
	for _, size := range []string{"7b", "13b", "70b"} {
		var speed [3]string
		var bytes int64
		for i, mode := range []string{"off", "exact", "predict"} {
			shape, err := modelcost.Describe("llama-" + size + ",type=q4_0," + doctorLaw + ",mode=" + mode)
			if err != nil {
				return err
			}
			b := shape.Cost(Context, 0)
			solved, err := planner.With(planner.Measured(*m), b, planner.Options{}).Solve()
			if err != nil {
				return err
			}
			p := &solved.Plan
			if i == 0 {
				bytes = b.Model.Bytes() + b.Rest
			}
			speed[i] = fmt.Sprintf("%.1f", 1/p.Seconds)
			if m.Memory > 0 && uint64(p.RAM+b.Rest) > m.Memory {
				speed[i] = "does not fit"
			}
		}
		fmt.Fprintf(w, "%s\t%.1f\t%s\t%s\t%s\t\n", size, quantity.GiB(bytes), speed[0], speed[1], speed[2])
	}
	return w.Flush()
}
