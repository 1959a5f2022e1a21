package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// attentionTolerance: float32 dot products and sums, relative to the largest value attended to.
const attentionTolerance = 1e-5

// blockTolerance is the tolerance of 16-bit integers: their rounding errors add up over a page.
const blockTolerance = 2e-4

// sequence is a random KV cache and queries for the last tokens of a sequence.
type sequence struct {
	kv      KV
	q       []float32 // [tokens·group, key]
	spans   []Span    // [tokens]
	group   int
	softCap float32
	sink    *float32 // of every head, or nil
}

func newSequence(rng *rand.Rand, headDim, group, positions, tokens int) *sequence {
	return newSequenceOf(rng, headDim, headDim, group, positions, tokens, 0)
}

// newSequenceOf has keys and values of their own widths, and tokens that see at most window positions; 0: all.
func newSequenceOf(rng *rand.Rand, key, value, group, positions, tokens, window int) *sequence {
	return newSequenceIn(rng, compute.KVShape{Heads: 2, Key: key, Value: value}, group, positions, tokens, window)
}

// newSequenceIn has a cache of other types, too.
func newSequenceIn(rng *rand.Rand, shape compute.KVShape, group, positions, tokens, window int) *sequence {
	key, value := shape.Key, shape.Value
	pages := (positions + compute.PagePositions - 1) / compute.PagePositions
	s := &sequence{kv: KV{Head: rng.IntN(2), Shape: shape, Scratch: make([]float32, ScratchLen(shape))}, group: group}
	for _, p := range rng.Perm(pages + 2)[:pages] {
		s.kv.Pages = append(s.kv.Pages, int32(p))
	}
	n := (pages + 2) * s.kv.Shape.Heads * compute.PagePositions
	// What was never written, and what no token sees, is NaN in every type and must not matter.
	s.kv.K, s.kv.V = slices.Repeat([]byte{0xff}, n*shape.KeyType.RowBytes(key)), slices.Repeat([]byte{0xff}, n*shape.ValueType.RowBytes(value))
	begin := 0
	if window > 0 {
		begin = max(0, positions-tokens+1-window)
	}
	for p := begin; p < positions; p++ {
		k, v := s.row(p)
		quant.Encode(shape.KeyType.Type(), k, normals(rng, key))
		quant.Encode(shape.ValueType.Type(), v, normals(rng, value))
	}
	s.q = normals(rng, tokens*group*key)
	for i := range s.q {
		s.q[i] *= 3 / float32(math.Sqrt(float64(key))) // scores with a spread of 3
	}
	for t := range tokens {
		to := positions - tokens + 1 + t
		span := Span{To: int32(to)}
		if window > 0 {
			span.From = int32(max(0, to-window))
		}
		s.spans = append(s.spans, span)
	}
	return s
}

// row is position p's key and value, in the cache's form.
func (s *sequence) row(p int) (k, v []byte) {
	k, v = s.kv.page(p / compute.PagePositions)
	at, nk, nv := p%compute.PagePositions, s.kv.Shape.KeyType.RowBytes(s.kv.Shape.Key), s.kv.Shape.ValueType.RowBytes(s.kv.Shape.Value)
	return k[at*nk:][:nk], v[at*nv:][:nv]
}

// elements is position p's key and value.
func (s *sequence) elements(p int) (k, v []float32) {
	key, value := s.row(p)
	k, v = make([]float32, s.kv.Shape.Key), make([]float32, s.kv.Shape.Value)
	quant.Decode(s.kv.Shape.KeyType.Type(), k, key)
	quant.Decode(s.kv.Shape.ValueType.Type(), v, value)
	return k, v
}

