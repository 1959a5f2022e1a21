// Package checkup runs the parts of a check of a machine, each within a time limit, and joins their sections to a report.
// A check is a program in a bundle, for machines without Go, network or models: bench/gpucheck and bench/cpucheck.
package checkup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// Part is one section of the report.
type Part struct {
	Name, Says string        // Says completes the section's title
	Usual      time.Duration // what it takes on the machine that it was planned for; 0: unknown
	Limit      time.Duration // the part begins nothing new after this time; 0: what --minutes says
	Skip       bool          // the machine lacks what the part checks: no section is written
	Run        func(ctx context.Context, w *Report) error
}

// Check is a list of parts with the folder of their sections.
type Check struct {
	Title   string // first line of the report
	Details string // second line: what was checked, after the processor's name; empty: nothing more
	Parts   []Part
	Total   time.Duration // no part begins anything new after this time; 0: no limit
	out     string        // folder of sections and report
	limit   time.Duration // after it a part begins nothing new
	some    []int         // indices of the parts to run
}

// Flags returns the flags of every check. out is the default of --out.
func Flags(out string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "part", Usage: "`NAMES` or numbers of parts, with commas between them; default: all"},
		&cli.BoolFlag{Name: "list", Usage: "list the parts and exit"},
		&cli.StringFlag{Name: "out", Value: out, Usage: "`FOLDER` of the sections and of report.md"},
		&cli.FloatFlag{Name: "minutes", Value: 8, Usage: "a part begins nothing new after `N` minutes"},
	}
}

// Configure takes the values of Flags and creates the folder of the report.
func (c *Check) Configure(f *cli.Command) error {
	if f.Args().Present() {
		return errors.New("unexpected argument; names of parts follow --part")
	}
	var err error
	if c.some, err = c.chosen(f.String("part")); err != nil {
		return err
	}
	minutes := f.Float("minutes")
	if !(minutes > 0 && minutes <= 1440) {
		return fmt.Errorf("--minutes %g is not a number of minutes up to a day", minutes)
	}
	c.out, c.limit = f.String("out"), time.Duration(minutes*float64(time.Minute))
	return os.MkdirAll(c.out, 0o755)
}

// List prints the parts, and how long they take where that is known.
func (c *Check) List() {
	sum := time.Duration(0)
	for i, p := range c.Parts {
		takes := ""
		if sum += p.Usual; p.Usual > 0 {
			takes = fmt.Sprintf(" (about %.0f s)", p.Usual.Seconds())
		}
		fmt.Printf("%-2d %-10s %s%s\n", i+1, p.Name, p.Says, takes)
	}
	if sum > 0 {
		fmt.Printf("Together they take about %.1f minutes.\n", sum.Minutes())
	}
}

// chosen returns the indices of the parts that a list of names and numbers means.
func (c *Check) chosen(names string) ([]int, error) {
	var some []int
	for _, name := range strings.Split(names, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(c.Parts, func(p Part) bool { return p.Name == name })
		if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(c.Parts) {
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
		for i := range c.Parts {
			some = append(some, i)
		}
	}
	return some, nil
}

// Run runs the chosen parts until ctx ends, also after one failed, and writes report.md. The error joins those of the
// parts.
func (c *Check) Run(ctx context.Context) error {
	var failed []error
	inTime := ctx
	if c.Total > 0 {
		var cancel context.CancelFunc
		inTime, cancel = context.WithTimeout(ctx, c.Total)
		defer cancel()
	}
	for _, i := range c.some {
		if c.Parts[i].Skip {
			continue
		}
		if ctx.Err() != nil { // the sections of earlier runs stay
			break
		}
		if inTime.Err() != nil {
			failed = append(failed, fmt.Errorf("part %s: left out, because %v are over", c.Parts[i].Name, c.Total))
			continue
		}
		failed = append(failed, c.run(inTime, i), c.join()) // a machine may be taken away between two parts
	}
	failed = append(failed, ctx.Err(), c.join())
	fmt.Printf("wrote %s\n", c.report())
	return errors.Join(failed...)
}

// run runs part i and writes its section.
func (c *Check) run(ctx context.Context, i int) error {
	p := c.Parts[i]
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.Limit, c.limit))
	defer cancel()
	w := NewReport(os.Stdout)
	w.Say("## %s: %s", p.Name, p.Says)
	begin := time.Now()
	err := p.Run(ctx, w)
	if err != nil {
		w.Say("**Failed:** %v", err)
		err = fmt.Errorf("part %s: %w", p.Name, err)
	}
	w.Say("Took %.0f s.", time.Since(begin).Seconds())
	return errors.Join(err, w.Write(c.section(i)))
}

// section returns the path of part i's section.
func (c *Check) section(i int) string {
	return filepath.Join(c.out, fmt.Sprintf("%d-%s.md", i+1, c.Parts[i].Name))
}

// report returns the path of report.md.
func (c *Check) report() string { return filepath.Join(c.out, "report.md") }

// join writes report.md from the sections that exist, of this run and of earlier ones.
func (c *Check) join() error {
	var sections []string
	for i := range c.Parts {
		sections = append(sections, c.section(i))
	}
	details := ""
	if c.Details != "" {
		details = ", " + c.Details
	}
	about := fmt.Sprintf("%s%s, commit %s, %s.", hw.Detect().Name, details, commit(), time.Now().UTC().Format("2006-01-02"))
	return writeJoined(c.report(), c.Title, about, sections)
}
