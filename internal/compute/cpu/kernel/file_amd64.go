package kernel

//go:generate go -C ../../../../gen run ./matmul -layout file -out ../internal/compute/cpu/kernel/file_amd64.s -stubs ../internal/compute/cpu/kernel/file_stub_amd64.go -pkg kernel

import "github.com/powerinfer-go/powerinfer/internal/quant"

// fileAVX2 gives k the kernels of rows as files have them.
func fileAVX2(k *Kernels) {
	k.file[quant.Q4_0] = fileTiles{fileStreamQ40AVX2, fileFarQ40AVX2, fileFarQ40AVX2, fileScatterQ40AVX2, packQ40AVX2}
	k.file[quant.Q4_1] = fileTiles{fileStreamQ41AVX2, fileFarQ41AVX2, fileFarQ41AVX2, fileScatterQ41AVX2, packQ41AVX2}
	k.file[quant.Q8_0] = fileTiles{fileStreamQ80AVX2, fileFarQ80AVX2, fileFarQ80AVX2, fileScatterQ80AVX2, packQ80AVX2}
	k.file[quant.Q4_K] = fileTiles{fileStreamQ4KAVX2, fileFarQ4KAVX2, fileFarQ4KAVX2, fileScatterQ4KAVX2, packQ4KAVX2}
	k.file[quant.Q5_K] = fileTiles{fileStreamQ5KAVX2, fileFarQ5KAVX2, fileFarQ5KAVX2, fileScatterQ5KAVX2, packQ5KAVX2}
	k.file[quant.Q6_K] = fileTiles{fileStreamQ6KAVX2, fileFarQ6KAVX2, fileFarQ6KAVX2, fileScatterQ6KAVX2, packQ6KAVX2}
	for t, pack := range map[quant.Type]func(dst, src *byte, n, ahead uintptr){
		quant.Q5_0: packQ50AVX2, quant.Q5_1: packQ51AVX2, quant.IQ4_NL: packIQ4NLAVX2, quant.IQ4_XS: packIQ4XSAVX2, quant.MXFP4: packMXFP4AVX2,
		quant.Q2_K: packQ2KAVX2, quant.Q3_K: packQ3KAVX2, quant.TQ2_0: packTQ20AVX2,
	} {
		k.file[t].pack = pack
	}
}

// fileVNNI replaces what is faster so: not packing, nor Q4_0's widest rows.
func fileVNNI(k *Kernels) {
	k.file[quant.Q4_0] = fileTiles{fileStreamQ40VNNI, fileFarQ40VNNI, fileFarQ40AVX2, fileScatterQ40VNNI, packQ40AVX2}
	k.file[quant.Q4_1] = fileTiles{fileStreamQ41VNNI, fileFarQ41VNNI, fileFarQ41VNNI, fileScatterQ41VNNI, packQ41AVX2}
	k.file[quant.Q8_0] = fileTiles{fileStreamQ80VNNI, fileFarQ80VNNI, fileFarQ80VNNI, fileScatterQ80VNNI, packQ80AVX2}
	k.file[quant.Q4_K] = fileTiles{fileStreamQ4KVNNI, fileFarQ4KVNNI, fileFarQ4KVNNI, fileScatterQ4KVNNI, packQ4KAVX2}
	k.file[quant.Q5_K] = fileTiles{fileStreamQ5KVNNI, fileFarQ5KVNNI, fileFarQ5KVNNI, fileScatterQ5KVNNI, packQ5KAVX2}
	k.file[quant.Q6_K] = fileTiles{fileStreamQ6KVNNI, fileFarQ6KVNNI, fileFarQ6KVNNI, fileScatterQ6KVNNI, packQ6KAVX2}
}
