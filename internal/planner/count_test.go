package planner

import (
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// TestLarge: a plan of a 70B model is there in a moment.
func TestLarge(t *testing.T) {
	shape, err := modelcost.Describe("llama-70b,type=q4_0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := PC("pc-high")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	b := shape.Cost(4096, 0)
	s, err := With(m, b, Options{}).Solve()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.2f s, overhead at most %.0f MiB, VRAM %.0f of %.0f MiB", time.Since(begin).Seconds(), mib(s.Machine.GPUs[0].Overhead), mib(s.Plan.VRAM[0]), mib(s.Machine.GPUs[0].Budget))
}
