//go:build !amd64

package quant

// Without vector instructions elements are converted one after the other.

func decodeF16Vectors([]float32, []byte) int { return 0 }

func encodeF16Vectors([]byte, []float32) int { return 0 }

func encodeQ4_0Vectors([]byte, []float32) int { return 0 }

func encodeQ8_0Vectors([]byte, []float32) int { return 0 }

func rowVectors() bool { return false }

func spreadVectors(q *[QK]uint8, x []float32, most float32) (d, least float32) {
	return spreadGeneric(q, x, most)
}

func topVectors([]float32) (top uint32, n int) { return 0, 0 }

func roundScaleVectors([]uint8, []float32, float32, float32) int { return 0 }

func roundGridVectors([]uint8, []float32, float32, float32) int { return 0 }

func costVectors(*costs, *gridPart, int, float32) bool { return false }
