package kernel

import (
	"bytes"
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestTurn: a panel's rows, unpacked, are the neurons' columns, to half a step of the panel's type, whatever way they
// were written.
func TestTurn(t *testing.T) {
	rng := testenv.Rand(t)
	steps := map[quant.Type]float64{ // half a step, as a share of the largest of 32, and what its scale loses in 11 bits
		quant.Q8_0: 0.5/127 + 0x1p-11,
		quant.BF16: 0x1p-8,
		quant.F32:  0,
	}
	for typ, step := range steps {
		for _, sums := range []quant.Type{quant.Q4_0, quant.F16} {
			for _, n := range []int{32, 96, 256, 288} {
				blocks := make([][GroupNeurons][quant.QKK]float32, n/GroupNeurons)
				for g := range blocks {
					for i := range blocks[g] {
						for e := range blocks[g][i] {
							blocks[g][i][e] = float32(rng.NormFloat64() * math.Exp2(float64(e%12-6)))
							if e == 77 {
								blocks[g][i][e] = 0
							}
						}
					}
				}
				stride := RowBytes(typ, n)
				var first []byte
				for _, k := range Variants() {
					mem := bytes.Repeat([]byte{0xa5}, quant.QKK*stride+canary)
					for g := range blocks {
						k.Turn(typ, mem[:quant.QKK*stride], n, g*GroupNeurons, &blocks[g], sums)
					}
					for i, b := range mem[quant.QKK*stride:] {
						if b != 0xa5 {
							t.Fatalf("%s %s of %d: byte %d behind the panel was written", k.Name, typ, n, i)
						}
					}
					checkPanel(t, k.Name, typ, mem, n, blocks, sums, step)
					if first == nil {
						first = mem
					}
					for r := range quant.QKK { // padding after a row's superblocks may have any contents
						size := typ.RowBytes(n)
						if typ.Quantised() {
							size = (n - 1) / quant.QKK * layout.Of(typ).Bytes
						}
						if !bytes.Equal(mem[r*stride:][:size], first[r*stride:][:size]) {
							t.Fatalf("%s %s of %d: row %d is another than the first kernels'", k.Name, typ, n, r)
						}
					}
				}
			}
		}
	}
}

// TestTurnGroups: a panel's rows, unpacked, are the numbers of the file, followed by zeros.
func TestTurnGroups(t *testing.T) {
	rng := testenv.Rand(t)
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		for _, n := range []int{32, 96, 256, 288, 512} {
			const outputs = 300
			file, columns := fileOfColumns(rng, typ, outputs, n)
			groups, stride := packGroups(typ, file, outputs, n), RowBytes(quant.Q8_0, n)
			for s := range Super(outputs) {
				mem := bytes.Repeat([]byte{0xa5}, quant.QKK*stride+canary)
				Variants()[0].TurnGroups(typ, mem[:quant.QKK*stride], n, groups, outputs, s)
				if !bytes.Equal(mem[quant.QKK*stride:], bytes.Repeat([]byte{0xa5}, canary)) {
					t.Fatalf("%s of %d: bytes behind the panel were written", typ, n)
				}
				for r := range min(quant.QKK, outputs-s*quant.QKK) {
					got := make([]float32, Super(n)*quant.QKK)
					for i := range Super(n) {
						unpackSuper(quant.Q8_0, got[i*quant.QKK:][:quant.QKK], mem[r*stride:][:stride], i)
					}
					for i, v := range got {
						want := float32(0)
						if i < n {
							want = columns[i][s*quant.QKK+r]
						}
						if v != want {
							t.Fatalf("%s of %d: element %d of row %d is %g, want %g", typ, n, i, s*quant.QKK+r, v, want)
						}
					}
				}
			}
		}
	}
}

func checkPanel(t *testing.T, name string, typ quant.Type, mem []byte, n int, blocks [][GroupNeurons][quant.QKK]float32, sums quant.Type, step float64) {
	t.Helper()
	stride := RowBytes(typ, n)
	got := make([]float32, (n+quant.QKK-1)/quant.QKK*quant.QKK)
	for r := range quant.QKK {
		for s := range len(got) / quant.QKK {
			to := got[s*quant.QKK:][:quant.QKK]
			if !typ.Quantised() {
				to = got[s*quant.QKK : min(n, (s+1)*quant.QKK)]
			}
			unpackSuper(typ, to, mem[r*stride:][:stride], s)
		}
		for i, v := range got {
			if i >= n {
				if v != 0 {
					t.Fatalf("%s %s of %d: element %d of row %d, which is behind the last, is %g", name, typ, n, i, r, v)
				}
				continue
			}
			block, e := &blocks[i/GroupNeurons], Place(sums, r)
			largest := math.Abs(float64(block[i%GroupNeurons][e]))
			if typ == quant.Q8_0 {
				for j := range block {
					largest = max(largest, math.Abs(float64(block[j][e])))
				}
			}
			if want := block[i%GroupNeurons][e]; !(math.Abs(float64(v-want)) <= step*largest) {
				t.Fatalf("%s %s of %d: element %d of row %d is %g, want %g", name, typ, n, i, r, v, want)
			}
		}
	}
}
