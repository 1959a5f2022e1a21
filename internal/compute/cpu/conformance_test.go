package cpu_test

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/compute/devicetest"
)

func opens(kernels string, threads, batch int) func(t *testing.T) compute.Device {
	return func(t *testing.T) compute.Device {
		t.Helper()
		d, err := cpu.New(cpu.Options{Threads: threads, ThreadsBatch: batch, Set: kernels})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// TestConformance holds every set of kernels that this machine runs to the scalar device, and every number of threads
// to the same bytes. Steps of one token have other threads than longer ones, as users have it. Generic kernels compute
// row by row, which threads cannot change. Short tests, as those of the race detector, have the fastest set and that one.
func TestConformance(t *testing.T) { devicetest.Promise{}.Run(t, conforming(false)...) }

// TestMatrixUnitConformance does so for sets with a matrix unit, where there is one.
func TestMatrixUnitConformance(t *testing.T) {
	families := conforming(true)
	if families == nil {
		t.Skip("this processor has no matrix unit that is used")
	}
	devicetest.Promise{Bfloats: true}.Run(t, families...)
}

// conforming returns the sets of kernels with a matrix unit, or those without.
func conforming(unit bool) (families []devicetest.Family) {
	variants := kernel.Variants()
	if testing.Short() {
		variants = slices.Compact([]*kernel.Kernels{variants[0], variants[len(variants)-1]})
	}
	for _, k := range variants {
		if k.HasMatrix() != unit {
			continue
		}
		f := devicetest.Family{opens(k.Name, 2, 4)}
		if k.Name != kernel.Generic {
			f = append(f, opens(k.Name, 1, 1))
		}
		families = append(families, f)
	}
	return families
}
