package kernel

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// oneToken are a quantised type's kernels for one token and packed rows, in one instruction set.
type oneToken struct {
	near, far streamer
	rows      tile      // for four rows
	four      scatterer // rows at a time
}

// usualNear are the usual kernels of types that are unpacked so fast that the hardware's prefetchers keep up.
func usualNear(isa string) [Classes]string {
	return [Classes]string{"near-" + isa, "near-" + isa, "rows-" + isa, "rows-" + isa}
}

// takeOneToken puts kernels before those that k has. The kernels of usual become the usual ones; other types keep those
// of usualWays.
func (k *Kernels) takeOneToken(isa string, kernels map[quant.Type]oneToken, usual map[quant.Type][Classes]string) {
	for t, s := range kernels {
		u, ok := usual[t]
		if !ok {
			u = usualWays(isa)
		}
		have := &k.ways[t]
		k.take(t, Consecutive, slices.Concat(threeWays(isa, s.near, s.far, s.rows, 4), have[Consecutive].all), u)
		scattered := slices.Concat(scatters(isa, s.four, nil), have[Scattered].all)
		k.take(t, Scattered, scattered, all(scattered[0].name))
	}
}

func oneTokenAVX2() map[quant.Type]oneToken {
	return map[quant.Type]oneToken{
		quant.Q4_0:  {streamQ40AVX2, farQ40AVX2, tileQ40AVX24x1, scatterQ40AVX2},
		quant.Q8_0:  {streamQ80AVX2, farQ80AVX2, tileQ80AVX24x1, scatterQ80AVX2},
		quant.Q4_K:  {streamQ4KAVX2, farQ4KAVX2, tileQ4KAVX24x1, scatterQ4KAVX2},
		quant.Q5_K:  {streamQ5KAVX2, farQ5KAVX2, tileQ5KAVX24x1, scatterQ5KAVX2},
		quant.Q6_K:  {streamQ6KAVX2, farQ6KAVX2, tileQ6KAVX24x1, scatterQ6KAVX2},
		quant.MXFP4: {streamMXFP4AVX2, farMXFP4AVX2, tileMXFP4AVX24x1, scatterMXFP4AVX2},
	}
}

func usualAVX2() map[quant.Type][Classes]string {
	return map[quant.Type][Classes]string{quant.Q8_0: usualNear("avx2"), quant.Q6_K: usualNear("avx2")}
}

// oneTokenVNNI returns kernels in 512-bit vectors, except those for several rows at a time.
func oneTokenVNNI() map[quant.Type]oneToken {
	return map[quant.Type]oneToken{
		quant.Q4_0:  {streamQ40VNNI, farQ40VNNI, tileQ40VNNI4x1, scatterQ40VNNI},
		quant.Q8_0:  {streamQ80VNNI, farQ80VNNI, tileQ80VNNI4x1, scatterQ80VNNI},
		quant.Q4_K:  {streamQ4KVNNI, farQ4KVNNI, tileQ4KVNNI4x1, scatterQ4KVNNI},
		quant.Q5_K:  {streamQ5KVNNI, farQ5KVNNI, tileQ5KVNNI4x1, scatterQ5KVNNI},
		quant.Q6_K:  {streamQ6KVNNI, farQ6KVNNI, tileQ6KVNNI4x1, scatterQ6KVNNI},
		quant.MXFP4: {streamMXFP4VNNI, farMXFP4VNNI, tileMXFP4VNNI4x1, scatterMXFP4VNNI},
	}
}

// usualVNNI prefers AVX2's kernels where they were faster on Zen 4: for Q4_0, and for wide rows of Q8_0. Q4_K and MXFP4
// take longest to unpack, so the hardware's prefetchers fall behind: far kernels were up to a quarter faster on a busy
// machine.
func usualVNNI() map[quant.Type][Classes]string {
	far := [Classes]string{"far-vnni", "far-vnni", "far-vnni", "rows-vnni"}
	return map[quant.Type][Classes]string{
		quant.Q4_0: usualWays("avx2"),
		quant.Q8_0: {"near-vnni", "near-vnni", "rows-avx2", "rows-avx2"},
		quant.Q6_K: usualNear("vnni"),
		quant.Q4_K: far, quant.MXFP4: far,
	}
}

// takeFloatsAVX2 gives k the kernels of float types.
func (k *Kernels) takeFloatsAVX2() {
	for t, f := range map[quant.Type]struct {
		far, near, close tile // for three rows
		scatter          scatterer
	}{
		quant.F32:  {tileF32AVX23x1, nearF32AVX23x1, closeF32AVX23x1, scatterF32AVX2},
		quant.F16:  {tileF16AVX23x1, nearF16AVX23x1, closeF16AVX23x1, scatterF16AVX2},
		quant.BF16: {tileBF16AVX23x1, nearBF16AVX23x1, closeBF16AVX23x1, scatterBF16AVX2},
	} {
		k.take(t, Consecutive, []way{
			{name: "rows-avx2", tile: f.far, rows: 3},
			{name: "rows-near-avx2", tile: f.near, rows: 3},
			{name: "rows-close-avx2", tile: f.close, rows: 3},
		}, all("rows-avx2"))
		k.take(t, Scattered, scatters("avx2", f.scatter, nil), all("scatter4-avx2"))
	}
}

// takeBF16 gives k the kernels of BF16 weights.
func (k *Kernels) takeBF16() {
	k.take(quant.BF16, Consecutive, threeWays("bf16", streamBF16BF16, farBF16BF16, tileBF16BF164x1, 4),
		[Classes]string{"near-bf16", "rows-bf16", "rows-bf16", "rows-bf16"})
	k.take(quant.BF16, Scattered, scatters("bf16", scatterBF16BF16, nil), all("scatter4-bf16"))
}
