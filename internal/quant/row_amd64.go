package quant

//go:generate go -C ../../gen run ./row -out ../internal/quant/row_amd64.s -stubs ../internal/quant/row_stub_amd64.go -pkg quant

import "golang.org/x/sys/cpu"

// rowVectors reports whether the CPU can run the kernels of rows.
func rowVectors() bool { return cpu.X86.HasAVX2 && cpu.X86.HasF16C }

// whole returns how many of n elements, a multiple of step, kernels take.
func whole(n, step int) int {
	if !rowVectors() {
		return 0
	}
	return n / step * step
}

// decodeF16Vectors widens the first elements and returns how many.
func decodeF16Vectors(dst []float32, src []byte) int {
	n := whole(len(dst), 8)
	if n > 0 {
		decodeF16AVX2(&dst[0], &src[:2*n][0], uintptr(n))
	}
	return n
}

func encodeF16Vectors(b []byte, x []float32) int {
	n := whole(len(x), 8)
	if n > 0 {
		encodeF16AVX2(&b[:2*n][0], &x[0], uintptr(n))
	}
	return n
}

func encodeQ4_0Vectors(b []byte, x []float32) int {
	n := whole(len(x), QK)
	if n > 0 {
		encodeQ40AVX2(&b[:n/QK*(2+QK/2)][0], &x[0], uintptr(n/QK))
	}
	return n
}

func encodeQ8_0Vectors(b []byte, x []float32) int {
	n := whole(len(x), QK)
	if n > 0 {
		encodeQ80AVX2(&b[:n/QK*(2+QK)][0], &x[0], uintptr(n/QK))
	}
	return n
}

func spreadVectors(q *[QK]uint8, x []float32, most float32) (d, least float32) {
	return spreadAVX2(&q[0], &x[:QK][0], most)
}

// topVectors is TopMagnitude of the first n elements.
func topVectors(x []float32) (top uint32, n int) {
	if n = whole(len(x), 8); n > 0 {
		top = topMagnitudeAVX2(&x[0], uintptr(n))
	}
	return top, n
}

// roundScaleVectors sets the first quants as roundScale does and returns how many.
func roundScaleVectors(q []uint8, x []float32, inverse, most float32) int {
	n := whole(len(x), 16)
	if n > 0 {
		roundScaleAVX2(&q[:n][0], &x[0], uintptr(n), inverse, -most, most-1)
	}
	return n
}

// roundGridVectors sets the first codes as gridPart.round does and returns how many.
func roundGridVectors(codes []uint8, x []float32, inverse, most float32) int {
	n := whole(len(codes), 16)
	if n > 0 {
		roundGridAVX2(&codes[0], &x[:n][0], uintptr(n), inverse, most)
	}
	return n
}

// costVectors is gridPart.cost of all eight codes, if the CPU has vectors.
func costVectors(c *costs, p *gridPart, n int, step float32) bool {
	if !rowVectors() {
		return false
	}
	costsAVX2(&c[0][0], &p.x[0], &p.choice[0], uintptr(n), step)
	return true
}
