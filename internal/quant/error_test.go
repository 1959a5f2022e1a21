package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Weights and importances on which encoders are compared with llama.cpp's.
const (
	comparedCols = 1024
	comparedRows = 32
)

// comparedWeights are near those of a trained matrix: normal, with outliers.
func comparedWeights() []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, comparedRows*comparedCols)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) * 0.02
		if i%97 == 0 {
			x[i] *= 4
		}
	}
	return x
}

// comparedImportance spans some orders of magnitude, as mean squares of activations do.
func comparedImportance() []float32 {
	rng := rand.New(rand.NewPCG(3, 4))
	w := make([]float32, comparedCols)
	for i := range w {
		w[i] = float32(math.Exp(1.5 * rng.NormFloat64()))
	}
	return w
}

// loss encodes rows, with importances unless they are nil, and returns the root of the errors' mean square, and of
// their mean square weighted with w.
func loss(typ Type, x, importance, w []float32) (plain, weighed float64) {
	b, y := make([]byte, typ.RowBytes(comparedCols)), make([]float32, comparedCols)
	var sum, sumW, total float64
	for row := x; len(row) > 0; row = row[comparedCols:] {
		EncodeWeighted(typ, b, row[:comparedCols], importance)
		Decode(typ, y, b)
		for i, v := range y {
			e := math.Pow(float64(v-row[i]), 2)
			sum += e
			sumW += float64(w[i]) * e
			total += float64(w[i])
		}
	}
	return math.Sqrt(sum / float64(len(x))), math.Sqrt(sumW / total)
}

// TestLoss: no type loses a hundredth more than with llama.cpp's ggml_quantize_chunk (at 3f545bec, AVX-512) for the
// same numbers: the plain loss without importances, and the plain and the weighted loss with them.
func TestLoss(t *testing.T) {
	const slack = 1.01
	x, w := comparedWeights(), comparedImportance()
	for name, theirs := range map[string]struct{ without, plain, weighted float64 }{
		"Q4_0":    {0.00220663, 0.00221682, 0.00190096},
		"Q4_1":    {0.00180791, 0.00176354, 0.0012954},
		"Q5_0":    {0.00110994, 0.00111667, 0.000981192},
		"Q5_1":    {0.00088122, 0.000852869, 0.00062133},
		"Q8_0":    {0.000138961, 0.000138961, 0.000138957},
		"Q2_K":    {0.00680339, 0.0066793, 0.00462664},
		"Q3_K":    {0.00362195, 0.00371755, 0.00305328},
		"Q4_K":    {0.00167253, 0.00178261, 0.00134876},
		"Q5_K":    {0.000847448, 0.000881341, 0.000702996},
		"Q6_K":    {0.000437283, 0.000474035, 0.000376772},
		"IQ4_NL":  {0.00184538, 0.00193297, 0.00156591},
		"IQ4_XS":  {0.00187252, 0.0019483, 0.00160878},
		"IQ3_S":   {0.00390162, 0.00357156, 0.00262489},
		"IQ3_XXS": {0.00507029, 0.0048522, 0.0030914},
		"IQ2_S":   {0.0063534, 0.00641797, 0.00491171},
		"IQ2_XS":  {0, 0.00756657, 0.00536468}, // llama.cpp has no encoder without importances
		"IQ2_XXS": {0, 0.00878294, 0.00634995},
		"IQ1_S":   {0, 0.0126962, 0.00928231},
		"IQ1_M":   {0.0128266, 0.011611, 0.00773014},
		"TQ1_0":   {0.0188938, 0.0188938, 0.0187639},
		"TQ2_0":   {0.0188938, 0.0188938, 0.0187639},
		"Q1_0":    {0.0137411, 0.0137411, 0.0141364},
		"Q2_0":    {0.0159907, 0.0159907, 0.0158861},
		"MXFP4":   {0.00264603, 0.00264603, 0.00283114},
		"NVFP4":   {0.0021703, 0.0021703, 0.00220577},
	} {
		typ, ok := Named(name, Types())
		if !ok || typ.entry().encode == nil {
			continue
		}
		if plain, _ := loss(typ, x, nil, w); theirs.without > 0 && !(plain <= slack*theirs.without) {
			t.Errorf("%s without importances: the loss is %.6g, llama.cpp's %.6g", name, plain, theirs.without)
		}
		plain, weighted := loss(typ, x, w, w)
		if !(plain <= slack*theirs.plain) || !(weighted <= slack*theirs.weighted) {
			t.Errorf("%s with importances: the loss is %.6g, weighted %.6g, llama.cpp's %.6g and %.6g", name, plain, weighted, theirs.plain, theirs.weighted)
		}
	}
}

