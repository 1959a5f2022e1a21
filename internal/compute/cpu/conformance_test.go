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
func TestConformance(t *testing.T) {
	variants := kernel.Variants()
	if testing.Short() {
		variants = slices.Compact([]*kernel.Kernels{variants[0], variants[len(variants)-1]})
	}
	var families [2][]devicetest.Family // of sets without and with a matrix unit
	for _, k := range variants {
		f := devicetest.Family{opens(k.Name, 2, 4)}
		if k.Name != kernel.Generic {
			f = append(f, opens(k.Name, 1, 1))
		}
		unit := 0
		if k.HasMatrix() {
			unit = 1
		}
		families[unit] = append(families[unit], f)
	}
	devicetest.Promise{}.Run(t, families[0]...)
	if families[1] != nil {
		t.Run("Matrix unit", func(t *testing.T) { devicetest.Promise{Bfloats: true}.Run(t, families[1]...) })
	}
}
