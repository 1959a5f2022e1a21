package kernel

import (
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func packQ1_0(out, file []byte) { packFewBits(quant.Q1_0, out, file, 4, quant.LanesOfBits) }
func packQ2_0(out, file []byte) { packFewBits(quant.Q2_0, out, file, 8, quant.LanesOfPairs) }

// packFewBits is packParts for blocks of one scale. Each 32 elements have this many bytes of codes, and lanes returns
// two words of them.
func packFewBits(t quant.Type, out, file []byte, bytes int, lanes func([]byte) uint64) {
	at, units := layout.Of(t), t.BlockElems()/quant.QK
	size, super := t.BlockBytes(), t.RowBytes(quant.QKK)
	for ; len(file) > 0; out, file = out[at.Bytes:], file[min(len(file), super):] {
		if len(file) < super { // a row's last blocks
			clear(out[:at.Bytes])
		}
		for j := range min(len(file), super) / size * units {
			in := file[j/units*size:][:size]
			put16(out[2*j:], get16(in))
			w := lanes(in[2+j%units*bytes:])
			put(out[at.Quants+4*j:], uint32(w))
			put(out[at.Quants+32+4*j:], uint32(w>>32))
		}
	}
}
