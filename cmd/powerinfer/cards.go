package main

import (
	"slices"
	"strconv"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
)

// cards are all devices as measure takes them.
func cards(all []vulkan.Info) []measure.Found {
	usual := vulkan.Usual(all)
	var found []measure.Found
	for _, d := range all {
		f := measure.Found{ID: measure.ID{
			Name: d.Name, Driver: d.Driver, UUID: d.UUID, Memory: d.Memory, Software: d.Kind == vulkan.CPU,
			Spare: d.Kind != vulkan.CPU && !slices.Contains(usual, d),
		}}
		switch {
		case d.Lacks != "":
			f.Lacks = "it " + d.Lacks
		case f.Software: // how fast it is says nothing: it is there for tests
			f.Lacks = "it is software on the processor, which computes only where it is named"
		default:
			f.Open = func() (measure.GPU, error) { return vulkan.Open(vulkan.Options{Device: strconv.Itoa(d.Index)}) }
		}
		found = append(found, f)
	}
	return found
}
