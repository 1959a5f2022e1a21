package gemm

//go:generate go -C ../../../../gen run ./gemm -out ../internal/compute/cpu/gemm/tile_amd64.s -stubs ../internal/compute/cpu/gemm/tile_stub_amd64.go -pkg gemm

import "golang.org/x/sys/cpu"

func platform() []*kernels {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return nil
	}
	sets := []*kernels{{name: "AVX2", rows: 4, cols: 24, tile: tile4x24AVX2, transpose: transpose8}}
	if cpu.X86.HasAVX512F {
		sets = append([]*kernels{{name: "AVX-512", rows: 8, cols: 48, tile: tile8x48AVX512, transpose: transpose8}}, sets...)
	}
	return sets
}

// transpose8 leaves columns beyond the last eight to its twin.
func transpose8(dst []float32, dstStride int, src []float32, srcStride, n int) {
	whole := n &^ 7
	if whole > 0 {
		_, _ = dst[(whole-1)*dstStride+7], src[7*srcStride+whole-1]
		transposeAVX2(&dst[0], uintptr(4*dstStride), &src[0], uintptr(4*srcStride), uintptr(whole/8))
	}
	if whole < n {
		transposeGeneric(dst[whole*dstStride:], dstStride, src[whole:], srcStride, n-whole)
	}
}
