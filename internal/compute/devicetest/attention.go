package devicetest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// token is one token's place in the sequences.
type token struct {
	seq int32
	pos int32
}

// span returns the places of n tokens of a sequence from position from on.
func span(seq int32, from, n int) (p []token) {
	for i := range n {
		p = append(p, token{seq, int32(from + i)})
	}
	return p
}

// heads is the shape of attention.
type heads struct {
	dim, kv, group int
	value          int // elements of a value, if they differ from a key's
	types          cacheTypes
	within         bool // values are the first elements of keys
}

// cacheTypes are the types of a cache's keys and values.
type cacheTypes struct{ key, value compute.KVType }

// halves are the default types.
func halves() cacheTypes { return cacheTypes{} }

// shape returns the cache's shape.
func (h heads) shape() compute.KVShape {
	if h.value == 0 {
		h.value = h.dim
	}
	return compute.KVShape{Heads: h.kv, Key: h.dim, Value: h.value, KeyType: h.types.key, ValueType: h.types.value, Within: h.within}
}

func (h heads) String() string {
	types := ""
	if h.types != halves() {
		types = fmt.Sprintf(", %s and %s", h.types.key, h.types.value)
	}
	if h.within {
		return fmt.Sprintf("heads of %d, values their first %d, %d×%d%s", h.dim, h.value, h.kv, h.group, types)
	}
	if h.value != 0 {
		return fmt.Sprintf("heads of %d and %d, %d×%d%s", h.dim, h.value, h.kv, h.group, types)
	}
	return fmt.Sprintf("heads of %d, %d×%d%s", h.dim, h.kv, h.group, types)
}

// conversations are two sequences that share their first page, on pages out of order. Long enough for both: 1153 and
// 200 positions.
func conversations() [][]int32 {
	return [][]int32{{4, 2, 7, 0, 9, 12, 1, 19, 3, 5, 6, 8, 10, 11, 13, 14, 15, 16, 17}, {4, 18, 20, 21}}
}

const (
	attentionPages = 22
	longest        = 1153 // positions of sequence 0
	shorter        = 200  // positions of sequence 1
)

// lonely names scripts that also play every token by itself.
const lonely = "positions alone"

func attentionScripts() (all []script) {
	add := func(name string, h heads, places []token) {
		all = append(all, script{name: "Attention/" + name, tokens: len(places), each: strings.HasSuffix(name, lonely), play: func(s *stage) { playAttention(s, h, places, kind{}) }})
	}
	shapes := []heads{{16, 1, 1, 0, halves(), false}, {64, 2, 1, 0, halves(), false}, {64, 1, 8, 0, halves(), false}, {80, 2, 3, 0, halves(), false}, {96, 3, 2, 0, halves(), false}, {128, 2, 4, 0, halves(), false}, {64, 1, 5, 0, halves(), false}, {128, 1, 7, 0, halves(), false}, {64, 2, 6, 0, halves(), false}, {20, 2, 2, 0, halves(), false}}
	mixed := append(append(span(0, 62, 5), span(1, 60, 9)...), append(span(0, 255, 3), span(1, 127, 3)...)...)
	for _, h := range shapes {
		at := func(what string) string { return fmt.Sprintf("%s/%s", h, what) }
		positions := []int32{0, 63, 64, 256, longest - 1}
		if h.dim == 64 { // the borders of pages and splits, from both sides
			positions = []int32{0, 1, 63, 64, 65, 127, 255, 256, 257, 639, longest - 1}
		}
		var lone []token
		for _, p := range positions {
			lone = append(lone, token{0, p})
		}
		add(at(lonely), h, lone)
		add(at("two sequences, a token each"), h, []token{{0, 300}, {1, 70}})
		add(at("eight tokens"), h, span(0, 60, compute.FewTokens))
		add(at("nine tokens"), h, span(0, 250, 9))
		add(at("a prompt"), h, span(0, 0, 33))
		add(at("mixed"), h, mixed)
		add(at("backwards"), h, []token{{1, 130}, {0, 64}, {0, 63}, {1, 3}, {0, 200}, {1, 64}, {0, 0}, {1, 199}, {0, 512}, {0, 5}})
	}
	add("prompts/130 tokens", heads{64, 2, 4, 0, halves(), false}, span(0, 190, 130))
	add("prompts/130 tokens, long", heads{32, 1, 3, 0, halves(), false}, span(0, longest-130, 130))
	for _, t := range []cacheTypes{{compute.KVBF16, compute.KVF32}, {compute.KVF32, compute.KVBF16}, {compute.KVQ8_0, compute.KVQ8_0}, {compute.KVQ4_0, compute.KVQ4_0}, {compute.KVQ8_0, compute.KVF16}, {compute.KVF16, compute.KVQ4_0}} {
		h := heads{64, 2, 3, 96, t, false}
		for what, places := range map[string][]token{
			lonely: {{0, 0}, {0, 63}, {0, 64}, {0, 300}, {0, longest - 1}}, "two sequences, a token each": {{0, 300}, {1, 70}}, "mixed": mixed, "a prompt": span(0, 0, 33),
		} {
			add(fmt.Sprintf("%s/%s", h, what), h, places)
		}
	}
	for _, h := range []heads{
		{576, 1, 5, 512, halves(), true},
		{48, 2, 3, 32, halves(), true},
		{96, 1, 8, 64, cacheTypes{compute.KVQ8_0, compute.KVQ8_0}, true},
		{64, 1, 50, 32, cacheTypes{compute.KVF32, compute.KVF32}, true},
		{64, 1, 2, 608, halves(), false},
	} {
		for what, places := range map[string][]token{lonely: {{0, 0}, {0, 63}, {0, 300}}, "mixed": mixed, "nine tokens": span(0, 250, 9)} {
			add(fmt.Sprintf("%s/%s", h, what), h, places)
		}
	}
	for _, t := range compute.KVTypes() {
		all = append(all, loadScript(t))
	}
	all = append(append(append(all, kindScripts()...), boundedScripts()...), farScripts()...)
	return append(all, peakedScript(), storeScript(), copyPageScript(), nearPagesScript(), movePageScript(halves(), halves()),
		movePageScript(cacheTypes{compute.KVQ8_0, compute.KVQ4_0}, cacheTypes{compute.KVF32, compute.KVBF16}))
}

