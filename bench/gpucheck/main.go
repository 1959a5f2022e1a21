// Command gpucheck tries this engine on this machine's GPU: what is installed, what the GPU reaches, whether every verb
// computes what it should, how near the kernels come to the GPU's memory, and what decoding reaches at several budgets
// of video memory. It needs no network and no model: it writes its own. Each part ends within minutes and leaves its
// section of report.md.
//
//	gpucheck --list
//	gpucheck --part machine,kernels --out results
//
// `make gpu-check` bundles it with the compiled tests; docs/gpu-check.md tells how to read the report.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		os.Exit(1)
	}
}

func command() *cli.Command {
	return &cli.Command{
		Name: "gpucheck", Usage: "try the engine on this machine's GPU", DisableSliceFlagSeparator: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "part", Usage: "`NAMES` or numbers of parts, with commas between them; default: all"},
			&cli.BoolFlag{Name: "list", Usage: "list the parts and exit"},
			&cli.StringFlag{Name: "device", Usage: "`NAME` or number of the GPU, or lavapipe; default: the best there is"},
			&cli.StringFlag{Name: "out", Value: "gpu-check-results", Usage: "`FOLDER` of the sections and of report.md"},
			&cli.StringFlag{Name: "models", Usage: "`FOLDER` that models are written to, of up to 6 GB each; default: one below --out"},
			&cli.StringFlag{Name: "tests", Usage: "compiled tests of the device: `FILE`; without it nothing is verified"},
			&cli.StringFlag{Name: "llama-bench", Usage: "llama.cpp's `BINARY` of that name, built for this GPU, to compare with"},
			&cli.IntFlag{Name: "layers", Usage: "`N` layers of the models; default: as many as 3 GB hold"},
			&cli.StringFlag{Name: "only", Usage: "of the kernels, those whose type and name match a `REGEXP`: 'Q4_0.*down'"},
			&cli.FloatFlag{Name: "minutes", Value: 8, Usage: "a part begins nothing new after `N` minutes"},
			&cli.BoolFlag{Name: "tiny", Usage: "shapes that a software device computes in seconds: to try the check itself"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Bool("list") {
				list()
				return nil
			}
			return run(ctx, c)
		},
	}
}

// check is what the flags ask for.
type check struct {
	device string // as vulkan.Options has it
	info   vulkan.Info
	out    string // folder of results
	models string // folder of models
	tests  string // compiled tests; empty: none
	llama  string // llama-bench; empty: none
	layers int    // 0: as many as modelBytes hold
	only   *regexp.Regexp
	tiny   bool
}

// part is one section of the report.
type part struct {
	name, says string
	run        func(ctx context.Context, c *check, w *report) error
}

func parts() []part {
	all := []part{
		{"machine", "what is installed, and what RAM and GPU reach", machine},
		{"verbs", "every verb against its definition, and whole models", verbs},
		{"kernels", "products, attention and sparse layers against the GPU's memory", kernels},
		{"prompts", "products of many tokens in each way that the GPU has", prompts},
	}
	for _, m := range shapes() {
		all = append(all, part{m.name, "decoding with budgets from nothing to the whole model, " + m.says, m.decode})
	}
	return all
}

func list() {
	for i, p := range parts() {
		fmt.Printf("%d  %-10s %s\n", i+1, p.name, p.says)
	}
}

// chosen returns the parts that a list of names and numbers means.
func chosen(names string) ([]int, error) {
	all := parts()
	var some []int
	for _, name := range strings.Split(names, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(all) {
			i = n - 1
		}
		switch {
		case name == "":
		case i < 0:
			return nil, fmt.Errorf("--part %.40q is no part's name or number; --list lists them", name)
		default:
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		for i := range all {
			some = append(some, i)
		}
	}
	return some, nil
}

func run(ctx context.Context, f *cli.Command) error {
	if f.Args().Present() {
		return errors.New("unexpected argument; parts go behind --part")
	}
	some, err := chosen(f.String("part"))
	if err != nil {
		return err
	}
	c := &check{
		device: f.String("device"), out: f.String("out"), models: f.String("models"), tests: f.String("tests"), llama: f.String("llama-bench"),
		layers: f.Int("layers"), tiny: f.Bool("tiny"),
	}
	if c.models == "" {
		c.models = filepath.Join(c.out, "models")
	}
	if c.layers < 0 || c.layers > 1000 {
		return fmt.Errorf("--layers %d is not a number from 0 to 1000", c.layers)
	}
	if c.only, err = regexp.Compile(f.String("only")); err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	limit := time.Duration(f.Float("minutes") * float64(time.Minute))
	info, noGPU := vulkan.Chosen(c.device)
	c.info = info
	var failed []error
	for _, i := range some {
		if err := c.part(ctx, i, limit, noGPU); err != nil {
			failed = append(failed, err)
		}
	}
	failed = append(failed, c.join())
	if noGPU != nil {
		fmt.Printf("\n%v: nothing but the machine could be looked at.\n", noGPU)
		if c.device == "" && errors.Is(noGPU, vulkan.ErrNone) {
			return errors.Join(failed...)
		}
		failed = append(failed, noGPU)
	}
	return errors.Join(failed...)
}

// part runs part i and writes its section. Without a GPU only the first has anything to say.
func (c *check) part(ctx context.Context, i int, limit time.Duration, noGPU error) error {
	p := parts()[i]
	if noGPU != nil && i > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := newReport(os.Stdout)
	w.say("## %s: %s", p.name, p.says)
	begin, before := time.Now(), vulkan.Counted()
	err := p.run(ctx, c, w)
	if err != nil {
		w.say("**Failed:** %v", err)
		err = fmt.Errorf("part %s: %w", p.name, err)
	}
	now := vulkan.Counted()
	now.Devices -= before.Devices
	w.say("Took %.0f s. This process has %v.", time.Since(begin).Seconds(), now)
	return errors.Join(err, w.write(c.section(i)))
}

// section returns where part i's section lies.
func (c *check) section(i int) string {
	return filepath.Join(c.out, fmt.Sprintf("%d-%s.md", i+1, parts()[i].name))
}

// open opens the GPU with nothing on it.
func (c *check) open() (*vulkan.Device, error) { return c.openFor(vulkan.Best) }

// openFor opens it to compute prompts in one way.
func (c *check) openFor(long vulkan.Arithmetic) (*vulkan.Device, error) {
	return vulkan.Open(vulkan.Options{Device: strconv.Itoa(c.info.Index), Cache: filepath.Join(c.out, "pipelines"), Long: long})
}

// machineFile keeps what part machine measured, for the others.
func (c *check) machineFile() string { return filepath.Join(c.out, "machine.json") }

// measured returns the machine with the chosen GPU alone, as part machine left it, or else as it is measured now.
func (c *check) measured(ctx context.Context) (measure.Machine, error) {
	return measure.Of(ctx, c.machineFile(), c.found(), nil)
}

func (c *check) found() []measure.Found {
	id := measure.ID{Name: c.info.Name, Driver: c.info.Driver, UUID: c.info.UUID, Memory: c.info.Memory, Software: c.info.Kind == vulkan.CPU}
	return []measure.Found{{ID: id, Open: func() (measure.Device, error) { return c.open() }}}
}