// TestFitScale compares the search with all scales there are, in small steps: it misses the least error by little.
func TestFitScale(t *testing.T) {
	const (
		seed   = 5
		blocks = 100
		steps  = 500
		mean   = 1.06 // of the errors' ratio
		most   = 8.
	)
	rng := rand.New(rand.NewPCG(seed, 0))
	var ratios float64
	for range blocks {
		x, w := make([]float32, 16), make([]float32, 16)
		for i := range x {
			x[i], w[i] = float32(rng.NormFloat64()), rng.Float32()
		}
		lost := func(d float64) (sum float64) {
			for i, v := range x {
				q := max(-most, min(most-1, math.Round(float64(v)/d)))
				sum += float64(w[i]) * math.Pow(d*q-float64(v), 2)
			}
			return sum
		}
		top := float64(abs(absMax(x)))
		least := math.Inf(1)
		for i := 1; i <= steps; i++ {
			d := 2 * top / most * float64(i) / steps
			least = min(least, lost(d), lost(-d))
		}
		ratios += lost(float64(fitScale(x, w, most))) / least
	}
	t.Logf("mean ratio %.4f", ratios/blocks)
	if ratios/blocks > mean {
		t.Errorf("seed %d: the errors are %.3f times the least ones", seed, ratios/blocks)
	}
}

// TestFitMinimum compares the search with all scales and minima in small steps.
func TestFitMinimum(t *testing.T) {
	const (
		seed   = 6
		blocks = 40
		steps  = 60
		mean   = 1.04 // of the errors' ratio
		most   = 3.
	)
	rng := rand.New(rand.NewPCG(seed, 0))
	var ratios float64
	for range blocks {
		x, w := make([]float32, 8), make([]float32, 8)
		for i := range x {
			x[i], w[i] = float32(rng.NormFloat64()), rng.Float32()
		}
		lost := func(d, m float64) (sum float64) {
			for i, v := range x {
				q := max(0, min(most, math.Round((float64(v)+m)/d)))
				sum += float64(w[i]) * math.Pow(d*q-m-float64(v), 2)
			}
			return sum
		}
		var low, high float64
		for _, v := range x {
			low, high = min(low, float64(v)), max(high, float64(v))
		}
		least := math.Inf(1)
		for i := 1; i <= steps; i++ {
			for j := range steps {
				least = min(least, lost(1.5*(high-low)/most*float64(i)/steps, -1.3*low*float64(j)/steps))
			}
		}
		d, m := fitMinimum(x, w, most, weighedGrids())
		ratios += lost(float64(d), float64(m)) / least
	}
	t.Logf("mean ratio %.4f", ratios/blocks)
	if ratios/blocks > mean {
		t.Errorf("seed %d: the errors are %.3f times the least ones", seed, ratios/blocks)
	}
}

// TestImportanceCounts: important elements lose less than without importances, and elements without importance still
// get close numbers.
func TestImportanceCounts(t *testing.T) {
	x, none := comparedWeights(), make([]float32, comparedCols)
	some := comparedImportance()
	for _, typ := range OutTypes() {
		if !typ.Weighable() {
			continue
		}
		_, without := loss(typ, x, nil, some)
		_, with := loss(typ, x, some, some)
		if !(with < without) {
			t.Errorf("%s: the weighted loss is %.6g with importances, %.6g without", typ, with, without)
		}
		if plain, _ := loss(typ, x, none, some); !(plain < 0.02) { // the weights' own size
			t.Errorf("%s: where nothing is important the loss is %.6g", typ, plain)
		}
	}
}
