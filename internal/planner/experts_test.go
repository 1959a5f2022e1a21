package planner

import (
	"math"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// ways returns the ways to compute six layers of Qwen3-30B-A3B with memory GiB of RAM and a GPU of one GiB.
func ways(t *testing.T, memory float64) ([]Way, modelcost.Cost) {
	t.Helper()
	b, err := modelcost.Described("qwen3-30b-a3b,layers=6,vocab=4096", modelcost.Options{Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	m := Described(int64(memory*(1<<30)), 60e9)
	m.Add("a GPU", 1<<30, 500e9)
	s, err := With(m, b, Options{}).Solve()
	if err != nil {
		t.Fatal(err)
	}
	list, err := Ways(&b, &s, m.Memory)
	if err != nil || len(list) < 3 {
		t.Fatalf("%d ways, error %v", len(list), err)
	}
	return list, b
}

// TestWays: a token reads the bytes that it uses, in whichever memory. All of the model has a place. Plans are no
// slower than llama.cpp's way.
func TestWays(t *testing.T) {
	list, b := ways(t, 64)
	read := list[0].ReadRAM
	for i, w := range list {
		if math.Abs((w.ReadRAM+w.ReadVRAM)/read-1) > 1e-6 || w.ReadDisk != 0 {
			t.Errorf("%s: a token reads %.0f and %.0f bytes, want %.0f in all", w.Name, w.ReadRAM, w.ReadVRAM, read)
		}
		if in := w.RAM + w.VRAM; in < b.Model.Bytes()+b.Rest || w.VRAM > 1<<30 {
			t.Errorf("%s: %d bytes in RAM and %d on the GPU", w.Name, w.RAM, w.VRAM)
		}
		if i > 0 && (w.Seconds > list[i-1].Seconds || w.Hits < list[i-1].Hits) {
			t.Errorf("%s: %g s a token, %.2f of the uses are hits; %s: %g s, %.2f", w.Name, w.Seconds, w.Hits, list[i-1].Name, list[i-1].Seconds, list[i-1].Hits)
		}
	}
	if list[0].Hits != 0 || !strings.HasPrefix(list[1].Name, "llama.cpp -ngl 7 -ncmoe ") {
		t.Errorf("%s, %g hits; %s", list[0].Name, list[0].Hits, list[1].Name)
	}
}

// TestTooLittleRAM: the part of a model that does not fit into RAM is read from the disk. llama.cpp leaves it to the
// system which parts of a file are in memory, so it reads from the disk the share of a token's bytes that RAM has no
// room for. A cache of the most used experts reads less.
func TestTooLittleRAM(t *testing.T) {
	all, _ := ways(t, 64)
	half, _ := ways(t, float64(all[0].RAM)/2/(1<<30))
	if len(half) != 4 {
		t.Fatalf("%d ways", len(half))
	}
	for _, w := range []Way{half[0], half[2], half[3]} {
		if w.ReadDisk <= 0 || w.ReadDisk != w.Plan.Disk.Read || w.RAM > all[0].RAM/2 || w.Seconds != w.Plan.Seconds {
			t.Errorf("%s: %+v", w.Name, w.Plan.Disk)
		}
	}
	if w := half[0]; w.ReadDisk > 0.5*w.ReadRAM || w.Seconds <= all[0].Seconds+0.5*w.ReadDisk/AssumedDisk {
		t.Errorf("%g of %g bytes from the disk; %g s a token, %g with enough RAM", w.ReadDisk, w.ReadRAM, w.Seconds, all[0].Seconds)
	}
	if w := half[1]; w.ReadDisk <= half[2].ReadDisk || w.Plan.Disk.Bytes > 0 {
		t.Errorf("%s reads %g bytes from the disk, the plan %g", w.Name, w.ReadDisk, half[2].ReadDisk)
	}
	if half[2].Seconds > half[1].Seconds {
		t.Errorf("the plan takes %g s a token, llama.cpp's way %g", half[2].Seconds, half[1].Seconds)
	}
	if still, w := half[2], half[3]; w.ReadDisk >= still.ReadDisk || w.Seconds >= still.Seconds || w.Hits <= still.Hits {
		t.Errorf("%s: %g bytes from the disk and %g s a token; if experts stay, %g and %g", w.Name, w.ReadDisk, w.Seconds, still.ReadDisk, still.Seconds)
	}
}
