package kernel

import "github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"

// packQ4_1 packs blocks of a scale, a minimum and 16 bytes, which hold elements in the order of Q4_0.
func packQ4_1(out, file []byte) {
	const size = 20
	for j := range len(file) / size {
		in := (*[size]byte)(file[j*size:])
		copy(out[2*j:2*j+2], in[:2])
		copy(out[layout.Minima+2*j:][:2], in[2:4])
		for v := range 4 {
			put(out[layout.Minima+header+32*v+4*j:], get(in[4+4*v:]))
		}
	}
}

// restoreQ4_1 is the inverse of packQ4_1.
func restoreQ4_1(file, packed []byte) {
	const size = 20
	for j := range len(file) / size {
		out := (*[size]byte)(file[j*size:])
		copy(out[:2], packed[2*j:])
		copy(out[2:4], packed[layout.Minima+2*j:])
		for v := range 4 {
			put(out[4+4*v:], get(packed[layout.Minima+header+32*v+4*j:]))
		}
	}
}
