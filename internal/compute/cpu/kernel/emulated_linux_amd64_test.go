package kernel

import (
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/emulate"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// emulated says, in a program's environment, that instructions which the processor lacks are emulated.
const emulated = "POWERINFER_TEST_EMULATED"

// TestEmulatedInstructions runs TestMissingInstructions and TestTilesUnderSignals where the instructions that this
// processor lacks are emulated.
func TestEmulatedInstructions(t *testing.T) {
	if len(platform()) == 0 {
		t.Skip("the instructions that are not emulated need AVX2")
	}
	said, status, err := emulate.Rerun(t.TempDir(), emulated+"=1", "-test.run=^(TestMissingInstructions|TestTilesUnderSignals)$", "-test.v")
	if err != nil {
		t.Fatal(err)
	}
	if status != 0 || !strings.Contains(said, "--- PASS: TestMissingInstructions") || cpu.X86.HasAVX512BF16 && !strings.Contains(said, "--- PASS: TestTilesUnderSignals") {
		t.Fatalf("status %d\n%s", status, said)
	}
	t.Logf("%s", said)
}

// TestMissingInstructions holds the kernels that use instructions which few processors have to the bytes of those
// without. It runs where the processor has them or they are emulated.
func TestMissingInstructions(t *testing.T) {
	type set struct {
		k, like *Kernels
		here    bool
		shapes  [][3]int
	}
	sets := []set{{avxVNNI(), avx2(), hasAVXVNNI(), [][3]int{{5, 256, 16}, {4, 2336, 17}}}}
	if cpu.X86.HasAVX512BF16 { // what AMX's kernels do besides is not emulated
		sets = append(sets, set{AMX(), bf16(), hasAMX(), [][3]int{{17, 256, 33}, {16, 2336, 32}}})
	}
	for _, s := range sets {
		t.Run(s.k.Name, func(t *testing.T) {
			if !s.here && os.Getenv(emulated) == "" {
				t.Skip("this processor lacks the instructions")
			}
			rng := testenv.Rand(t)
			for _, typ := range quant.Types() {
				for _, shape := range s.shapes {
					if long := typ == quant.Q8_0 || typ == quant.Q4_1 || typ == quant.Q4_K || typ == quant.Q6_K; shape[1] > 256 && !long {
						continue // by the same kernel
					}
					cols := (shape[1] + typ.BlockElems() - 1) / typ.BlockElems() * typ.BlockElems()
					p := newProblem(rng, typ, shape[0], cols, shape[2])
					got, want := p.multiply(t, s.k, typ), p.multiply(t, s.like, typ)
					for i := range want {
						if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
							t.Fatalf("%s %v output %d: %g, %s has %g", typ, shape, i, got[i], s.like.Name, want[i])
						}
					}
				}
			}
			if s.k.PromptForm(quant.F16) == Shorts {
				for _, typ := range []quant.Type{quant.F16, quant.BF16} {
					for _, shape := range [][3]int{{5, 64, 3}, {33, 1111, 17}} {
						holdPairs(t, s.k, typ, newProblem(rng, typ, shape[0], shape[1], shape[2]))
					}
				}
				return
			}
			for _, typ := range append(quantised(), quant.BF16, quant.F16) {
				prompts(t, s.k, typ)
			}
			holdTurn(t, s.k)
			holdTerms(t, s.k, layout.TileTerms)
			holdTerms(t, s.k, layout.ActTerms)
			holdAttentionByTerms(t, s.k, []termCase{
				{typ: compute.KVF32, key: 72, value: 72, positions: 70, tokens: 17, all: true},
				{typ: compute.KVF32, key: 24, value: 16, positions: 64, tokens: 3, softCap: 2},
				{typ: compute.KVF16, key: 40, value: 64, positions: 300, tokens: 9, group: 4},
				{typ: compute.KVF16, key: 32, value: 32, positions: 330, tokens: 36, window: 40},
				{typ: compute.KVF16, key: 32, value: 32, positions: 40, tokens: 7, broken: true},
				{typ: compute.KVQ8_0, key: 64, value: 32, positions: 70, tokens: 5, group: 3},
			})
		})
	}
}