// conversation is a cache with what both sequences hold in its layer. It is made once for a device, and scripts leave
// it as it was.
type conversation struct {
	cache *compute.Cache
	k, v  [2][]float32 // [sequence] [positions, kv_heads·key], [positions, kv_heads·value]
}

const conversationLayer = 1 // layer 1 of two

func (s *stage) conversation(h heads) *conversation {
	if c, ok := s.dev.prepared[h.String()].(*conversation); ok {
		return c
	}
	cache, err := s.dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: 1, Key: 16, Value: 32}, h.shape()}, Pages: attentionPages})
	s.must(err)
	c := &conversation{cache: cache}
	nk, nv := h.kv*h.dim, h.kv*h.shape().Value
	own := material{rng: numbers(h.String())}

	// Everything is NaN at first, because a device may read only what a token attends to. Blocks hold none: they are
	// large.
	nothing := float32(math.NaN())
	if h.types.key.Type().Quantised() || h.types.value.Type().Quantised() {
		nothing = 3e4
	}
	nan := slices.Repeat([]float32{nothing}, cache.Pages*compute.PagePositions*max(nk, nv))
	positions := cache.Pages * compute.PagePositions
	s.store(cache, conversationLayer, [][]int32{everyone(cache.Pages)}, token{0, 0}, nan[:positions*nk], nan[:positions*nv])
	for seq, length := range []int{longest, shorter} {
		c.k[seq], c.v[seq] = own.normal(length*nk), own.normal(length*nv)
		if h.within {
			c.v[seq] = nil
		}
		from := 0
		if seq == 1 { // the shared page holds the first sequence's
			from = compute.PagePositions
			copy(c.k[1], c.k[0][:from*nk])
			copy(c.v[1], c.v[0][:min(from*nv, len(c.v[0]))])
		}
		s.store(cache, conversationLayer, conversations(), token{int32(seq), int32(from)}, c.k[seq][from*nk:], c.v[seq][min(from*nv, len(c.v[seq])):])
	}
	s.dev.prepared[h.String()] = c
	return c
}

