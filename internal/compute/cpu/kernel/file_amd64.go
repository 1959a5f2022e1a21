package kernel

//go:generate go -C ../../../../gen run ./matmul -layout file -out ../internal/compute/cpu/kernel/file_amd64.s -stubs ../internal/compute/cpu/kernel/file_stub_amd64.go -pkg kernel

import "github.com/powerinfer-go/powerinfer/internal/quant"

// fileAVX2 gives k the kernels of rows as files have them. Rows that are wide for the first-level cache are packed where a stream
// leaves it to the hardware to ask for memory: four packed rows read their activations once.
func fileAVX2(k *Kernels) {
	k.file[quant.Q4_0] = fileTiles{stream: fileStreamQ40AVX2, narrow: farActs, wide: fileStreamQ40AVX2, scatter: fileScatterQ40AVX2, pack: packQ40AVX2}
	k.file[quant.Q8_0] = fileTiles{stream: fileStreamQ80AVX2, narrow: streamActs, scatter: fileScatterQ80AVX2, pack: packQ80AVX2}
	k.file[quant.Q4_K] = fileTiles{stream: fileStreamQ4KAVX2, narrow: farActs, wide: fileStreamQ4KAVX2, scatter: fileScatterQ4KAVX2, pack: packQ4KAVX2}
	k.file[quant.Q6_K] = fileTiles{stream: fileStreamQ6KAVX2, narrow: streamActs, scatter: fileScatterQ6KAVX2, pack: packQ6KAVX2}
}

// fileVNNI replaces those that are faster so: of wide rows AVX2's are.
func fileVNNI(k *Kernels) {
	k.file[quant.Q4_0].stream, k.file[quant.Q4_0].scatter = fileStreamQ40VNNI, fileScatterQ40VNNI
	k.file[quant.Q8_0].stream, k.file[quant.Q8_0].scatter = fileStreamQ80VNNI, fileScatterQ80VNNI
	k.file[quant.Q4_K].stream, k.file[quant.Q4_K].scatter = fileStreamQ4KVNNI, fileScatterQ4KVNNI
	k.file[quant.Q6_K].stream, k.file[quant.Q6_K].scatter = fileStreamQ6KVNNI, fileScatterQ6KVNNI
}
