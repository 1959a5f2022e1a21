package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func mustNew(t testing.TB, o Options, nVocab int) *Sampler {
	t.Helper()
	s, err := New(o, nVocab)
	if err != nil {
		t.Fatal(err)
	}
	if o.DRY.Multiplier != 0 {
		s.BreakAt(NewBreakers(o.DRY.Breakers, nVocab, letters))
	}
	return s
}

// neutral turns every stage off: softmax of the logits.
func neutral() Options {
	o := DefaultOptions()
	o.Seed, o.Temperature, o.TopK, o.TopP, o.MinP, o.RepeatLastN = 1, 1, 0, 1, 0, 0
	return o
}

func TestDefaultsAreLlamaCpp(t *testing.T) {
	got, want := fmt.Sprintf("%+v", DefaultOptions()), fmt.Sprintf("%+v", Options{
		Seed: 0xFFFFFFFF, Samplers: []string{"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"},
		Temperature: 0.8, DynamicRange: 0, DynamicExponent: 1, TopK: 40, TopP: 0.95, MinP: 0.05, TopNSigma: -1, TypicalP: 1,
		XTC: XTC{0, 0.1}, RepeatLastN: 64, RepeatPenalty: 1, PresencePenalty: 0, FrequencyPenalty: 0,
		DRY: DRY{0, 1.75, 2, 64, []string{"\n", ":", `"`, "*"}}, Mirostat: Mirostat{0, 5, 0.1}, Adaptive: Adaptive{-1, 0.9},
	})
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Small cases worked by hand, after llama.cpp's own test-sampling: probabilities 0.1 to 0.4 as logits.
func TestStagesByHand(t *testing.T) {
	log := func(p ...float64) []float32 {
		l := make([]float32, len(p))
		for i := range p {
			l[i] = float32(math.Log(p[i]))
		}
		return l
	}
	logits := log(0.1, 0.2, 0.3, 0.4)
	for _, c := range []struct {
		name   string
		set    func(*Options)
		accept []int32
		want   []float64
	}{
		{"off", func(*Options) {}, nil, []float64{0.1, 0.2, 0.3, 0.4}},
		{"top-k 1", func(o *Options) { o.TopK = 1 }, nil, []float64{0, 0, 0, 1}},
		{"top-k 3", func(o *Options) { o.TopK = 3 }, nil, []float64{0, 2. / 9, 3. / 9, 4. / 9}},
		{"top-p 0", func(o *Options) { o.TopP = 0 }, nil, []float64{0, 0, 0, 1}},
		{"top-p 0.65", func(o *Options) { o.TopP = 0.65 }, nil, []float64{0, 0, 3. / 7, 4. / 7}},
		{"top-p 0.75", func(o *Options) { o.TopP = 0.75 }, nil, []float64{0, 2. / 9, 3. / 9, 4. / 9}},
		{"top-p after top-k", func(o *Options) { o.TopK, o.TopP = 2, 0.55 }, nil, []float64{0, 0, 0, 1}},
		{"min-p 0.26", func(o *Options) { o.MinP = 0.26 }, nil, []float64{0, 2. / 9, 3. / 9, 4. / 9}},
		{"min-p 1", func(o *Options) { o.MinP = 1 }, nil, []float64{0, 0, 0, 1}},
		{"temperature after min-p", func(o *Options) { o.MinP, o.Temperature = 0.74, 0.5 }, nil, []float64{0, 0, 9. / 25, 16. / 25}},
		// log p is negative, so a penalty of 2 squares p.
		{"repeat", func(o *Options) { o.RepeatLastN, o.RepeatPenalty = 64, 2 }, []int32{3, 3}, []float64{10. / 76, 20. / 76, 30. / 76, 16. / 76}},
		{"frequency", func(o *Options) { o.RepeatLastN, o.FrequencyPenalty = 64, math.Ln2 }, []int32{3, 3}, []float64{1. / 7, 2. / 7, 3. / 7, 1. / 7}},
		{"presence", func(o *Options) { o.RepeatLastN, o.PresencePenalty = 64, math.Ln2 }, []int32{3, 3}, []float64{1. / 8, 2. / 8, 3. / 8, 2. / 8}},
		{"window", func(o *Options) { o.RepeatLastN, o.FrequencyPenalty = 2, math.Ln2 }, []int32{3, 3, 3, 0}, []float64{0.05 / .75, .2 / .75, .3 / .75, .2 / .75}},
		{"bias", func(o *Options) { o.LogitBias = map[int32]float32{3: negInf, 0: math.Ln2} }, nil, []float64{2. / 7, 2. / 7, 3. / 7, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := neutral()
			c.set(&o)
			s := mustNew(t, o, len(logits))
			for _, id := range c.accept {
				s.Accept(id)
			}
			got := probabilities(s, logits)
			for id := range got {
				if math.Abs(got[id]-c.want[id]) > 1e-6 { // logits are rounded to float32
					t.Errorf("token %d: probability %v, want %v", id, got[id], c.want[id])
				}
			}
		})
	}
}

// A sum that is exactly P is enough, and of equal logits the lowest ids stay.
func TestTopPStopsAtExactSum(t *testing.T) {
	o := neutral()
	o.TopP = 0.5
	if got, want := probabilities(mustNew(t, o, 4), make([]float32, 4)), []float64{0.5, 0.5, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// chiSquareLimit returns the 1 - 1e-12 quantile of chi-square (Wilson and Hilferty's approximation): the error of the
// approximations, which cells of 20 draws at least keep small, leaves a right sampler less than one failing seed in
// 1e9.
func chiSquareLimit(degrees int) float64 {
	k := float64(degrees)
	z := 7.0345 // normal quantile
	x := 1 - 2/(9*k) + z*math.Sqrt(2/(9*k))
	return k * x * x * x
}

func TestDrawsFollowDistribution(t *testing.T) {
	rng := testenv.Rand(t)
	const vocab, draws = 500, 20_000
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 2)
	}
	warm := neutral()
	warm.Temperature, warm.TopP = 1.5, 0.9
	for _, o := range []Options{DefaultOptions(), neutral(), warm} {
		o.Seed = rng.Uint64()
		s := mustNew(t, o, vocab)
		want := distribution(o, logits, nil)
		var seen [vocab]int
		for range draws {
			seen[s.Sample(logits)]++
		}
		// Tokens of small expectation are pooled, as the approximation asks.
		var chi, pooled, pooledSeen float64
		cells := 0
		add := func(n, expected float64) {
			chi += (n - expected) * (n - expected) / expected
			cells++
		}
		for id, p := range want {
			if expected := p * draws; expected >= 20 {
				add(float64(seen[id]), expected)
			} else {
				pooled, pooledSeen = pooled+expected, pooledSeen+float64(seen[id])
			}
		}
		if pooled > 0 {
			add(pooledSeen, pooled)
		} else if pooledSeen > 0 {
			t.Errorf("options %+v: drew tokens of probability 0", o)
		}
		if limit := chiSquareLimit(cells - 1); chi > limit {
			t.Errorf("options %+v: chi-square %.1f over %d cells, limit %.1f", o, chi, cells, limit)
		}
	}
}

func TestGreedyTakesLowestOfTies(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 3, 2}, 1},
		{[]float32{nan, 3, nan, 4}, 3},
		{[]float32{negInf, -5, negInf}, 1},
		{[]float32{0, inf, inf}, 1},
	} {
		for _, temperature := range []float32{0, -1} {
			o := DefaultOptions()
			o.Temperature = temperature
			if got := mustNew(t, o, len(c.logits)).Sample(c.logits); got != c.want {
				t.Errorf("temperature %v, logits %v: token %d, want %d", temperature, c.logits, got, c.want)
			}
		}
	}
}