// store writes k [positions, kv_heads·key] and v [positions, kv_heads·value] from a position on, outside the script's
// own steps. v is not written if values are within keys.
func (s *stage) store(c *compute.Cache, layer int, pages [][]int32, from token, k, v []float32) {
	s.t.Helper()
	l := c.Layers[layer]
	rows := len(k) / (l.Heads * l.Key)
	tensor := func(n int, x []float32) compute.Tensor {
		t, err := s.dev.Tensor(rows, n)
		s.must(err)
		table := s.table(rows, n, x)
		p := compute.Params{Tokens: everyone(rows)}
		s.must(s.dev.Run(compute.Segment{Name: "place", Rows: rows}, &p, func(v compute.Verbs) { v.Embed(t, table) }))
		return t
	}
	tk, tv := tensor(l.Heads*l.Key, k), compute.Tensor{}
	if !l.Within {
		tv = tensor(l.Heads*l.Value, v)
	}
	p := compute.Params{Pages: pages, Near: pages, Tokens: everyone(rows)}
	for i := range rows {
		p.Seq = append(p.Seq, from.seq)
		p.Pos = append(p.Pos, from.pos+int32(i))
	}
	s.must(s.dev.Run(compute.Segment{Name: "store", Rows: rows}, &p, func(v compute.Verbs) { v.StoreKV(c, layer, tk, tv) }))
}

// attended bounds attention over some hundred positions with keys and values that the script does not keep.
func (s *stage) attended(types cacheTypes) bound {
	if s.halves {
		return ofRow(roughAttention)
	}
	return ofRow(types.tolerance())
}

// tolerance returns the share of a row's largest magnitude that attention may cost.
func (t cacheTypes) tolerance() float64 {
	if t.key.Type().Quantised() || t.value.Type().Quantised() {
		return blockTolerance
	}
	return attentionTolerance
}

// kind holds the parameters of a script's attention other than the usual scale.
type kind struct {
	sharpness float32 // factor of the queries; 0: 1
	window    int
	parts     bool
	softCap   float32
	slopes    bool
	sinks     bool
	later     bool
	bounds    []compute.Bounds // for each place; nil: it sees the positions up to its own
	rounded   bool             // queries are numbers that halves cannot hold
}

// playAttention stores and attends in one step, as a model does. Keys and values of the sequences' other tokens are
// already in the cache.
func playAttention(s *stage, h heads, places []token, kind kind) {
	c := s.conversation(h)
	nk, nv := h.kv*h.dim, h.kv*h.shape().Value
	var k, v []float32
	for _, p := range places {
		s.params.Seq = append(s.params.Seq, p.seq)
		s.params.Pos = append(s.params.Pos, p.pos)
		k = append(k, c.k[p.seq][int(p.pos)*nk:][:nk]...)
		if !h.within {
			v = append(v, c.v[p.seq][int(p.pos)*nv:][:nv]...)
		}
	}
	s.params.Pages = conversations()
	queries := s.normal(s.all * nk * h.group)
	tolerance := h.types.tolerance()
	if kind.sharpness != 0 {
		tolerance = peakedTolerance
		for i := range queries {
			queries[i] *= kind.sharpness
		}
	}
	if !kind.rounded { // what halves hold: then what is wrong with a score is not its query's rounding
		for i, x := range queries {
			queries[i] = quant.F32FromF16(quant.F16FromF32(x))
		}
	}
	how := compute.Attention{Scale: float32(1 / math.Sqrt(float64(h.dim))), Window: kind.window, Parts: kind.parts, Later: kind.later, SoftCap: kind.softCap, Bounded: kind.bounds != nil}
	s.params.Bounds = kind.bounds
	var slopes, sinks []float32
	if kind.slopes {
		slopes = make([]float32, h.kv*h.group)
		for i := range slopes {
			slopes[i] = float32(math.Exp2(-float64(i + 1)))
		}
		how.Slopes = s.vector(slopes)
	}
	if kind.sinks {
		sinks = s.normal(h.kv * h.group)
		how.Sinks = s.vector(sinks)
	}
	q, tk, tv := s.input(nk*h.group, queries), s.input(nk, k), compute.Tensor{}
	if !h.within {
		tv = s.input(nv, v)
	}
	out := s.output(nv * h.group)
	s.run(func(verbs compute.Verbs) {
		verbs.StoreKV(c.cache, conversationLayer, tk, tv)
		verbs.Attend(out, q, c.cache, conversationLayer, how)
	})
	bounded := ofRow(tolerance)
	if s.halves {
		a := attended{heads: h, how: how, slopes: slopes, sinks: sinks, places: places, bounds: kind.bounds, q: queries, k: c.k, v: c.v, roughly: tolerance}
		bounded = a.bound()
	}
	s.keep("attention", out, bounded)
}

