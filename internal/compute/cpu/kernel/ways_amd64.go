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
		quant.Q5_0: {[]way{
			{name: "near-avx2", stream: streamQ50AVX2},
			{name: "far-avx2", stream: farQ50AVX2},
			{name: "rows-avx2", tile: tileQ50AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q5_1: {[]way{
			{name: "near-avx2", stream: streamQ51AVX2},
			{name: "far-avx2", stream: farQ51AVX2},
			{name: "rows-avx2", tile: tileQ51AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q2_K: {[]way{
			{name: "near-avx2", stream: streamQ2KAVX2},
			{name: "far-avx2", stream: farQ2KAVX2},
			{name: "rows-avx2", tile: tileQ2KAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q3_K: {[]way{
			{name: "near-avx2", stream: streamQ3KAVX2},
			{name: "far-avx2", stream: farQ3KAVX2},
			{name: "rows-avx2", tile: tileQ3KAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ2_XXS: {[]way{
			{name: "near-avx2", stream: streamIQ2XXSAVX2},
			{name: "far-avx2", stream: farIQ2XXSAVX2},
			{name: "rows-avx2", tile: tileIQ2XXSAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ2_XS: {[]way{
			{name: "near-avx2", stream: streamIQ2XSAVX2},
			{name: "far-avx2", stream: farIQ2XSAVX2},
			{name: "rows-avx2", tile: tileIQ2XSAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ3_XXS: {[]way{
			{name: "near-avx2", stream: streamIQ3XXSAVX2},
			{name: "far-avx2", stream: farIQ3XXSAVX2},
			{name: "rows-avx2", tile: tileIQ3XXSAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ1_S: {[]way{
			{name: "near-avx2", stream: streamIQ1SAVX2},
			{name: "far-avx2", stream: farIQ1SAVX2},
			{name: "rows-avx2", tile: tileIQ1SAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ4_NL: {[]way{
			{name: "near-avx2", stream: streamIQ4NLAVX2},
			{name: "far-avx2", stream: farIQ4NLAVX2},
			{name: "rows-avx2", tile: tileIQ4NLAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ3_S: {[]way{
			{name: "near-avx2", stream: streamIQ3SAVX2},
			{name: "far-avx2", stream: farIQ3SAVX2},
			{name: "rows-avx2", tile: tileIQ3SAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ4_XS: {[]way{
			{name: "near-avx2", stream: streamIQ4XSAVX2},
			{name: "far-avx2", stream: farIQ4XSAVX2},
			{name: "rows-avx2", tile: tileIQ4XSAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ1_M: {[]way{
			{name: "near-avx2", stream: streamIQ1MAVX2},
			{name: "far-avx2", stream: farIQ1MAVX2},
			{name: "rows-avx2", tile: tileIQ1MAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.TQ1_0: {[]way{
			{name: "near-avx2", stream: streamTQ10AVX2},
			{name: "far-avx2", stream: farTQ10AVX2},
			{name: "rows-avx2", tile: tileTQ10AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q1_0: {[]way{
			{name: "near-avx2", stream: streamQ10AVX2},
			{name: "far-avx2", stream: farQ10AVX2},
			{name: "rows-avx2", tile: tileQ10AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.NVFP4: {[]way{
			{name: "near-avx2", stream: streamNVFP4AVX2},
			{name: "far-avx2", stream: farNVFP4AVX2},
			{name: "rows-avx2", tile: tileNVFP4AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.NVFP4Scaled: {[]way{
			{name: "near-avx2", stream: streamNVFP4AVX2},
			{name: "far-avx2", stream: farNVFP4AVX2},
			{name: "rows-avx2", tile: tileNVFP4AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.MXFP4: {[]way{
			{name: "near-avx2", stream: streamMXFP4AVX2},
			{name: "far-avx2", stream: farMXFP4AVX2},
			{name: "rows-avx2", tile: tileMXFP4AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.IQ2_S: {[]way{
			{name: "near-avx2", stream: streamIQ2XSAVX2},
			{name: "far-avx2", stream: farIQ2XSAVX2},
			{name: "rows-avx2", tile: tileIQ2XSAVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.TQ2_0: {[]way{
			{name: "near-avx2", stream: streamTQ10AVX2},
			{name: "far-avx2", stream: farTQ10AVX2},
			{name: "rows-avx2", tile: tileTQ10AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.Q2_0: {[]way{
			{name: "near-avx2", stream: streamQ10AVX2},
			{name: "far-avx2", stream: farQ10AVX2},
			{name: "rows-avx2", tile: tileQ10AVX24x1, rows: 4},
		}, [Classes]string{"near-avx2", "far-avx2", "far-avx2", "rows-avx2"}},
		quant.F32: {[]way{
			{name: "rows-avx2", tile: tileF32AVX23x1, rows: 3},
			{name: "rows-near-avx2", tile: nearF32AVX23x1, rows: 3},
		}, all("rows-avx2")},
		quant.F16: {[]way{
			{name: "rows-avx2", tile: tileF16AVX23x1, rows: 3},
			{name: "rows-near-avx2", tile: nearF16AVX23x1, rows: 3},
		}, all("rows-avx2")},
		quant.BF16: {[]way{
			{name: "rows-avx2", tile: tileBF16AVX23x1, rows: 3},
			{name: "rows-near-avx2", tile: nearBF16AVX23x1, rows: 3},
		}, all("rows-avx2")},
	}
}

// vnniWays returns those in 512-bit vectors; rows at a time are in 256-bit ones. Where AVX2's were faster on Zen 4 they stay the usual ones, in Q4_0's streams and
// Q8_0's wide rows. Those of Q4_K, IQ4_XS and MXFP4, whose unpacking takes longest, ask for memory themselves, as the hardware falls behind them: on a busy
// machine that was up to a quarter faster.
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
		}, [Classes]string{"far-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
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
		quant.Q5_0: {[]way{
			{name: "near-vnni", stream: streamQ50VNNI},
			{name: "far-vnni", stream: farQ50VNNI},
			{name: "rows-vnni", tile: tileQ50VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.Q5_1: {[]way{
			{name: "near-vnni", stream: streamQ51VNNI},
			{name: "far-vnni", stream: farQ51VNNI},
			{name: "rows-vnni", tile: tileQ51VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.Q2_K: {[]way{
			{name: "near-vnni", stream: streamQ2KVNNI},
			{name: "far-vnni", stream: farQ2KVNNI},
			{name: "rows-vnni", tile: tileQ2KVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.Q3_K: {[]way{
			{name: "near-vnni", stream: streamQ3KVNNI},
			{name: "far-vnni", stream: farQ3KVNNI},
			{name: "rows-vnni", tile: tileQ3KVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ2_XXS: {[]way{
			{name: "near-vnni", stream: streamIQ2XXSVNNI},
			{name: "far-vnni", stream: farIQ2XXSVNNI},
			{name: "rows-vnni", tile: tileIQ2XXSVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ2_XS: {[]way{
			{name: "near-vnni", stream: streamIQ2XSVNNI},
			{name: "far-vnni", stream: farIQ2XSVNNI},
			{name: "rows-vnni", tile: tileIQ2XSVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ3_XXS: {[]way{
			{name: "near-vnni", stream: streamIQ3XXSVNNI},
			{name: "far-vnni", stream: farIQ3XXSVNNI},
			{name: "rows-vnni", tile: tileIQ3XXSVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ1_S: {[]way{
			{name: "near-vnni", stream: streamIQ1SVNNI},
			{name: "far-vnni", stream: farIQ1SVNNI},
			{name: "rows-vnni", tile: tileIQ1SVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ4_NL: {[]way{
			{name: "near-vnni", stream: streamIQ4NLVNNI},
			{name: "far-vnni", stream: farIQ4NLVNNI},
			{name: "rows-vnni", tile: tileIQ4NLVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ3_S: {[]way{
			{name: "near-vnni", stream: streamIQ3SVNNI},
			{name: "far-vnni", stream: farIQ3SVNNI},
			{name: "rows-vnni", tile: tileIQ3SVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ4_XS: {[]way{
			{name: "near-vnni", stream: streamIQ4XSVNNI},
			{name: "far-vnni", stream: farIQ4XSVNNI},
			{name: "rows-vnni", tile: tileIQ4XSVNNI4x1, rows: 4},
		}, [Classes]string{"far-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ1_M: {[]way{
			{name: "near-vnni", stream: streamIQ1MVNNI},
			{name: "far-vnni", stream: farIQ1MVNNI},
			{name: "rows-vnni", tile: tileIQ1MVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.TQ1_0: {[]way{
			{name: "near-vnni", stream: streamTQ10VNNI},
			{name: "far-vnni", stream: farTQ10VNNI},
			{name: "rows-vnni", tile: tileTQ10VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.Q1_0: {[]way{
			{name: "near-vnni", stream: streamQ10VNNI},
			{name: "far-vnni", stream: farQ10VNNI},
			{name: "rows-vnni", tile: tileQ10VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.NVFP4: {[]way{
			{name: "near-vnni", stream: streamNVFP4VNNI},
			{name: "far-vnni", stream: farNVFP4VNNI},
			{name: "rows-vnni", tile: tileNVFP4VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.NVFP4Scaled: {[]way{
			{name: "near-vnni", stream: streamNVFP4VNNI},
			{name: "far-vnni", stream: farNVFP4VNNI},
			{name: "rows-vnni", tile: tileNVFP4VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.MXFP4: {[]way{
			{name: "near-vnni", stream: streamMXFP4VNNI},
			{name: "far-vnni", stream: farMXFP4VNNI},
			{name: "rows-vnni", tile: tileMXFP4VNNI4x1, rows: 4},
		}, [Classes]string{"far-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.IQ2_S: {[]way{
			{name: "near-vnni", stream: streamIQ2XSVNNI},
			{name: "far-vnni", stream: farIQ2XSVNNI},
			{name: "rows-vnni", tile: tileIQ2XSVNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.TQ2_0: {[]way{
			{name: "near-vnni", stream: streamTQ10VNNI},
			{name: "far-vnni", stream: farTQ10VNNI},
			{name: "rows-vnni", tile: tileTQ10VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
		quant.Q2_0: {[]way{
			{name: "near-vnni", stream: streamQ10VNNI},
			{name: "far-vnni", stream: farQ10VNNI},
			{name: "rows-vnni", tile: tileQ10VNNI4x1, rows: 4},
		}, [Classes]string{"near-vnni", "far-vnni", "far-vnni", "rows-vnni"}},
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
