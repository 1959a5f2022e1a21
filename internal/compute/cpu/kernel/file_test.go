package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// randomFile is rows of any bytes that a file may hold, but for scales: those are of ordinary size, so that no product
// is NaN.
func randomFile(rng *rand.Rand, t quant.Type, rows, cols int) []byte {
	b := make([]byte, rows*t.RowBytes(cols))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	scale := func() float32 { return quant.F32FromF16(uint16(rng.Uint32N(0x400) + 0x2c00 | rng.Uint32N(2)<<15)) }
	for at := 0; at < len(b); at += t.BlockBytes() {
		t.SetUnits(b[at:][:t.BlockBytes()], scale)
	}
	return b
}

// Widths with activations that leave the first-level cache, and with activations that it holds only in part.
const (
	farCols  = 24 * 256
	wideCols = 60 * 256
)

// fileCases are widths of one superblock, of many, and of many and a part of one. One type of each form is tried with
// all widths, where there is assembly.
func fileCases(t quant.Type) []int {
	sets := platform()
	if t.Like() != t || len(sets) == 0 || len(sets[0].ways[t][Mapped].all) == 0 && sets[0].file[t].pack == nil {
		return []int{256, 768}
	}
	widths := []int{256, 768, 2304, farCols}
	if n := t.BlockElems(); n < quant.QKK {
		widths = append(widths, n, 256-n, 256+n, 4544)
	}
	if !testing.Short() { // they take most of the time
		widths = append(widths, wideCols)
	}
	return widths
}