// kindScripts attend with each parameter of compute.Attention, in steps of few tokens and of many.
func kindScripts() (all []script) {
	h := heads{dim: 64, kv: 2, group: 3}
	few, many := []token{{0, 300}, {1, 70}, {0, 40}, {0, longest - 1}}, append(span(0, 240, 30), span(1, 60, 20)...)
	for _, c := range []struct {
		name  string
		heads heads
		kind  kind
	}{
		{"a window of 1", h, kind{window: 1}},
		{"a window of 70", h, kind{window: 70}},
		{"a window of 300", h, kind{window: 300}},
		{"parts of 70", h, kind{window: 70, parts: true}},
		{"parts of 256", h, kind{window: 256, parts: true}},
		{"a window wider than the sequence", h, kind{window: 5000}},
		{"rounded queries", h, kind{rounded: true}},
		{"soft cap", h, kind{softCap: 3}},
		{"sinks", h, kind{sinks: true}},
		{"slopes", h, kind{slopes: true}},
		{"all together", heads{dim: 128, kv: 1, group: 4}, kind{window: 65, softCap: 2, slopes: true, sinks: true}},
		{"later positions", h, kind{later: true}},
		{"later positions, all together", heads{dim: 128, kv: 1, group: 4}, kind{window: 64, softCap: 2, slopes: true, sinks: true, later: true}},
		{"narrow values", heads{dim: 96, kv: 2, group: 2, value: 64}, kind{}},
		{"wide values", heads{dim: 32, kv: 2, group: 2, value: 128}, kind{window: 100}},
	} {
		for _, places := range [][]token{few, many} {
			name := fmt.Sprintf("Attention/%s/%d tokens", c.name, len(places))
			all = append(all, script{name: name, tokens: len(places), each: !c.kind.later, whole: c.kind.later, play: func(s *stage) {
				playAttention(s, c.heads, places, c.kind)
			}})
		}
	}
	return all
}

// pictures are places of rows of pictures in a text, and what the rows see: text sees what is before it. A picture's
// rows also see each other, as far as they are in the step or the cache.
func pictures() (places []token, bounds []compute.Bounds) {
	places = append(span(0, 240, 60), append(span(1, 50, 40), span(0, 500, 30)...)...)
	for _, p := range places {
		to := p.pos + 1
		for _, picture := range []struct{ seq, from, to int32 }{{0, 246, 262}, {0, 262, 290}, {1, 60, 87}, {0, 480, 520}} {
			if p.seq == picture.seq && p.pos >= picture.from && p.pos < picture.to {
				to = picture.to
			}
		}
		bounds = append(bounds, compute.Bounds{To: to})
	}
	return places, bounds
}

// boundedScripts attend to positions that Params.Bounds names: pictures in prompts, in steps of few tokens and of many,
// and ranges that divide a step, as windows of a tower do.
func boundedScripts() (all []script) {
	add := func(name string, h heads, places []token, kind kind) {
		all = append(all, script{name: fmt.Sprintf("Attention/bounded, %s/%s", name, h), tokens: len(places), play: func(s *stage) { playAttention(s, h, places, kind) }})
	}
	floats := cacheTypes{compute.KVF32, compute.KVF32}
	among, seen := pictures()
	ranges, own := span(0, 0, 130), []compute.Bounds(nil)
	for i := range ranges {
		from := int32(i / 49 * 49)
		own = append(own, compute.Bounds{From: from, To: min(from+49, 130)})
	}
	few := []token{{0, 300}, {1, 70}, {0, 301}, {0, 700}}
	around := []compute.Bounds{{From: 290, To: 310}, {From: 3, To: 80}, {From: 290, To: 310}, {From: 0, To: 701}}
	for _, h := range []heads{{dim: 64, kv: 2, group: 3}, {dim: 72, kv: 2, group: 1, types: floats}, {dim: 80, kv: 1, group: 1, types: floats}, {dim: 64, kv: 1, group: 2, types: floats}, {dim: 16, kv: 2, group: 1, types: floats}, {dim: 80, kv: 2, group: 1}} {
		add("pictures", h, among, kind{bounds: seen})
		add("pictures and windows", h, among, kind{bounds: seen, window: 70})
		add("ranges", h, ranges, kind{bounds: own})
		add("few", h, few, kind{bounds: around})
		add("few, windows", h, few, kind{bounds: around, window: 65, sinks: true, softCap: 3})
	}
	add("pictures, all together", heads{dim: 128, kv: 1, group: 4}, among, kind{bounds: seen, window: 65, softCap: 2, slopes: true, sinks: true})
	return all
}

