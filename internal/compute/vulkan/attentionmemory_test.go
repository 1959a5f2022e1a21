package vulkan

import (
	"fmt"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TestAttentionMemory: the attention memory of the steps of Steps, as prompts and as single tokens, is enough for any
// step. Single tokens take no more than fewRows of them do.
func TestAttentionMemory(t *testing.T) {
	const most, heads, size = 512, 32, 128
	for _, kv := range []int{heads, heads / 4} {
		for _, positions := range []int{4096, 16384} {
			t.Run(fmt.Sprintf("%d KV heads, %d positions", kv, positions), func(t *testing.T) {
				d := Counter(Info{Memory: 1 << 40, Free: 1 << 40})
				spec := compute.CacheSpec{Pages: positions / compute.PagePositions}
				spec.Layers = []compute.KVShape{{Heads: kv, Key: size, Value: size}}
				c, err := d.Cache(spec)
				if err != nil {
					t.Fatal(err)
				}
				take := func(n, single int) int64 {
					t.Helper()
					q, out := tensorOf(t, d, n, heads*size), tensorOf(t, d, n, heads*size)
					p := compute.Params{Tokens: make([]int32, n), Pos: make([]int32, n), Seq: make([]int32, n), Pages: [][]int32{make([]int32, spec.Pages)}, Decode: single}
					seg := p.Segment("attention")
					if err := d.Record(seg, &p, func(v compute.Verbs) { v.Attend(out, q, c, 0, compute.Attention{Scale: 1}) }); err != nil {
						t.Fatal(err)
					}
					return d.scratches["attention"].Size
				}
				few := take(fewRows, fewRows)
				if many := take(most, most); few == 0 || many != few {
					t.Errorf("%d single tokens take %d bytes, %d take %d", most, many, fewRows, few)
				}
				enough := take(most, 0)
				for n := 1; n <= most; n += 21 {
					for _, single := range []int{0, n / 2, n} {
						if now := take(n, single); now > enough {
							t.Fatalf("a step of %d tokens, %d of them single ones, takes %d bytes, and %d were counted", n, single, now, enough)
						}
					}
				}
			})
		}
	}
}