// A temperature near zero must not overflow into ties: the limit is greedy.
func TestTinyTemperature(t *testing.T) {
	o := neutral()
	o.Temperature = math.SmallestNonzeroFloat32
	s := mustNew(t, o, 3)
	for range 100 {
		if got := s.Sample([]float32{1000, 1000.001, 999}); got != 1 {
			t.Fatalf("token %d, want 1", got)
		}
	}
}

func TestInfiniteLogitTakesAll(t *testing.T) {
	inf := float32(math.Inf(1))
	s := mustNew(t, DefaultOptions(), 5)
	for range 100 {
		if got := s.Sample([]float32{0, inf, 3, inf, float32(math.NaN())}); got != 1 && got != 3 {
			t.Fatalf("token %d, want 1 or 3", got)
		}
	}
}

func TestEverythingBanned(t *testing.T) {
	nan := float32(math.NaN())
	for _, temperature := range []float32{0, 0.8} {
		for _, k := range []int{0, 2, 40} {
			o := DefaultOptions()
			o.Temperature, o.TopK = temperature, k
			for _, logits := range [][]float32{{negInf, negInf, negInf}, {nan, nan, nan}, {nan, negInf, nan}} {
				if got := mustNew(t, o, 3).Sample(logits); got != 0 {
					t.Errorf("temperature %v, top-k %d, logits %v: token %d, want 0", temperature, k, logits, got)
				}
			}
		}
	}
}

