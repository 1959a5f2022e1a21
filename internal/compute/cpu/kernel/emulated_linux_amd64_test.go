package kernel

import (
	"io"
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

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/emulate"
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
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	status, err := emulate.Run([]string{program, "-test.run=^(TestMissingInstructions|TestTilesUnderSignals)$", "-test.v"}, append(os.Environ(), emulated+"=1"), out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if status != 0 || !strings.Contains(string(said), "--- PASS: TestMissingInstructions") || cpu.X86.HasAVX512BF16 && !strings.Contains(string(said), "--- PASS: TestTilesUnderSignals") {
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
		sets = append(sets, set{amx(), bf16(), hasAMX(), [][3]int{{17, 256, 33}, {16, 2336, 32}}})
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
			prompts(t, s.k, quant.BF16)
			prompts(t, s.k, quant.F16)
			prompts(t, s.k.Exact(), quant.F16)
			holdAttentionByTerms(t, s.k, []termCase{{72, 72, 70, 17, 0}, {20, 12, 64, 3, 2}})
		})
	}
}

// exactTerms bounds the error of products that keep all bits, as a share of the sum of their magnitudes: float32's, of
// sums of a few thousand products. Rounded to BF16, products of a hundred differ by 2⁻¹⁰ or so.
const exactTerms = 1.0 / (1 << 20)

// prompts holds MatMulPrompt to its definition, in tiles that are full and not, of columns that there is no room for at
// once and that are no whole groups.
func prompts(t *testing.T, k *Kernels, typ quant.Type) {
	t.Helper()
	rng := testenv.Rand(t)
	for _, shape := range [][3]int{{5, 64, 3}, {33, 103, 17}, {40, 2 * bf16Group, 49}, {17, 6500, 2}, {32, 31, 2}} {
		cols := shape[1]
		if k.types[typ].pairs.terms == 1 && cols > 6000 {
			cols *= 2
		}
		holdTerms(t, k, typ, newProblem(rng, typ, shape[0], cols, shape[2]))
	}
}

// holdTerms holds p's products by terms to their definition, bit for bit, and where they keep all bits to sums in
// float64, too. Any goroutine may call it.
func holdTerms(t *testing.T, k *Kernels, typ quant.Type, p problem) {
	t.Helper()
	form, shape := k.PromptForm(typ), []int{p.rows, p.cols, p.tokens}
	stride, n, term := form.ActRow(p.cols), bf16Groups(p.cols), bf16Acts(p.cols)
	acts := make([]byte, p.tokens*stride)
	for i := range p.tokens {
		k.Convert(form, acts[i*stride:][:stride], p.x[i*p.cols:][:p.cols])
	}
	got := make([]float32, p.tokens*p.rows+canary)
	got[len(got)-1] = -12345
	k.MatMulPrompt(Next{}, typ, got, p.rows, p.packed, p.rows, p.cols, unsafe.Pointer(&acts[0]), stride, p.tokens)
	if got[len(got)-1] != -12345 {
		t.Errorf("%s %v: it wrote outside its output", typ, shape)
		return
	}
	terms := func(x []float32, terms, padded int) (list [][]uint16) {
		b := make([]byte, terms*padded)
		splitGeneric(b, padded, x, terms)
		for i := range terms {
			list = append(list, unsafe.Slice((*uint16)(unsafe.Pointer(&b[i*padded])), padded/2))
		}
		return list
	}
	for r := range p.rows {
		weights := terms(p.dense[r*p.cols:][:p.cols], k.types[typ].pairs.terms, term)
		for i := range p.tokens {
			x := terms(p.x[i*p.cols:][:p.cols], stride/term, term)
			sum, size := 0.0, 0.0
			for j, w := range p.dense[r*p.cols:][:p.cols] {
				product := float64(w) * float64(p.x[i*p.cols+j])
				sum, size = sum+product, size+math.Abs(product)
			}
			if v := got[i*p.rows+r]; form == Terms && math.Abs(float64(v)-sum) > exactTerms*size {
				t.Errorf("%s %v row %d token %d: %g, which is %g off", typ, shape, r, i, v, float64(v)-sum)
				return
			}
			want := dotTermsGeneric(weights, x, n)
			if v := got[i*p.rows+r]; math.Float32bits(v) != math.Float32bits(want) {
				t.Errorf("%s %v row %d token %d: %g, its definition has %g", typ, shape, r, i, v, want)
				return
			}
		}
	}
}

// TestTilesUnderSignals: products by tiles, of bytes and of BF16, keep their bytes while there are more goroutines than
// threads, signals interrupt the threads, and the collector stops them. Goroutines then change threads between calls: a
// thread whose tiles were left in use would give them to the next.
func TestTilesUnderSignals(t *testing.T) {
	if !cpu.X86.HasAVX512BF16 || !hasAMX() && os.Getenv(emulated) == "" {
		t.Skip("this processor lacks the instructions")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	k, like := amx(), bf16()
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
				if !typ.Quantised() {
					set := k
					if typ == quant.F16 && i%2 == 1 {
						set = k.Exact() // several terms
					}
					holdTerms(t, set, typ, newProblem(rng, typ, 33+worker, 256, 17+i))
					continue
				}
				p := newProblem(rng, typ, 16+worker, 512, 32+i)
				got, want := p.multiply(t, k, typ), p.multiply(t, like, typ)
				if !slices.Equal(got, want) {
					t.Errorf("worker %d's product %d in %s has other bytes than %s has", worker, i, typ, like.Name)
				}
			}
		})
	}
	workers.Wait()
	if n := len(caught); n < 10 {
		t.Errorf("%d signals came meanwhile, too few to tell", n)
	}
}

// TestUnusedMatrix has a set with a matrix unit leave it alone, which the processor need not have then.
func TestUnusedMatrix(t *testing.T) {
	if !cpu.X86.HasAVX512BF16 {
		t.Skip("this processor lacks AVX-512 BF16")
	}
	k, like := amx(), bf16()
	p := newProblem(testenv.Rand(t), quant.Q4_0, 16, 256, 32)
	k.UseMatrix(quant.Q4_0, false)
	got, want := p.multiply(t, k, quant.Q4_0), p.multiply(t, like, quant.Q4_0)
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("output %d: %g, %s has %g", i, got[i], like.Name, want[i])
		}
	}
}