// farScripts attend in one step to all of its positions, many more than a chunk has on any device.
func farScripts() (all []script) {
	for _, h := range []heads{{dim: 16, kv: 1, group: 1, types: cacheTypes{compute.KVF32, compute.KVF32}}, {dim: 16, kv: 1, group: 1}} {
		all = append(all, script{name: fmt.Sprintf("Attention/later positions, far/%s", h), tokens: 1600, whole: true, play: func(s *stage) { playFar(s, h) }})
	}
	return all
}

// playFar has its own cache, with pages out of order.
func playFar(s *stage, h heads) {
	pages := (s.all + compute.PagePositions - 1) / compute.PagePositions
	c, err := s.dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{h.shape()}, Pages: pages})
	s.must(err)
	s.params.Pages = [][]int32{everyone(pages)}
	slices.Reverse(s.params.Pages[0])
	s.params.Pos, s.params.Seq = everyone(s.all), make([]int32, s.all)
	n := h.kv * h.dim
	q, k, v := s.input(n*h.group, s.normal(s.all*n*h.group)), s.input(n, s.normal(s.all*n)), s.input(n, s.normal(s.all*n))
	out := s.output(n * h.group)
	s.run(func(verbs compute.Verbs) {
		verbs.StoreKV(c, 0, k, v)
		verbs.Attend(out, q, c, 0, compute.Attention{Scale: float32(1 / math.Sqrt(float64(h.dim))), Later: true})
	})
	s.keep("attention", out, s.attended(halves()))
}

// peakedScript has scores hundreds apart: the exponentials are finite only if the maximum is subtracted.
func peakedScript() script {
	places := append(span(0, 250, 10), token{0, 1100}, token{1, 199})
	return script{name: "Attention/peaked", tokens: len(places), play: func(s *stage) { playAttention(s, heads{dim: 64, kv: 2, group: 3}, places, kind{sharpness: 256}) }}
}

// storeScript: a token that sees only itself gets its own value back, rounded to a half.
func storeScript() script {
	return script{name: "StoreKV/halves", tokens: 5, play: func(s *stage) {
		const kv, dim = 2, 16
		c, err := s.dev.Cache(compute.CacheSpec{Layers: slices.Repeat([]compute.KVShape{{Heads: kv, Key: dim, Value: dim}}, 2), Pages: 6})
		s.must(err)
		v := s.normal(s.all * kv * dim)
		hostile := []float32{0, 1, 65504, -65504, 65519, 2049, 2051, 6.1e-5, 6.0e-8, 3.0e-8, 2.9e-8, -4.5e-8, 1e-20, 1.00048828125, 1.00146484375}
		for i := range v {
			if i%2 == 0 {
				v[i] = hostile[i/2%len(hostile)]
			}
		}
		for t := range s.all {
			s.params.Seq = append(s.params.Seq, int32(t))
			s.params.Pos = append(s.params.Pos, 0)
			s.params.Pages = append(s.params.Pages, []int32{int32(5 - t)})
		}
		// In the first layer keys and values change places: layers must not meet.
		k := s.normal(s.all * kv * dim)
		tk, tv, q := s.input(kv*dim, k), s.input(kv*dim, v), s.input(kv*dim, k)
		first, second := s.output(kv*dim), s.output(kv*dim)
		s.run(func(verbs compute.Verbs) {
			verbs.StoreKV(c, 1, tk, tv)
			verbs.StoreKV(c, 0, tv, tk)
			verbs.Attend(second, q, c, 1, compute.Attention{Scale: 0.25})
			verbs.Attend(first, q, c, 0, compute.Attention{})
		})
		s.keep("value in layer 0", first, exact)
		s.keep("value in layer 1", second, exact)
	}}
}

