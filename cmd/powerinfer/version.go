package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// version returns the module's version and commit as the Go toolchain recorded them.
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

// commit returns the commit of the build, or empty.
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
			_, err := fmt.Fprintf(screen.Out, "powerinfer %s\n%s %s/%s\n%s, %d cores\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu.Name, cpu.PhysicalCores)
			return err
		},
	}
}
