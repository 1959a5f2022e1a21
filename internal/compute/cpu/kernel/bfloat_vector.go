//go:build amd64 || arm64

package kernel

// roundRowBF16 pads the last group with zeros.
func roundRowBF16(dst []byte, x []float32) {
	_ = dst[:bf16Acts(len(x))]
	whole := len(x) / bf16Group
	if whole > 0 {
		roundBF16(&dst[0], &x[0], uintptr(whole))
	}
	clear(dst[whole*bf16Group*2:])
	if rest := x[whole*bf16Group:]; len(rest) > 0 {
		var group [bf16Group]float32
		copy(group[:], rest)
		roundBF16(&dst[whole*bf16Group*2], &group[0], 1)
	}
}