// loadScript: keys come back as the cache keeps them. Some are stored later than their values, and the values stay.
func loadScript(t compute.KVType) script {
	const kv, dim, value = 2, 64, 32
	return script{name: "LoadKeys/" + t.String(), tokens: 70, play: func(s *stage) {
		c, err := s.dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{
			{Heads: 1, Key: 32, Value: 32}, {Heads: kv, Key: dim, Value: value, KeyType: t, ValueType: compute.KVF16},
		}, Pages: 6})
		s.must(err)
		for i := range s.all {
			s.params.Seq = append(s.params.Seq, int32(i%3))
			s.params.Pos = append(s.params.Pos, int32(40+i))
		}
		s.params.Pages = [][]int32{{5, 1}, {0, 3}, {2, 4}}
		keys := s.normal(s.all * kv * dim)
		if t.Type().Quantised() {
			undecided(keys)
		}
		k, later, v := s.input(kv*dim, keys), s.input(kv*dim, s.normal(s.all*kv*dim)), s.input(kv*value, s.normal(s.all*kv*value))
		first, second, seen := s.output(kv*dim), s.output(kv*dim), s.output(kv*value)
		s.run(func(verbs compute.Verbs) {
			verbs.StoreKV(c, 1, k, v)
			verbs.LoadKeys(c, 1, first)
		})
		s.run(func(verbs compute.Verbs) {
			verbs.StoreKV(c, 1, later, compute.Tensor{})
			verbs.LoadKeys(c, 1, second)
			verbs.Attend(seen, k, c, 1, compute.Attention{Window: 1})
		})
		s.keep("keys", first, exact)
		s.keep("later keys", second, exact)
		s.keep("values", seen, exact)
	}}
}

// undecided makes blocks of keys hard to round. A block's scale is half way between two F16, or one ulp from there, and
// so are many of its elements between two quants of Q8_0 or Q4_0. A division that is one ulp off rounds them
// differently.
func undecided(keys []float32) {
	near := func(x float32, i int) float32 { return math.Float32frombits(math.Float32bits(x) + uint32(i%3) - 1) }
	for b := range len(keys) / quant.QK {
		block := keys[b*quant.QK:][:quant.QK]
		half := quant.F32FromF16(uint16(0x2400 + 37*b)) // 2^-6 and more
		d := half * (1 + 0x1p-11)                       // and half of a half's unit
		top, quants := float32(127), 127
		if b%2 == 1 {
			top, quants = -8, 8
		}
		block[0] = near(top*d, b/2)
		for i := 1; i < quant.QK; i += 2 {
			block[i] = near((float32(4*i%quants)+0.5)*d, i/2)
		}
	}
}

// copyPageScript: a page is copied in every layer, and afterwards either is written without the other.
func copyPageScript() script {
	h := heads{dim: 64, kv: 2, group: 2}
	n := h.kv * h.dim
	return script{name: "CopyPage/all layers", tokens: 2, play: func(s *stage) {
		c, err := s.dev.Cache(compute.CacheSpec{Layers: slices.Repeat([]compute.KVShape{h.shape()}, 3), Pages: 5})
		s.must(err)
		pages := [][]int32{{3, 1}, {3, 4}} // the second sequence's own copy of page 1 is page 4
		for layer := range c.Layers {
			s.store(c, layer, pages, token{0, 0}, s.normal(100*n), s.normal(100*n))
		}
		s.dev.CopyPage(c, compute.EveryLayer(4), compute.EveryLayer(1))
		for layer := range c.Layers {
			s.store(c, layer, pages, token{1, 100}, s.normal(n), s.normal(n))
			s.store(c, layer, pages, token{0, 99}, s.normal(n), s.normal(n))
		}
		s.store(c, 1, pages, token{0, 100}, s.normal(n), s.normal(n))
		s.params.Pages, s.params.Seq, s.params.Pos = pages, []int32{0, 1}, []int32{99, 100}
		q := s.input(n*h.group, s.normal(s.all*n*h.group))
		for layer := range c.Layers {
			out := s.output(n * h.group)
			s.run(func(v compute.Verbs) { v.Attend(out, q, c, layer, compute.Attention{Scale: 0.125}) })
			s.keep(fmt.Sprintf("layer %d", layer), out, s.attended(h.types))
		}
	}}
}