// attend is attention of tokens [from, to), from the first chunk that one of them sees, with the sequence's sink.
func (s *sequence) attend(t *testing.T, k *Kernels, from, to int) []float32 {
	key, value, n := s.kv.Shape.Key, s.kv.Shape.Value, (to-from)*s.group
	q, spans := s.q[from*s.group*key:to*s.group*key], s.spans[from:to]
	a, checkSum := guarded(t, make([]float32, PartialLen(n, value)))
	b, checkNext := guarded(t, make([]float32, PartialLen(n, value)))
	out, checkOut := guarded(t, make([]float32, n*value))
	sum, next := NewPartial(a, n, value), NewPartial(b, n, value)
	first := int(spans[0].From) / ChunkPositions
	k.AttendChunk(sum, q, &s.kv, spans, Scores{SoftCap: s.softCap}, first)
	for c := first + 1; c < Chunks(int(spans[len(spans)-1].To)); c++ {
		k.AttendChunk(next, q, &s.kv, spans, Scores{SoftCap: s.softCap}, c)
		k.Merge(sum, next)
	}
	for i := range n {
		if s.sink != nil {
			k.FinishWithSink(out[i*value:][:value], sum, i, *s.sink)
		} else {
			k.Finish(out[i*value:][:value], sum, i)
		}
	}
	checkSum()
	checkNext()
	checkOut()
	return out
}

// define returns the definition: softmax(q·K)·V of query i in float64.
func (s *sequence) define(i int) (out []float64, largest float64) {
	key := s.kv.Shape.Key
	span := s.spans[i/s.group]
	w, sum := make([]float64, span.To-span.From), 0.0
	if s.sink != nil {
		sum = math.Exp(float64(*s.sink))
	}
	for p := range w {
		k, _ := s.elements(int(span.From) + p)
		dot := 0.0
		for d, e := range k {
			dot += float64(s.q[i*key+d]) * float64(e)
		}
		if c := float64(s.softCap); c > 0 {
			dot = c * math.Tanh(dot/c)
		}
		w[p] = math.Exp(dot)
		sum += w[p]
	}
	out = make([]float64, s.kv.Shape.Value)
	for p := range w {
		_, v := s.elements(int(span.From) + p)
		for d, e := range v {
			f := float64(e)
			out[d] += w[p] / sum * f
			largest = max(largest, math.Abs(f))
		}
	}
	return out, largest
}

// vectors returns a set for each implementation of what is not a product: sets of instructions share theirs.
func vectors() []*Kernels {
	all := Variants()
	return slices.Compact([]*Kernels{all[0], all[len(all)-1]})
}

// checkedQueries is the distance of the queries that are held to the definition, which takes long in an emulator.
func checkedQueries() int {
	if testing.Short() {
		return 11
	}
	return 1
}

func TestAttention(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range vectors() {
		for _, c := range []struct{ headDim, group, positions, tokens int }{
			{32, 1, 1, 1},
			{64, 1, 64, 1},
			{64, 4, 65, 1},
			{128, 8, 300, 1},
			{128, 7, 256, 1},
			{80, 1, 257, 1},
			{96, 3, 63, 1},
			{256, 2, 700, 1},
			{8, 5, 7, 1},
			{12, 2, 70, 3},
			{64, 1, 40, 40},
			{128, 4, 100, 70},
			{80, 2, 300, 67},
			{64, 3, 600, 19},
			{40, 6, 130, 130},
		} {
			s := newSequence(rng, c.headDim, c.group, c.positions, c.tokens)
			got := s.attend(t, k, 0, c.tokens)
			for i := 0; i < c.tokens*c.group; i += checkedQueries() {
				want, largest := s.define(i)
				near(t, fmt.Sprintf("%s %+v query %d", k.Name, c, i), got[i*c.headDim:][:c.headDim],
					func(d int) (float64, float64) { return want[d], largest }, attentionTolerance)
			}
		}
	}
}

// TestAttentionAloneOrInCompany holds a token's result to the same bytes in any batch.
func TestAttentionAloneOrInCompany(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range vectors() {
		for _, c := range []struct{ headDim, group, positions, tokens int }{{64, 1, 300, 90}, {128, 4, 520, 33}, {80, 3, 270, 80}, {64, 8, 70, 20}} {
			s := newSequence(rng, c.headDim, c.group, c.positions, c.tokens)
			all := s.attend(t, k, 0, c.tokens)
			for range 12 / min(4, checkedQueries()) {
				from := rng.IntN(c.tokens)
				to := from + 1 + rng.IntN(min(5, c.tokens-from))
				part := s.attend(t, k, from, to)
				for i, e := range part {
					if w := all[from*c.group*c.headDim+i]; math.Float32bits(e) != math.Float32bits(w) {
						t.Fatalf("%s %+v tokens %d to %d: element %d is %x, in the whole batch %x", k.Name, c, from, to, i, e, w)
					}
				}
			}
		}
	}
}

