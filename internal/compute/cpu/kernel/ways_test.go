package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestWays: rows have the same bytes whichever way they go, in rows of every class.
func TestWays(t *testing.T) {
	const seed, rows = 5, 9 // one more than whole tiles
	rng := rand.New(rand.NewPCG(seed, 0))
	if len(platform()) == 0 {
		t.Skip("there is only plain Go")
	}
	for _, typ := range quant.Types() {
		for _, cols := range []int{256, 6144, 13312, 16384} {
			if (typ.Like() != typ || testing.Short()) && cols > 6144 {
				continue
			}
			p := newProblem(rng, typ, rows, cols, 1)
			for _, k := range platform() {
				c := k.ClassOf(typ, Consecutive, cols)
				var first []float32
				for i, name := range k.Ways(typ, Consecutive) {
					if err := k.Go(typ, Consecutive, c, name); err != nil {
						t.Fatal(err)
					}
					if got := p.multiply(t, k, typ); i == 0 {
						first = got
					} else if !slices.Equal(got, first) {
						t.Errorf("seed %d: %s %s, %d columns: %s differs from %s", seed, k.Name, typ, cols, name, k.Ways(typ, Consecutive)[0])
					}
					if got := k.Way(typ, Consecutive, c); got != name {
						t.Errorf("%s goes by %q, not by the chosen %q", typ, got, name)
					}
				}
				if err := k.Go(typ, Consecutive, c, "sideways"); err == nil {
					t.Errorf("%s: a kernel that does not exist was taken", typ)
				}
			}
		}
	}
}
