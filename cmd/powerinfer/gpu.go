package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/diagnosis"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
)

// listDevices prints the values of --device.
func listDevices() error {
	all, err := vulkan.Devices()
	if errors.Is(err, vulkan.ErrNone) {
		out := bufio.NewWriter(screen.Out)
		fmt.Fprintln(out, err)
		diagnosis.Drivers(out, vulkan.Found(), false)
		return out.Flush()
	}
	if err != nil {
		return err
	}
	out := bufio.NewWriter(screen.Out)
	usual := vulkan.Usual(all)
	for _, d := range all {
		note := ""
		switch {
		case d.Lacks != "":
			note = ": cannot be used, it " + d.Lacks
		case d.Kind == vulkan.CPU:
			note = ": only where it is named, as lavapipe"
		case !slices.Contains(usual, d):
			note = ": only where it is named"
		}
		fmt.Fprintf(out, "%d  %s (%s, %.1f GiB, %s)%s\n", d.Index, d.Name, d.Kind, quantity.GiB(d.Memory), d.Driver, note)
	}
	return out.Flush()
}