// Bounds of the error of prompts' products as a share of the lengths of their operands: each is rounded to BF16, or to two
// terms of it.
const (
	bfloatError = 0.004
	termError   = 0.00003
)

// prompts holds MatMulPrompt to its definition, in tiles that are full and not, and of columns that are no whole groups;
// and where not all columns, rows or tokens are computed at once.
func prompts(t *testing.T, k *Kernels, typ quant.Type) {
	t.Helper()
	rng := testenv.Rand(t)
	for _, shape := range [][3]int{{5, 64, 3}, {33, 103, 17}, {40, 2 * bf16Group, 49}, {32, 31, 33}, {3, promptGroups*bf16Group + 300, 70}, {promptMost + 17, 32, 3}, {2, 32, promptTokens + 18}} {
		cols := (shape[1] + typ.BlockElems() - 1) / typ.BlockElems() * typ.BlockElems()
		holdTiles(t, k, typ, newProblem(rng, typ, shape[0], cols, shape[2]))
	}
}

// holdTiles holds p's products by tiles to their definition, bit for bit, and to sums in float64. Any goroutine may call
// it.
func holdTiles(t *testing.T, k *Kernels, typ quant.Type, p problem) {
	t.Helper()
	form, shape := k.PromptForm(typ), []int{p.rows, p.cols, p.tokens}
	acts, stride := p.tiled(k, typ)
	got := make([]float32, p.tokens*p.rows+canary)
	got[len(got)-1] = -12345
	k.MatMulPrompt(Next{}, typ, got, p.rows, p.packed, p.rows, p.cols, unsafe.Pointer(&acts[0]), stride, p.tokens)
	if got[len(got)-1] != -12345 {
		t.Errorf("%s %v: it wrote outside its output", typ, shape)
		return
	}
	terms, allowed := form.terms(), bfloatError
	if terms > 1 {
		allowed = termError
	}
	inOrder := func(x []float32) []float32 { return x }
	if form == SuperTiles {
		inOrder = inTiles
	}
	for r := range p.rows {
		row := p.dense[r*p.cols:][:p.cols]
		weights := splitTerms(inOrder(row), terms)
		if typ.Quantised() {
			values := make([]float32, Super(p.cols)*quant.QKK)
			for s := range Super(p.cols) {
				tileValues(typ, (*[quant.QKK]float32)(values[s*quant.QKK:]), p.packed[r*RowBytes(typ, p.cols):], s)
			}
			weights = splitTerms(values, terms)
		}
		for i := range p.tokens {
			x := p.x[i*p.cols:][:p.cols]
			want := dotTilesGeneric(weights, splitTerms(inOrder(x), terms), form.groups(p.cols))
			v := got[i*p.rows+r]
			if math.Float32bits(v) != math.Float32bits(want) {
				t.Errorf("%s %v row %d token %d: %g, its definition has %g", typ, shape, r, i, v, want)
				return
			}
			sum, a, b := 0.0, 0.0, 0.0
			for j, w := range row {
				sum, a, b = sum+float64(w)*float64(x[j]), a+float64(w)*float64(w), b+float64(x[j])*float64(x[j])
			}
			if math.Abs(float64(v)-sum) > allowed*math.Sqrt(a*b) {
				t.Errorf("%s %v row %d token %d: %g, which is %g off", typ, shape, r, i, v, float64(v)-sum)
				return
			}
		}
	}
}