func sequence(s *Sampler, logits []float32, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = s.Sample(logits)
		s.Accept(ids[i])
	}
	return ids
}

func TestSeedDeterminesTokens(t *testing.T) {
	rng := testenv.Rand(t)
	logits := make([]float32, 300)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64())
	}
	before := slices.Clone(logits)
	o := DefaultOptions()
	o.Seed, o.RepeatPenalty, o.RepeatLastN = 42, 1.2, 8
	a, b := mustNew(t, o, 300), mustNew(t, o, 300)
	first := sequence(a, logits, 200)
	if !slices.Equal(first, sequence(b, logits, 200)) {
		t.Error("the same seed gave different tokens")
	}
	clone := a.Clone(nil)
	if !slices.Equal(sequence(a, logits, 200), sequence(clone, logits, 200)) {
		t.Error("a clone went another way")
	}
	a.Reset()
	if !slices.Equal(first, sequence(a, logits, 200)) {
		t.Error("Reset did not start again")
	}
	o.Seed = 43
	if slices.Equal(first, sequence(mustNew(t, o, 300), logits, 200)) {
		t.Error("another seed gave the same tokens")
	}
	if !slices.Equal(before, logits) {
		t.Error("Sample changed its argument")
	}
	o.Seed = RandomSeed
	if x, y := mustNew(t, o, 300), mustNew(t, o, 300); x.Seed() == y.Seed() || x.Seed() == RandomSeed {
		t.Errorf("random seeds %d and %d", x.Seed(), y.Seed())
	}
}

func TestCloneSharesNothing(t *testing.T) {
	o := neutral()
	o.Temperature, o.RepeatLastN, o.PresencePenalty = 0, 4, 10
	s := mustNew(t, o, 3)
	c := s.Clone(nil)
	c.Accept(2)
	logits := []float32{0, 1, 2}
	if got := s.Sample(logits); got != 2 {
		t.Errorf("the clone's history reached the original: token %d, want 2", got)
	}
	if got := c.Sample(logits); got != 1 {
		t.Errorf("the clone did not penalise: token %d, want 1", got)
	}
}

func TestAcceptIgnoresForeignIDs(t *testing.T) {
	o := neutral()
	o.RepeatLastN, o.PresencePenalty = 4, 1
	s := mustNew(t, o, 3)
	for _, id := range []int32{-1, 3, math.MaxInt32, math.MinInt32} {
		s.Accept(id)
	}
	s.Sample([]float32{0, 1, 2})
}

func TestNewRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, set := range map[string]func(*Options){
		"temp":                  func(o *Options) { o.Temperature = nan },
		"top-p 1.5":             func(o *Options) { o.TopP = 1.5 },
		"top-p NaN":             func(o *Options) { o.TopP = nan },
		"min-p -0.1":            func(o *Options) { o.MinP = -0.1 },
		"repeat-last-n -1":      func(o *Options) { o.RepeatLastN = -1 },
		"repeat-penalty 0":      func(o *Options) { o.RepeatPenalty = 0 },
		"presence-penalty":      func(o *Options) { o.PresencePenalty = inf },
		"frequency-penalty":     func(o *Options) { o.FrequencyPenalty = nan },
		"dynatemp-range -1":     func(o *Options) { o.DynamicRange = -1 },
		"dynatemp-exp":          func(o *Options) { o.DynamicExponent = inf },
		"top-n-sigma":           func(o *Options) { o.TopNSigma = nan },
		"typical 2":             func(o *Options) { o.TypicalP = 2 },
		"xtc-probability 1.5":   func(o *Options) { o.XTC.Probability = 1.5 },
		"xtc-threshold":         func(o *Options) { o.XTC.Threshold = nan },
		"dry-multiplier -1":     func(o *Options) { o.DRY.Multiplier = -1 },
		"dry-base 0.5":          func(o *Options) { o.DRY.Base = 0.5 },
		"dry-allowed-length -1": func(o *Options) { o.DRY.AllowedLength = -1 },
		"dry-penalty-last-n -2": func(o *Options) { o.DRY.LastN = -2 },
		"mirostat 3":            func(o *Options) { o.Mirostat.Version = 3 },
		"mirostat-ent":          func(o *Options) { o.Mirostat.Tau = -1 },
		"mirostat-lr":           func(o *Options) { o.Mirostat.Eta = nan },
		"adaptive-target 2":     func(o *Options) { o.Adaptive.Target = 2 },
		"adaptive-decay 1":      func(o *Options) { o.Adaptive.Decay = 1 },
		`called "top_99"`:       func(o *Options) { o.Samplers = []string{"top_99"} },
		"token 10":              func(o *Options) { o.LogitBias = map[int32]float32{10: 1} },
		"token -1":              func(o *Options) { o.LogitBias = map[int32]float32{-1: 1} },
		"token 2":               func(o *Options) { o.LogitBias = map[int32]float32{2: nan} },
	} {
		o := DefaultOptions()
		set(&o)
		if _, err := New(o, 10); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := New(DefaultOptions(), 0); err == nil {
		t.Error("accepted an empty vocabulary")
	}
	o := DefaultOptions()
	o.RepeatLastN, o.RepeatPenalty = math.MaxInt, 1.1 // must not allocate as much
	s := mustNew(t, o, 10)
	sequence(s, make([]float32, 10), 1000)
}

// qwenVocab is the size of Qwen's output head, the largest of the families here.
const qwenVocab = 151_936

// settings are chains of different cost, over n tokens.
func settings(n int) map[string]Options {
	greedy, penalties, all := DefaultOptions(), DefaultOptions(), neutral()
	nucleus := neutral()
	greedy.Temperature = 0
	penalties.RepeatPenalty, penalties.LogitBias = 1.1, map[int32]float32{2: negInf}
	nucleus.TopP = 0.95
	many, feedback, likely := DefaultOptions(), DefaultOptions(), DefaultOptions()
	many.DRY.Multiplier, many.TopNSigma, many.TypicalP, many.XTC.Probability, many.DynamicRange = 1, 2, 0.9, 0.5, 0.3
	feedback.Mirostat.Version = 2
	likely.Samplers, likely.Adaptive.Target = []string{"min_p", "adaptive_p"}, 0.3
	return map[string]Options{"every stage": many, "mirostat": feedback, "adaptive": likely, "default": DefaultOptions(), "greedy": greedy, "penalties": penalties, "top-p only": nucleus, "off": all}
}

func headLogits(n int) []float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	return logits
}

func TestSampleDoesNotAllocate(t *testing.T) {
	logits := headLogits(5000)
	for name, o := range settings(len(logits)) {
		s := mustNew(t, o, len(logits))
		if n := testing.AllocsPerRun(200, func() { s.Accept(s.Sample(logits)) }); n != 0 {
			t.Errorf("%s: %v allocations a token", name, n)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	logits := headLogits(qwenVocab)
	for name, o := range settings(len(logits)) {
		b.Run(name, func(b *testing.B) {
			s := mustNew(b, o, len(logits))
			b.ReportAllocs()
			for b.Loop() {
				s.Accept(s.Sample(logits))
			}
		})
	}
}
