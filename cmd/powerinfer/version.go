package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/hw"
)

var negInf = math.Inf(-1)

// version is the module's version and commit as the Go toolchain recorded them.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	if rev := commit(); rev != "" {
		v += " " + rev
	}
	return v
}

// commit is the revision the binary was built from, or empty.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+"
		}
	}
	return rev + dirty
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print version, toolchain and processor",
		Action: func(_ context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			cpu := hw.Detect()
			fmt.Printf("powerinfer %s\n%s %s/%s\n%s, %d cores\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu.Name, cpu.PhysicalCores)
			return nil
		},
	}
}

// describe says what was loaded, for --verbose.
func describe(e *engine.Engine, load time.Duration) {
	c := e.Config()
	fmt.Fprintf(os.Stderr, "model %s: %s, %d layers, n_embd %d, n_ff %d, %d heads over %d KV heads of %d, vocabulary %d\n",
		c.Name, c.Arch, c.Layers, c.Embd, c.FF, c.Heads, c.KVHeads, c.HeadDim, c.Vocab)
	fmt.Fprintf(os.Stderr, "context %d, %s, loaded in %.0f ms\n", e.Context(), e.Device(), float64(load.Milliseconds()))
	if c.Predicted {
		fmt.Fprintf(os.Stderr, "neurons predicted at threshold %g\n", c.Threshold)
	}
}