// holdTurn holds the transposition of sums to its definition.
func holdTurn(t *testing.T, k *Kernels) {
	t.Helper()
	const (
		n, tokens = 2, TileTokens - 3
		outStride = n*layout.MatrixRows + 5
		sumStep   = layout.PairTile / 4
	)
	rng := testenv.Rand(t)
	sums := make([]float32, n*sumStep)
	for i := range sums {
		sums[i] = float32(rng.NormFloat64())
	}
	got, want := make([]float32, tokens*outStride), make([]float32, tokens*outStride)
	k.unit.turn(&got[0], 4*outStride, &sums[0], 4*sumStep, n, tokens)
	turnSumsGeneric(want, outStride, sums, sumStep, n, tokens)
	if !slices.Equal(got, want) {
		t.Errorf("%s: sums are transposed in another way than defined", k.Name)
	}
}

// holdTerms holds the products that attention takes, of weights and activations in that many terms, to their definition,
// bit for bit.
func holdTerms(t *testing.T, k *Kernels, terms int) {
	t.Helper()
	const groups, cols, tokens = 3, 3 * bf16Group, layout.MatrixTokens + 3
	rng := testenv.Rand(t)
	random := func(terms int) [][]uint16 {
		x := make([]float32, cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return splitTerms(x, terms)
	}
	tiles := make([]byte, groups*2*layout.PairTile*layout.WeightTerms)
	var weights, acts [][][]uint16
	rows, x := [layout.WeightTerms][]uint16{}, []uint16(nil)
	for range pairRows {
		w := random(layout.WeightTerms)
		weights = append(weights, w)
		for i := range w {
			rows[i] = append(rows[i], w[i][:cols]...)
		}
	}
	for i := range rows {
		for half := range 2 {
			to := &tiles[layout.PairTile*(2*i+half)]
			k.unit.pairs(to, 2*layout.PairTile*layout.WeightTerms, (*byte)(unsafe.Pointer(&rows[i][half*layout.MatrixRows*cols])), 2*cols, groups)
		}
	}
	for range tokens {
		a := random(terms)
		acts = append(acts, a)
		for _, term := range a {
			x = append(x, term[:cols]...)
		}
	}
	got := make([]float32, tokens*pairRows)
	product := k.unit.attention[terms].product[(tokens-1)/layout.MatrixTokens]
	product(&tileConfigs[tokens][0], &got[0], 4*pairRows, &tiles[0], groups, (*byte)(unsafe.Pointer(&x[0])), uintptr(2*terms*cols), 2*cols, layout.FirstPart)
	for i := range tokens {
		for r := range pairRows {
			if want := dotTermsGeneric(weights[r], acts[i], groups); math.Float32bits(got[i*pairRows+r]) != math.Float32bits(want) {
				t.Fatalf("%s row %d token %d: %g, its definition has %g", k.Name, r, i, got[i*pairRows+r], want)
			}
		}
	}
}

// TestTilesUnderSignals: products by tiles keep their bytes while there are more goroutines than threads, signals
// interrupt the threads, and the collector stops them. Goroutines then change threads between calls. If a thread's
// tiles were left in use, the next goroutine would get them.
func TestTilesUnderSignals(t *testing.T) {
	if !cpu.X86.HasAVX512BF16 || !hasAMX() && os.Getenv(emulated) == "" {
		t.Skip("this processor lacks the instructions")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	k := AMX()
	seed := testenv.Seed(t)
	caught := make(chan os.Signal, 1<<14)
	signal.Notify(caught, unix.SIGALRM)
	defer signal.Stop(caught)
	every := unix.Timeval{Usec: 500}
	if _, err := unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{Interval: every, Value: every}); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{}) }()
	var workers sync.WaitGroup
	for worker := range 5 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(worker)))
			for i := range 6 {
				runtime.GC()
				typ := []quant.Type{quant.Q4_0, quant.BF16, quant.Q4_K, quant.F16, quant.Q6_K}[(worker+i)%5]
				holdTiles(t, k, typ, newProblem(rng, typ, 33+worker, 256, 17+i))
			}
		})
	}
	workers.Wait()
	if n := len(caught); n < 10 {
		t.Errorf("%d signals came meanwhile, too few to tell", n)
	}
}
