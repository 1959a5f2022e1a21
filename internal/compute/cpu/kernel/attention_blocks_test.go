package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestBlockKernels holds the kernels of attention in integers to the bits of their scalar twins.
func TestBlockKernels(t *testing.T) {
	for _, k := range platform() {
		if k.blocks == nil {
			continue
		}
		for _, typ := range []compute.KVType{compute.KVQ8_0, compute.KVQ4_0} {
			for _, blocks := range []int{1, 2, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", k.Name, typ, blocks), func(t *testing.T) {
					holdBlockKernels(t, k.blocks, typ, blocks)
				})
			}
		}
	}
}

func holdBlockKernels(t *testing.T, k *blockKernels, typ compute.KVType, blocks int) {
	const page = compute.PagePositions
	rng := testenv.Rand(t)
	width := blocks * quant.QK
	rows := make([]byte, page*typ.RowBytes(width))
	quant.Encode(typ.Type(), rows, normals(rng, page*width))

	scales, wantScales := make([]float32, page*blocks), make([]float32, page*blocks)
	k.scales(&scales[0], &rows[0], typ.Type().BlockBytes(), blocks)
	blockScales(wantScales, rows, typ, blocks)
	equal(t, "scales", scales, wantScales)

	keys, wantKeys := make([]int8, page*width), make([]int8, page*width)
	for from := 0; from < page; from += panelKeys {
		k.keys(typ, (*byte)(unsafe.Pointer(&keys[from*width])), &rows[from*typ.RowBytes(width)], blocks)
		keyPanel(wantKeys[from*width:], rows[from*typ.RowBytes(width):], typ, blocks)
	}
	equal(t, "keys", keys, wantKeys)

	values, wantValues := make([]int8, page*width), make([]int8, page*width)
	k.values(typ, (*byte)(unsafe.Pointer(&values[0])), &rows[0], blocks, page/2)
	valuePanel(wantValues, rows, typ, blocks, page/2)
	equal(t, "values", values, wantValues)

	x := normals(rng, blockMost*width)
	q, wantQ, factors := make([]int16, len(x)), make([]int16, len(x)), make([]float32, blockMost)
	for i := range factors {
		factors[i] = k.round(&q[i*width], &x[i*width], blocks)
		if want := roundQuery(wantQ[i*width:][:width], x[i*width:][:width]); factors[i] != want {
			t.Errorf("a query's factor is %g, want %g", factors[i], want)
		}
	}
	equal(t, "queries", q, wantQ)

	// Weights of the softmax; those of positions that are not seen are zero, and their scales are NaN.
	seen := 1 + rng.IntN(page)
	p := make([]float32, blockMost*page)
	for i := range p {
		if i%page < seen && rng.IntN(5) > 0 {
			p[i] = float32(math.Exp(-9 * rng.Float64()))
		}
	}
	for i := range scales {
		if i%page >= seen {
			scales[i] = float32(math.NaN())
		}
	}
	w, wantW := make([]int16, blockMost*blocks*page), make([]int16, blockMost*blocks*page)
	units, wantUnits := make([]float32, blockMost*blocks), make([]float32, blockMost*blocks)
	for i := range blockMost {
		k.weigh(&w[i*blocks*page], &units[i*blocks], &p[i*page], &scales[0], blocks)
		weighBlocks(wantW[i*blocks*page:], wantUnits[i*blocks:], p[i*page:], scales, blocks)
	}
	equal(t, "weights", w, wantW)
	equal(t, "factors of weights", units, wantUnits)

	for n := 1; n <= blockMost; n *= 2 {
		s, want := make([]float32, n*page), make([]float32, page)
		k.score[n](&s[0], &q[0], &factors[0], (*byte)(unsafe.Pointer(&keys[0])), &wantScales[0], blocks, seen, &rows[0], 0)
		acc := normals(rng, n*width)
		wantAcc := slices.Clone(acc)
		k.add[n](&acc[0], &w[0], &units[0], (*byte)(unsafe.Pointer(&values[0])), blocks, (seen+1)/2, &rows[0], 0)
		for i := range n {
			scoreBlocks(want, q[i*width:], factors[i], keys, wantScales, blocks, seen)
			equal(t, fmt.Sprintf("scores of query %d of %d", i, n), s[i*page:][:seen], want[:seen])
			addBlocks(wantAcc[i*width:], w[i*blocks*page:], units[i*blocks:], values, blocks, (seen+1)/2)
		}
		equal(t, fmt.Sprintf("sums of %d queries", n), acc, wantAcc)
	}
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	for i, v := range got {
		if v != want[i] {
			t.Errorf("%s: element %d is %v, want %v", what, i, v, want[i])
			return
		}
	}
}

// TestBlockAttentionOfNaN: a query, or a value that is seen, of NaN gives NaN.
func TestBlockAttentionOfNaN(t *testing.T) {
	for _, k := range platform() {
		if k.blocks == nil {
			continue
		}
		rng := rand.New(rand.NewPCG(1, 2))
		shape := compute.KVShape{Heads: 2, Key: 32, Value: 32, KeyType: compute.KVQ8_0, ValueType: compute.KVQ8_0}
		s := newSequenceIn(rng, shape, 3, 70, 1, 0)
		_, v := s.row(3)
		v[0], v[1] = 0xff, 0xff
		if out := s.attend(t, k, 0, 1); !math.IsNaN(float64(out[0])) {
			t.Errorf("%s: a value of NaN gives %g", k.Name, out[0])
		}
		s = newSequenceIn(rng, shape, 3, 70, 1, 0)
		s.q[5] = float32(math.NaN())
		if out := s.attend(t, k, 0, 1); !math.IsNaN(float64(out[0])) || math.IsNaN(float64(out[32])) {
			t.Errorf("%s: a query of NaN gives %g, and the next one gives %g", k.Name, out[0], out[32])
		}
	}
}

// TestValuesWithinBlocks: values within keys give the bytes of values of their own.
func TestValuesWithinBlocks(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range vectors() {
		for _, typ := range []compute.KVType{compute.KVQ8_0, compute.KVQ4_0} {
			apart := newSequenceIn(rng, compute.KVShape{Heads: 2, Key: 96, Value: 64, KeyType: typ, ValueType: typ}, 5, 150, 2, 0)
			for p := range 150 {
				key, value := apart.row(p)
				copy(value, key)
			}
			within := *apart
			within.kv.Shape.Within, within.kv.V = true, nil
			within.kv.Scratch = make([]float32, ScratchLen(within.kv.Shape))
			if got, want := within.firstChunk(k), apart.firstChunk(k); !slices.Equal(got, want) {
				t.Errorf("%s %s: other bytes than of values apart from the keys", k.Name, typ)
			}
		}
	}
}