// nearPagesScript has a layer with a sliding window. It has fewer pages than the other layers, at other places, and no
// page for positions that no window reaches; such a page is not read, copied or moved.
func nearPagesScript() script {
	shape := compute.KVShape{Heads: 2, Key: 64, Value: 64}
	const stored, window = 3*compute.PagePositions - 9, 70
	return script{name: "Attention/pages of windows", tokens: 1, play: func(s *stage) {
		c, err := s.dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{shape, shape, shape}, Windowed: []bool{false, true, false}, Pages: 6, Near: 3})
		s.must(err)
		far, near := []int32{5, 3, 4}, []int32{0, 2, 1}
		for layer := range c.Layers {
			pages := far
			if layer == 1 {
				pages = near
			}
			s.store(c, layer, [][]int32{pages}, token{0, 0}, s.normal(stored*128), s.normal(stored*128))
		}
		s.dev.CopyPage(c, compute.Page{Far: 1, Near: 0}, compute.Page{Far: 4, Near: 1})
		s.dev.CopyPage(c, compute.Page{Far: 2, Near: -1}, compute.Page{Far: 5, Near: 0})
		moved := [][]byte{make([]byte, shape.PageBytes()), nil, make([]byte, shape.PageBytes())}
		s.must(s.dev.ReadPage(c, compute.Page{Far: 3, Near: -1}, moved))
		s.must(s.dev.WritePage(c, compute.Page{Far: 0, Near: -1}, moved))
		s.params.Pages, s.params.Near = [][]int32{{2, 0, 1}}, [][]int32{{0, 2, 0}} // the first page is not in layer 1, where 0 stands for it
		s.params.Seq, s.params.Pos = []int32{0}, []int32{stored - 1}
		q := s.input(256, s.normal(256))
		for layer := range c.Layers {
			how := compute.Attention{Scale: 0.125}
			if layer == 1 {
				how.Window = window
			}
			out := s.output(256)
			s.run(func(v compute.Verbs) { v.Attend(out, q, c, layer, how) })
			s.keep(fmt.Sprintf("layer %d", layer), out, s.attended(halves()))
		}
	}}
}

// movePageScript: a page that is read has what was stored, in the order that all devices share, and one that is written
// is attended to as if it had been stored.
func movePageScript(n, w cacheTypes) script {
	narrow := compute.KVShape{Heads: 2, Key: 64, Value: 64, KeyType: n.key, ValueType: n.value}
	wide := compute.KVShape{Heads: 1, Key: 32, Value: 16, KeyType: w.key, ValueType: w.value}
	const stored, kept = 100, 90 - compute.PagePositions // positions; those of the second page are moved
	return script{name: fmt.Sprintf("MovePage/all layers/%v %v", n, w), tokens: 1, play: func(s *stage) {
		c, err := s.dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{narrow, wide, narrow}, Pages: 5})
		s.must(err)
		page := make([][]byte, len(c.Layers))
		for layer, l := range c.Layers {
			s.store(c, layer, [][]int32{{3, 1}}, token{0, 0}, s.normal(stored*l.Heads*l.Key), s.normal(stored*l.Heads*l.Value))
			page[layer] = make([]byte, kept*l.PositionBytes())
		}
		s.must(s.dev.ReadPage(c, compute.EveryLayer(1), page))
		for layer := range page {
			s.keepTotal(fmt.Sprintf("page of layer %d", layer), numbersOf(page[layer]), exact)
		}
		s.must(s.dev.WritePage(c, compute.EveryLayer(4), page))
		again := make([][]byte, len(page))
		for layer := range page {
			again[layer] = make([]byte, len(page[layer]))
		}
		s.must(s.dev.ReadPage(c, compute.EveryLayer(4), again))
		for layer := range page {
			s.keepTotal(fmt.Sprintf("written page of layer %d", layer), numbersOf(again[layer]), exact)
		}
		s.params.Pages, s.params.Seq, s.params.Pos = [][]int32{{3, 4}}, []int32{0}, []int32{compute.PagePositions + kept - 1}
		for _, layer := range []int{0, 2} {
			l := c.Layers[layer]
			q, out := s.input(2*l.Heads*l.Key, s.normal(2*l.Heads*l.Key)), s.output(2*l.Heads*l.Value)
			s.run(func(v compute.Verbs) { v.Attend(out, q, c, layer, compute.Attention{Scale: 0.125}) })
			s.keep(fmt.Sprintf("layer %d", layer), out, s.attended(cacheTypes{l.KeyType, l.ValueType}))
		}
	}}
}

// numbersOf are bytes as numbers.
func numbersOf(bytes []byte) []float32 {
	x := make([]float32, len(bytes))
	for i, b := range bytes {
		x[i] = float32(b)
	}
	return x
}
