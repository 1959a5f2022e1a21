package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TestExtension: texts of several lengths are extended at the same time, with drafts, too few pages, and a cache that
// is lost at times. In each step every token has the position of the definition. The texts are the same as alone, and
// no other text reuses their keys and values.
func TestExtension(t *testing.T) {
	for _, drafts := range []int{0, 6} {
		const seed = 11
		e, m := openFake(t, 12, limits{rows: 48, outputs: 3, drafts: drafts, context: 8 * compute.PagePositions})
		e.options.Cache.Extension = Extension{Group: 5, Width: 60}
		m.extension, m.turned = e.options.Cache.Extension, map[[2]int32]int32{}
		m.fail = func(step int) error {
			if step%37 == 0 {
				return errLost
			}
			return nil
		}
		rng := rand.New(rand.NewPCG(seed, uint64(drafts)))
		var clients sync.WaitGroup
		for _, length := range []int{1, 59, 60, 61, 200, 200} {
			prompt := tokens(rng, length)
			clients.Go(func() {
				const want = 150
				for range 2 {
					var out []int32
					res, err := e.Generate(context.Background(), Request{Prompt: prompt, Max: want, Sampler: greedySampler{}, IgnoreEOG: true, Reuse: ReuseAny}, func(tok Token) bool {
						out = append(out, tok.ID)
						return true
					})
					if err != nil || !slices.Equal(out, alone(prompt, want)) || res.Reused != 0 {
						t.Errorf("seed %d, a prompt of %d: %d tokens, %d reused, %v", seed, length, len(out), res.Reused, err)
					}
				}
			})
		}
		clients.Wait()
		if n := e.heldPages(); n != 0 {
			t.Errorf("%d pages are held", n)
		}
	}
}

// TestExtensionCheck: impossible extensions are refused.
func TestExtensionCheck(t *testing.T) {
	for x, fits := range map[Extension]bool{{}: true, {1, 512}: true, {4, 512}: true, {4, 4}: true, {3, 512}: false, {-1, 512}: false, {4, 0}: false, {4, -4}: false, {0, 512}: false} {
		if err := x.Check(); (err == nil) != fits {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
