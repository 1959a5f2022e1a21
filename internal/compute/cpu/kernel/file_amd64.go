package kernel

//go:generate go -C ../../../../gen run ./matmul -layout file -out ../internal/compute/cpu/kernel/file_amd64.s -stubs ../internal/compute/cpu/kernel/file_stub_amd64.go -pkg kernel

import "github.com/powerinfer-go/powerinfer/internal/quant"

// fileAVX2 gives k the kernels of rows as files have them.
func fileAVX2(k *Kernels) {
	k.takeFiles("avx2", map[quant.Type]fileKernels{
		quant.Q4_0: {fileStreamQ40AVX2, fileFarQ40AVX2, fileScatterQ40AVX2},
		quant.Q8_0: {fileStreamQ80AVX2, fileFarQ80AVX2, fileScatterQ80AVX2},
		quant.Q4_K: {fileStreamQ4KAVX2, fileFarQ4KAVX2, fileScatterQ4KAVX2},
		quant.Q5_K: {fileStreamQ5KAVX2, fileFarQ5KAVX2, fileScatterQ5KAVX2},
		quant.Q6_K: {fileStreamQ6KAVX2, fileFarQ6KAVX2, fileScatterQ6KAVX2},
	})
	for t, pack := range map[quant.Type]func(dst, src *byte, n, ahead uintptr){
		quant.Q4_0: packQ40AVX2,
		quant.Q4_1: packQ41AVX2,
		quant.Q8_0: packQ80AVX2,
		quant.Q4_K: packQ4KAVX2,
		quant.Q5_K: packQ5KAVX2,
		quant.Q6_K: packQ6KAVX2,
		quant.Q5_0: packQ50AVX2, quant.Q5_1: packQ51AVX2, quant.IQ4_NL: packIQ4NLAVX2, quant.IQ4_XS: packIQ4XSAVX2, quant.MXFP4: packMXFP4AVX2,
		quant.Q2_K: packQ2KAVX2, quant.Q3_K: packQ3KAVX2, quant.TQ2_0: packTQ20AVX2,
	} {
		k.file[t].pack = pack
	}
}

// fileVNNI adds what is usually faster so: not packing, nor Q4_0's widest rows.
func fileVNNI(k *Kernels) {
	k.takeFiles("vnni", map[quant.Type]fileKernels{
		quant.Q4_0: {fileStreamQ40VNNI, fileFarQ40VNNI, fileScatterQ40VNNI},
		quant.Q8_0: {fileStreamQ80VNNI, fileFarQ80VNNI, fileScatterQ80VNNI},
		quant.Q4_K: {fileStreamQ4KVNNI, fileFarQ4KVNNI, fileScatterQ4KVNNI},
		quant.Q5_K: {fileStreamQ5KVNNI, fileFarQ5KVNNI, fileScatterQ5KVNNI},
		quant.Q6_K: {fileStreamQ6KVNNI, fileFarQ6KVNNI, fileScatterQ6KVNNI},
	})
	if err := k.Go(quant.Q4_0, Mapped, Classes-1, "file-far-avx2"); err != nil {
		panic(err)
	}
}
