package quant

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestLlamaDecodes compares decoders with llama.cpp's, by checksums of the numbers that its to_float (at 3f545bec)
// reads from the same blocks, as float32 with zeros made positive. POWERINFER_BLOCKS names a folder to which the blocks
// are written.
func TestLlamaDecodes(t *testing.T) {
	sums := map[Type]uint32{
		IQ1_M: 0xd8de3750, IQ1_S: 0x18e12f, IQ2_S: 0xd7387dd3, IQ2_XS: 0x27f63669, IQ2_XXS: 0xbc3fcdae, IQ3_S: 0x8213eec8,
		IQ3_XXS: 0xa5e1ccf4, IQ4_NL: 0xfc2e8694, IQ4_XS: 0x7d50bc2d, MXFP4: 0x63588166, NVFP4: 0xab330ae4, Q2_K: 0xc73d621, Q3_K: 0x19ec345a,
		Q1_0: 0x4ec8b82f, Q2_0: 0x8890633b,
		Q4_0: 0xc0a925be, Q4_1: 0x863e50b9, Q4_K: 0x3d626fd1, Q5_0: 0x4bf7532, Q5_1: 0x3638f2ce, Q5_K: 0x873c80c,
		Q6_K: 0x60c743f4, Q8_0: 0x6e7dd85e, TQ1_0: 0xde4c0dcc, TQ2_0: 0x635a0278,
	}
	const blocks, seed = 64, 1
	for _, typ := range Types() {
		if typ.Float() {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, uint64(typ)))
		b := make([]byte, blocks*typ.BlockBytes())
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		for k := range blocks {
			typ.SetUnits(b[k*typ.BlockBytes():][:typ.BlockBytes()], func() float32 { return float32(rng.IntN(4001)-2000) / 1024 })
		}
		if folder := os.Getenv("POWERINFER_BLOCKS"); folder != "" {
			if err := os.WriteFile(filepath.Join(folder, typ.String()), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		x := make([]float32, blocks*typ.BlockElems())
		Decode(typ, x, b)
		sum := crc32.NewIEEE()
		for _, v := range x {
			_ = binary.Write(sum, binary.LittleEndian, math.Float32bits(v+0))
		}
		if got := sum.Sum32(); got != sums[typ] {
			t.Errorf("%s: the numbers' checksum is %#08x, llama.cpp's %#08x", typ, got, sums[typ])
		}
	}
}

// TestJoin: parts are joined to the original.
func TestJoin(t *testing.T) {
	const seed = 4
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, typ := range Types() {
		if !typ.Parted() {
			continue
		}
		b, again := make([]byte, typ.BlockBytes()), make([]byte, typ.BlockBytes())
		for range 50 {
			for i := range b {
				b[i], again[i] = byte(rng.Uint32()), 0xa5
			}
			typ.SetUnits(b, rng.Float32)
			var p Parts
			typ.Split(&p, b)
			typ.Join(again, &p)
			if !bytes.Equal(b, again) {
				t.Fatalf("seed %d: %s: % x became % x", seed, typ, b, again)
			}
		}
	}
}