// TestPackRowByKernels: every set packs to the bytes of the definition.
func TestPackRowByKernels(t *testing.T) {
	rng := testenv.Rand(t)
	for _, typ := range quant.Computed() {
		if !typ.Quantised() {
			continue
		}
		for _, cols := range fileCases(typ) {
			file := randomFile(rng, typ, 1, cols)
			want := make([]byte, RowBytes(typ, cols))
			PackRow(typ, want, file, cols)
			for _, k := range Variants() {
				got := make([]byte, len(want)+2*canary)
				for i := range got {
					got[i] = 0xa5
				}
				// The bytes from the last superblock to the row's end have no meaning.
				end := Super(cols) * layout.Of(typ).Bytes
				k.PackRow(typ, got[canary:][:len(want)], file, cols)
				for i, v := range got {
					if (i < canary || i >= canary+end) && v != 0xa5 {
						t.Fatalf("%s %s %d: packed outside the row", k.Name, typ, cols)
					}
				}
				if at := firstDifference(got[canary:][:end], want[:end]); at >= 0 {
					t.Fatalf("%s %s %d: byte %d of superblock %d differs", k.Name, typ, cols, at%layout.Of(typ).Bytes, at/layout.Of(typ).Bytes)
				}
			}
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// TestFileRows: products of rows in file layout have the bits of packed ones, in a batch, alone, and by index.
func TestFileRows(t *testing.T) {
	rng := testenv.Rand(t)
	const rows, tokens = 11, 19
	index := []int32{10, 0, 3, 3, 9, 7, 1}
	for _, typ := range quant.Computed() {
		if !typ.Quantised() {
			continue
		}
		for _, cols := range fileCases(typ) {
			file := randomFile(rng, typ, rows, cols)
			p := problem{rows: rows, cols: cols, tokens: tokens, x: make([]float32, tokens*cols), packed: make([]byte, rows*RowBytes(typ, cols))}
			for i := range p.x {
				p.x[i] = float32(rng.NormFloat64())
			}
			for r := range rows {
				PackRow(typ, p.packed[r*RowBytes(typ, cols):][:RowBytes(typ, cols)], file[r*typ.RowBytes(cols):][:typ.RowBytes(cols)], cols)
			}
			for _, k := range Variants() {
				checkFileRows(t, k, typ, p, file, index)
				c := k.ClassOf(typ, Mapped, cols)
				for _, name := range k.Ways(typ, Mapped) {
					if err := k.Go(typ, Mapped, c, name); err != nil {
						t.Fatal(err)
					}
					if checkFileRows(t, k, typ, p, file, index); k.Way(typ, Mapped, c) != name {
						t.Errorf("%s goes by %q, not by the chosen %s", typ, k.Way(typ, Mapped, c), name)
					}
				}
			}
		}
	}
}

func checkFileRows(t *testing.T, k *Kernels, typ quant.Type, p problem, file []byte, index []int32) {
	t.Helper()
	want := p.multiply(t, k, typ)
	x, stride := p.activations(k, typ)
	scratch := make([]byte, 3*RowBytes(typ, p.cols)) // less than all rows
	for _, n := range []int{1, 2, 3, p.tokens} {
		out := make([]float32, n*p.rows+canary)
		for i := range out {
			out[i] = -12345
		}
		k.MatMulFile(typ, out, p.rows, file, p.rows, p.cols, x, stride, n, scratch)
		for i, v := range out {
			switch {
			case i >= n*p.rows && v != -12345:
				t.Fatalf("%s %s: wrote outside its output", k.Name, typ)
			case i < n*p.rows && math.Float32bits(v) != math.Float32bits(want[i]):
				t.Fatalf("%s %s, %d columns, %d tokens: output %d is %g as in the file and %g packed", k.Name, typ, p.cols, n, i, v, want[i])
			}
		}
	}
	out := make([]float32, len(index)+1)
	out[len(index)] = -12345
	k.DotFileRows(typ, out, file, index, p.cols, unsafe.Add(x, 2*stride), scratch)
	for j, r := range index {
		if w := want[2*p.rows+int(r)]; math.Float32bits(out[j]) != math.Float32bits(w) {
			t.Fatalf("%s %s, %d columns: row %d is %g by index and %g packed", k.Name, typ, p.cols, r, out[j], w)
		}
	}
	if out[len(index)] != -12345 {
		t.Fatalf("%s %s: DotFileRows wrote outside its output", k.Name, typ)
	}
}

// TestFileRowsAllocateNothing: they are in every token's loop.
func TestFileRowsAllocateNothing(t *testing.T) {
	rng := testenv.Rand(t)
	const rows, cols, tokens = 8, 512, 20
	for _, k := range platform() {
		for _, typ := range quant.Computed() {
			if !typ.Quantised() {
				continue
			}
			file := randomFile(rng, typ, rows, cols)
			p := problem{rows: rows, cols: cols, tokens: tokens, x: make([]float32, tokens*cols)}
			x, stride := p.activations(k, typ)
			out, scratch := make([]float32, rows*tokens), make([]byte, 4*RowBytes(typ, cols))
			index := []int32{1, 5}
			for _, n := range []int{1, tokens} {
				if n > 1 && testing.Short() {
					continue // the race detector, under which tests are short, empties pools of scratch
				}
				if got := testing.AllocsPerRun(100, func() {
					k.MatMulFile(typ, out, rows, file, rows, cols, x, stride, n, scratch)
					k.DotFileRows(typ, out, file, index, cols, x, scratch)
				}); got >= 1 {
					t.Errorf("%s %s with %d tokens: %g allocations", k.Name, typ, n, got)
				}
			}
		}
	}
}

// TestFileExtremes: the largest quants on both sides overflow no intermediate sum of kernels that read files.
func TestFileExtremes(t *testing.T) {
	const rows, cols = 5, 512
	for _, typ := range quantised() {
		for _, fill := range []byte{0x00, 0x7f, 0x80, 0xff} {
			file := slices.Repeat([]byte{fill}, rows*typ.RowBytes(cols))
			for b := 0; b < len(file); b += typ.BlockBytes() { // scales of 1
				typ.SetUnits(file[b:][:typ.BlockBytes()], func() float32 { return 1 })
			}
			for _, sign := range []float32{1, -1} {
				p := problem{rows: rows, cols: cols, tokens: 3, x: slices.Repeat([]float32{sign * 127}, 3*cols), packed: make([]byte, rows*RowBytes(typ, cols))}
				for r := range rows {
					PackRow(typ, p.packed[r*RowBytes(typ, cols):][:RowBytes(typ, cols)], file[r*typ.RowBytes(cols):][:typ.RowBytes(cols)], cols)
				}
				for _, k := range Variants() {
					checkFileRows(t, k, typ, p, file, []int32{4, 0})
				}
			}
		}
	}
}