// TestWideAttention holds attention in 512-bit vectors to the bytes of 256-bit ones.
func TestWideAttention(t *testing.T) {
	all := Variants()
	wide, narrow := all[0], slices.IndexFunc(all, func(k *Kernels) bool { return k.attention == vectorAttention })
	if wide.attention != wideAttention || narrow < 0 {
		t.Skip("this processor has no 512-bit vectors")
	}
	rng := testenv.Rand(t)
	for _, kv := range []compute.KVType{compute.KVF16, compute.KVBF16, compute.KVF32} {
		for _, c := range []struct{ key, value, group, positions, tokens int }{{128, 128, 1, 300, 30}, {64, 64, 6, 70, 9}, {96, 32, 3, 200, 4}, {32, 96, 2, 65, 65}, {40, 24, 6, 100, 2}, {72, 72, 1, 130, 12}, {224, 160, 12, 90, 1}} {
			s := newSequenceIn(rng, compute.KVShape{Heads: 2, Key: c.key, Value: c.value, KeyType: kv, ValueType: kv}, c.group, c.positions, c.tokens, 0)
			got, want := s.attend(t, wide, 0, c.tokens), s.attend(t, all[narrow], 0, c.tokens)
			for i, e := range got {
				if math.Float32bits(e) != math.Float32bits(want[i]) {
					t.Fatalf("%s %+v: element %d is %v, %v with %s", kv, c, i, e, want[i], all[narrow].Name)
				}
			}
		}
	}
}

// TestAttentionKinds: windows, soft caps, sinks, and keys and values of different widths, alone and in company.
func TestAttentionKinds(t *testing.T) {
	rng := testenv.Rand(t)
	sink := float32(1.5)
	for _, k := range vectors() {
		for _, c := range []struct {
			key, value, group, positions, tokens, window int
			softCap                                      float32
			sink                                         *float32
		}{
			{64, 64, 2, 300, 1, 1, 0, nil},
			{64, 64, 2, 300, 1, 100, 0, nil},
			{64, 64, 3, 700, 80, 70, 0, nil},
			{32, 32, 1, 1100, 300, 256, 0, nil},
			{64, 64, 1, 90, 90, 17, 0, &sink},
			{96, 64, 2, 300, 30, 0, 0, nil},
			{64, 128, 4, 130, 1, 0, 5, nil},
			{12, 20, 2, 130, 9, 65, 2, &sink},
			{64, 64, 1, 40, 1, 0, 0, &sink},
		} {
			s := newSequenceOf(rng, c.key, c.value, c.group, c.positions, c.tokens, c.window)
			s.softCap, s.sink = c.softCap, c.sink
			got := s.attend(t, k, 0, c.tokens)
			for i := 0; i < c.tokens*c.group; i += checkedQueries() {
				want, largest := s.define(i)
				near(t, fmt.Sprintf("%s %+v query %d", k.Name, c, i), got[i*c.value:][:c.value],
					func(d int) (float64, float64) { return want[d], largest }, attentionTolerance)
			}
			for token := 0; token < c.tokens; token += checkedQueries() {
				for i, e := range s.attend(t, k, token, token+1) {
					if w := got[token*c.group*c.value+i]; math.Float32bits(e) != math.Float32bits(w) {
						t.Fatalf("%s %+v token %d: element %d is %x alone, and %x among others", k.Name, c, token, i, e, w)
					}
				}
			}
		}
	}
}

