package kernel

import (
	"bytes"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestPackGroup: every quant and scale of a group is where the layout says, also of outputs that are no whole
// superblocks.
func TestPackGroup(t *testing.T) {
	r := testenv.Rand(t)
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		for _, rows := range []int{1, 18, 32, 255, 256, 300, 512} {
			const count = 3
			rowBytes := count * typ.BlockBytes()
			src := make([]byte, rows*rowBytes)
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			for g := range count {
				got, want := make([]byte, GroupBytes(typ, rows)), make([]byte, GroupBytes(typ, rows))
				for s := range Super(rows) {
					PackGroup(typ, got, src, rows, rowBytes, g, s)
				}
				planes, plane := want[Super(rows)*quant.QKK*2:], planeBytes(typ, rows)
				for o := range rows {
					s, b, i := o/quant.QKK, o%quant.QKK/32, o%32
					block := src[o*rowBytes+g*typ.BlockBytes():][:typ.BlockBytes()]
					copy(want[2*(s*quant.QKK+sumPlace(b, i)):], block[:2])
					for n := range GroupNeurons {
						if typ == quant.Q8_0 {
							planes[n*plane+s*quantBytes(typ)+32*(i/4)+4*b+i%4] = block[2+n]
						} else {
							nibble := block[2+n%16] >> (n / 16 * 4) & 15
							planes[n*plane+s*quantBytes(typ)+32*(i/4%4)+4*b+i%4] |= nibble << (i / 16 * 4)
						}
					}
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s: group %d of %d outputs is not as the layout says", typ, g, rows)
				}
			}
		}
	}
}

func BenchmarkPackGroup(b *testing.B) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		b.Run(typ.String(), func(b *testing.B) {
			const rows, count = 2048, 24
			rowBytes := count * typ.BlockBytes()
			src, dst := make([]byte, rows*rowBytes), make([]byte, GroupBytes(typ, rows))
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				for g := range count {
					clear(dst)
					for s := range Super(rows) {
						PackGroup(typ, dst, src, rows, rowBytes, g, s)
					}
				}
			}
		})
	}
}
