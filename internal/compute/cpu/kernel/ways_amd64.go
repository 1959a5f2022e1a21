package kernel

import "github.com/powerinfer-go/powerinfer/internal/quant"

// avx2Ways returns the kernels of consecutive rows, and which of them are usual for rows of each class.
func avx2Ways() map[quant.Type]ways {
	return map[quant.Type]ways{
		quant.Q4_0: {[]way{
			{name: "near-avx2", stream: streamQ40AVX2},
			{name: "far-avx2", stream: farQ40AVX2},
			{name: "rows-avx2", tile: tileQ40AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q4_1: {[]way{
			{name: "near-avx2", stream: streamQ41AVX2},
			{name: "far-avx2", stream: farQ41AVX2},
			{name: "rows-avx2", tile: tileQ41AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q8_0: {[]way{
			{name: "near-avx2", stream: streamQ80AVX2},
			{name: "far-avx2", stream: farQ80AVX2},
			{name: "rows-avx2", tile: tileQ80AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "near-avx2", "rows-avx2", "rows-avx2"}},
		quant.Q4_K: {[]way{
			{name: "near-avx2", stream: streamQ4KAVX2},
			{name: "far-avx2", stream: farQ4KAVX2},
			{name: "rows-avx2", tile: tileQ4KAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q5_K: {[]way{
			{name: "near-avx2", stream: streamQ5KAVX2},
			{name: "far-avx2", stream: farQ5KAVX2},
			{name: "rows-avx2", tile: tileQ5KAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q6_K: {[]way{
			{name: "near-avx2", stream: streamQ6KAVX2},
			{name: "far-avx2", stream: farQ6KAVX2},
			{name: "rows-avx2", tile: tileQ6KAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "near-avx2", "rows-avx2", "rows-avx2"}},
		quant.F32:  {[]way{{name: "rows-avx2", tile: tileF32AVX23x1, rows: 3}}, all("rows-avx2")},
		quant.F16:  {[]way{{name: "rows-avx2", tile: tileF16AVX23x1, rows: 3}}, all("rows-avx2")},
		quant.BF16: {[]way{{name: "rows-avx2", tile: tileBF16AVX23x1, rows: 3}}, all("rows-avx2")},
	}
}

// vnniWays returns those in 512-bit vectors; rows at a time are in 256-bit ones. Where AVX2's were faster on Zen 4 they stay the usual ones, in Q4_0's streams and
// Q8_0's wide rows.
func vnniWays() map[quant.Type]ways {
	return map[quant.Type]ways{
		quant.Q4_0: {[]way{
			{name: "near-vnni", stream: streamQ40VNNI},
			{name: "far-vnni", stream: farQ40VNNI},
			{name: "rows-vnni", tile: tileQ40VNNI4x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q4_1: {[]way{
			{name: "near-vnni", stream: streamQ41VNNI},
			{name: "far-vnni", stream: farQ41VNNI},
			{name: "rows-vnni", tile: tileQ41VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.Q8_0: {[]way{
			{name: "near-vnni", stream: streamQ80VNNI},
			{name: "far-vnni", stream: farQ80VNNI},
			{name: "rows-vnni", tile: tileQ80VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "near-vnni", "rows-avx2", "rows-avx2"}},
		quant.Q4_K: {[]way{
			{name: "near-vnni", stream: streamQ4KVNNI},
			{name: "far-vnni", stream: farQ4KVNNI},
			{name: "rows-vnni", tile: tileQ4KVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.Q5_K: {[]way{
			{name: "near-vnni", stream: streamQ5KVNNI},
			{name: "far-vnni", stream: farQ5KVNNI},
			{name: "rows-vnni", tile: tileQ5KVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.Q6_K: {[]way{
			{name: "near-vnni", stream: streamQ6KVNNI},
			{name: "far-vnni", stream: farQ6KVNNI},
			{name: "rows-vnni", tile: tileQ6KVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "near-vnni", "rows-vnni", "rows-vnni"}},
	}
}

// bf16Ways returns those of float types in BF16.
func bf16Ways() map[quant.Type]ways {
	return map[quant.Type]ways{
		quant.F16: {[]way{
			{name: "near-bf16", stream: streamF16BF16},
			{name: "far-bf16", stream: farF16BF16},
		}, [Classes]string{"near-bf16", "far-bf16", "far-bf16", "far-bf16"}},
		quant.BF16: {[]way{
			{name: "near-bf16", stream: streamBF16BF16},
			{name: "far-bf16", stream: farBF16BF16},
			{name: "rows-bf16", tile: tileBF16BF164x1, rows: 4},
		}, [Classes]string{"near-bf16", "rows-bf16", "rows-bf16", "rows-bf16"}},
	}
}

// all has every class go one way.
func all(name string) (usual [Classes]string) {
	for i := range usual {
		usual[i] = name
	}
	return usual
}