// TestAttentionTypes: every pair of types, with windows, alone and in company.
func TestAttentionTypes(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range vectors() {
		for _, keys := range compute.KVTypes() {
			for _, values := range compute.KVTypes() {
				for _, c := range []struct{ group, positions, tokens, window int }{{3, 300, 1, 0}, {1, 70, 30, 0}, {2, 150, 21, 65}} {
					shape := compute.KVShape{Heads: 2, Key: 64, Value: 96, KeyType: keys, ValueType: values}
					tolerance := attentionTolerance
					if k.blocks != nil && (keys.Type().Quantised() || values.Type().Quantised()) {
						tolerance = blockTolerance
					}
					s := newSequenceIn(rng, shape, c.group, c.positions, c.tokens, c.window)
					got := s.attend(t, k, 0, c.tokens)
					for i := 0; i < c.tokens*c.group; i += checkedQueries() {
						want, largest := s.define(i)
						near(t, fmt.Sprintf("%s %s %s %+v query %d", k.Name, keys, values, c, i), got[i*shape.Value:][:shape.Value],
							func(d int) (float64, float64) { return want[d], largest }, tolerance)
					}
					token := rng.IntN(c.tokens)
					for i, e := range s.attend(t, k, token, token+1) {
						if w := got[token*c.group*shape.Value+i]; math.Float32bits(e) != math.Float32bits(w) {
							t.Fatalf("%s %s %s %+v token %d: element %d is %x alone, and %x among others", k.Name, keys, values, c, token, i, e, w)
						}
					}
				}
			}
		}
	}
}

func TestAttentionOfLargeScores(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range vectors() {
		s := newSequence(rng, 64, 2, 500, 1)
		for i := range s.q {
			s.q[i] *= 200 // e^score overflows float32 by far: only differences count
		}
		for i, e := range s.attend(t, k, 0, 1) {
			if math.IsNaN(float64(e)) || math.Abs(float64(e)) > 6 {
				t.Fatalf("%s: element %d is %g", k.Name, i, e)
			}
		}
	}
}

func TestAttentionAllocatesNothing(t *testing.T) {
	s := newSequence(testenv.Rand(t), 64, 4, 300, 3)
	p, sum := NewPartial(make([]float32, PartialLen(12, 64)), 12, 64), NewPartial(make([]float32, PartialLen(12, 64)), 12, 64)
	for _, k := range vectors() {
		if n := testing.AllocsPerRun(10, func() {
			k.AttendChunk(p, s.q, &s.kv, s.spans, Scores{}, 0)
			k.Merge(sum, p)
		}); n != 0 {
			t.Fatalf("%s: %v allocations", k.Name, n)
		}
	}
}

// TestQuantisedRowsAsDecoded: attention over quantised rows has the bytes of attention over what they decode to,
// however many queries there are, unless it is computed in integers.
func TestQuantisedRowsAsDecoded(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range platform() {
		if k.blocks != nil {
			continue
		}
		for _, typ := range []compute.KVType{compute.KVQ8_0, compute.KVQ4_0} {
			for _, width := range []int{32, 96, 128} {
				for _, group := range []int{1, 2, 3, 4, 6, 8, 13} {
					shape := compute.KVShape{Heads: 2, Key: width, Value: width, KeyType: typ, ValueType: typ}
					s := newSequenceIn(rng, shape, group, 150, 1+rng.IntN(2), 0)
					plain := *s
					plain.kv.Shape.KeyType, plain.kv.Shape.ValueType = compute.KVF32, compute.KVF32
					plain.kv.K, plain.kv.V = decodedRows(typ, s.kv.K), decodedRows(typ, s.kv.V)
					if got, want := s.firstChunk(k), plain.firstChunk(k); !slices.Equal(got, want) {
						t.Fatalf("%s %s: %d queries of %d elements: other bytes than of decoded rows", k.Name, typ, group, width)
					}
				}
			}
		}
	}
}

// decodedRows is rows of t in F32.
func decodedRows(t compute.KVType, b []byte) []byte {
	x := make([]float32, len(b)/t.Type().BlockBytes()*quant.QK)
	quant.Decode(t.Type(), x, b)
	out := make([]byte, 4*len(x))
	quant.Encode(quant.F32, out, x)
	return out
}

// firstChunk is the first chunk's attention, and the weights' sums, of all queries.
func (s *sequence) firstChunk(k *Kernels) []float32 {
	n := len(s.spans) * s.group
	mem := make([]float32, PartialLen(n, s.kv.Shape.Value))
	k.AttendChunk(NewPartial(mem, n, s.kv.Shape.Value), s.q, &s.kv, s.spans, Scores{}, 0)
	return mem
}
