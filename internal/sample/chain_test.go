package sample

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// reference is the chain from the stages' definitions, in float64, by full sorts.
type reference struct {
	o   Options
	ids []int     // still in the running
	l   []float64 // [n_vocab]
}

func (r *reference) rank() {
	sort.SliceStable(r.ids, func(a, b int) bool {
		x, y := r.l[r.ids[a]], r.l[r.ids[b]]
		return x > y || x == y && r.ids[a] < r.ids[b]
	})
}

// probabilities returns the probabilities of ids, after it ranks ids.
func (r *reference) probabilities() []float64 {
	r.rank()
	p := make([]float64, len(r.ids))
	var sum float64
	for i, id := range r.ids {
		p[i] = 1
		if r.l[id] != r.l[r.ids[0]] {
			p[i] = math.Exp(r.l[id] - r.l[r.ids[0]])
		}
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// entropyOf returns the entropy of p in nats.
func entropyOf(p []float64) (h float64) {
	for _, x := range p {
		if x > 0 {
			h -= x * math.Log(x)
		}
	}
	return h
}

// nucleus keeps the first tokens of an order until their probabilities reach share.
func (r *reference) nucleus(p []float64, order []int, share float64) {
	var kept []int
	var sum float64
	for _, i := range order {
		kept = append(kept, r.ids[i])
		if sum += p[i]; sum >= share {
			break
		}
	}
	r.ids = kept
}

func upTo(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// longestRepeat returns the length of the longest end of accepted, without a break, that came before followed by id.
func longestRepeat(accepted []int32, id int32, text func(int32) []byte, breakers []string) int {
	best := -1
	for i := 1; i < len(accepted); i++ {
		if accepted[i] != id {
			continue
		}
		n := 0
		for n < i && accepted[i-1-n] == accepted[len(accepted)-1-n] {
			n++
		}
		best = max(best, n)
	}
	// A break is at a breaker's last byte in a token; only the text after that token counts.
	for n := range min(best, len(accepted)) {
		before := accepted[:len(accepted)-n]
		var whole, without []byte
		for i, a := range before {
			if i < len(before)-1 {
				without = append(without, text(a)...)
			}
			whole = append(whole, text(a)...)
		}
		for _, b := range breakers {
			if bytes.Count(whole, []byte(b)) > bytes.Count(without, []byte(b)) {
				return n
			}
		}
	}
	return best
}

func (r *reference) apply(g Stage, accepted []int32) {
	o := &r.o
	switch g {
	case Penalties:
		window := accepted[max(0, len(accepted)-o.RepeatLastN):]
		for id := range r.l {
			n := 0
			for _, a := range window {
				if int(a) == id {
					n++
				}
			}
			if n == 0 || o.RepeatPenalty == 1 && o.PresencePenalty == 0 && o.FrequencyPenalty == 0 {
				continue
			}
			l := float32(r.l[id]) // penalties are defined in float32, so that cuts at a threshold fall on the same side
			if l <= 0 {
				l *= o.RepeatPenalty
			} else {
				l /= o.RepeatPenalty
			}
			l -= float32(float32(n) * o.FrequencyPenalty)
			r.l[id] = float64(l - o.PresencePenalty)
		}
	case DRYStage:
		window := accepted[max(0, len(accepted)-o.DRY.LastN):]
		for id := range r.l {
			if o.DRY.Multiplier == 0 || slices.ContainsFunc(testBreakers, func(b string) bool { return bytes.Contains(letters(int32(id)), []byte(b)) }) {
				continue
			}
			if n := longestRepeat(window, int32(id), letters, testBreakers); n >= o.DRY.AllowedLength {
				penalty := float64(o.DRY.Multiplier) * math.Pow(float64(o.DRY.Base), float64(n-o.DRY.AllowedLength))
				r.l[id] = float64(float32(r.l[id]) - float32(penalty))
			}
		}
	case TopNSigma:
		if o.TopNSigma <= 0 {
			return
		}
		var valid []float64
		for _, id := range r.ids {
			if !math.IsInf(r.l[id], 0) {
				valid = append(valid, r.l[id])
			}
		}
		var mean, variance float64
		for _, l := range valid {
			mean += l / float64(len(valid))
		}
		for _, l := range valid {
			variance += (l - mean) * (l - mean) / float64(len(valid))
		}
		floor := slices.Max(valid) - float64(o.TopNSigma)*math.Sqrt(variance)
		r.ids = slices.DeleteFunc(r.ids, func(id int) bool { return r.l[id] < floor })
	case TopK:
		r.rank()
		if o.TopK > 0 {
			r.ids = r.ids[:min(o.TopK, len(r.ids))]
		}
	case Typical:
		if o.TypicalP >= 1 {
			return
		}
		p := r.probabilities()
		h, order := entropyOf(p), upTo(len(p))
		away := func(i int) float64 { return math.Abs(-math.Log(p[i]) - h) }
		sort.SliceStable(order, func(a, b int) bool { return away(order[a]) < away(order[b]) })
		r.nucleus(p, order, float64(o.TypicalP))
	case TopP:
		if p := r.probabilities(); o.TopP < 1 {
			r.nucleus(p, upTo(len(p)), float64(o.TopP))
		}
	case MinP:
		p := r.probabilities()
		n := sort.Search(len(p), func(i int) bool { return p[i] < float64(o.MinP)*p[0] })
		r.ids = r.ids[:n]
	case XTCStage: // at a probability of 0 or 1
		p := r.probabilities()
		n := sort.Search(len(p), func(i int) bool { return p[i] < float64(o.XTC.Threshold) })
		if o.XTC.Probability == 1 && n > 1 {
			r.ids = r.ids[n-1:]
		}
	case Temperature:
		p := r.probabilities()
		t := float64(o.Temperature)
		if o.DynamicRange > 0 {
			valid := 0
			for _, x := range p {
				if x > 0 {
					valid++
				}
			}
			if valid < 2 {
				return
			}
			share := entropyOf(p) / math.Log(float64(valid))
			d := float64(o.DynamicRange)
			t = max(0, t-d) + (t+d-max(0, t-d))*math.Pow(min(1, share), float64(o.DynamicExponent))
		}
		if t <= 0 {
			r.ids = r.ids[:1]
			return
		}
		for i := range r.l {
			r.l[i] /= t
		}
	}
}

// distribution returns the probability of each token by the chain's definition.
func distribution(o Options, logits []float32, accepted []int32) []float64 {
	r := &reference{o: o, ids: upTo(len(logits)), l: make([]float64, len(logits))}
	for i, v := range logits {
		if r.l[i] = float64(v + o.LogitBias[int32(i)]); math.IsNaN(r.l[i]) {
			r.l[i] = math.Inf(-1)
		}
	}
	chain, _ := o.chain()
	for _, g := range chain {
		r.apply(g, accepted)
	}
	out := make([]float64, len(logits))
	for i, p := range r.probabilities() {
		out[r.ids[i]] = p
	}
	return out
}

// probabilities returns what s would draw from: its own stages, without the draw.
func probabilities(s *Sampler, logits []float32) []float64 {
	out := make([]float64, len(logits))
	s.narrow(logits)
	p := &s.pool
	if s.choice == takesBest {
		out[p.best()] = 1
		return out
	}
	p.fill(0)
	sum := p.weigh()
	for _, x := range p.c {
		out[x.id] = x.weight / sum
	}
	return out
}

// testBreakers are within a token, and across two.
var testBreakers = []string{"c", "fgh"}

// letters returns the texts of a vocabulary: a to z over and over. Every third text also has the letter after it.
func letters(id int32) []byte {
	text := []byte{byte('a' + id%26)}
	if id%3 == 0 {
		text = append(text, byte('a'+(id+1)%26))
	}
	return text
}

const (
	// probabilityTolerance covers sums of at most 200 float64 terms in another order.
	probabilityTolerance = 1e-12
	// settledTolerance covers logits that were rounded to float32 after a temperature divided them.
	settledTolerance = 1e-4
)

func randomLogits(rng *rand.Rand, n int) []float32 {
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
		if rng.IntN(4) == 0 {
			logits[i] = float32(math.Round(float64(logits[i]))) // ties
		}
		if rng.IntN(50) == 0 {
			logits[i] = float32(math.NaN())
		}
	}
	logits[rng.IntN(n)] = 1
	return logits
}

func randomOptions(rng *rand.Rand, n int) Options {
	pick := func(values ...float32) float32 { return values[rng.IntN(len(values))] }
	o := Options{
		Samplers: names(defaultChain), Temperature: pick(0, 0.5, 0.8, 1, 2), TopK: []int{-1, 0, 1, 5, 40, n}[rng.IntN(6)], TopP: pick(0, 0.3, 0.95, 1),
		MinP: pick(0, 0.05, 0.5, 1), RepeatLastN: []int{0, 1, 8, 64}[rng.IntN(4)], RepeatPenalty: pick(1, 1.3, 0.7),
		PresencePenalty: pick(0, 0.5, -0.5), FrequencyPenalty: pick(0, 0.25, -0.25),
		DynamicRange: pick(0, 0, 0.3, 1), DynamicExponent: pick(1, 0.5, 2), TopNSigma: pick(-1, 0, 0.7, 2.1), TypicalP: pick(1, 1, 0.9, 0.35),
		XTC: XTC{pick(0, 1), pick(0.1, 0.03, 0.6)},
		DRY: DRY{pick(0, 0.8), pick(1, 1.75), 1 + rng.IntN(3), []int{0, 5, 64}[rng.IntN(3)], testBreakers},
	}
	if rng.IntN(2) == 0 {
		o.LogitBias = map[int32]float32{int32(rng.IntN(n)): 2.5, int32(rng.IntN(n)): negInf}
	}
	return o
}

// repeating returns up to 100 tokens in which sequences come again.
func repeating(rng *rand.Rand, n int) []int32 {
	ids := make([]int32, rng.IntN(100))
	for i := range ids {
		ids[i] = int32(rng.IntN(min(n, 12)))
		if i > 6 && rng.IntN(3) > 0 {
			ids[i] = ids[i-6]
		}
	}
	return ids
}

func TestStagesMatchDefinitions(t *testing.T) {
	rng := testenv.Rand(t)
	for round := range 3000 {
		n := 1 + rng.IntN(200)
		logits, o, tolerance := randomLogits(rng, n), randomOptions(rng, n), probabilityTolerance
		if round%2 == 1 {
			rng.Shuffle(len(o.Samplers), func(a, b int) { o.Samplers[a], o.Samplers[b] = o.Samplers[b], o.Samplers[a] })
			hot := slices.Index(o.Samplers, "temperature")
			if hot < slices.Index(o.Samplers, "dry") || hot < slices.Index(o.Samplers, "penalties") {
				tolerance = settledTolerance
			}
		}
		if allBanned(o, logits) {
			continue
		}
		s, accepted := mustNew(t, o, n), repeating(rng, n)
		for _, id := range accepted {
			s.Accept(id)
		}
		want, got := distribution(o, logits, accepted), probabilities(s, logits)
		for id := range want {
			if !(math.Abs(got[id]-want[id]) <= tolerance) {
				t.Fatalf("n %d, options %+v, accepted %v: token %d has probability %v, want %v", n, o, accepted, id, got[id], want[id])
			}
		}
		if id := s.Sample(logits); want[id] == 0 {
			t.Fatalf("options %+v: drew token %d, whose probability is 0", o, id)
		}
	}
}

// allBanned reports whether nothing is left, which the definition does not cover (TestEverythingBanned does).
func allBanned(o Options, logits []float32) bool {
	for id, l := range logits {
		if b := o.LogitBias[int32(id)]; l == l && b != negInf {
			return false
		}
	}
	return true
}

// TestDRYByHand follows the example of the technique's description: the longest repetition decides, a breaker ends it.
func TestDRYByHand(t *testing.T) {
	const a, b, c, d = 0, 1, 2, 3
	text := func(id int32) []byte { return []byte{"wxyz"[id]} }
	for _, test := range []struct {
		name     string
		breakers []string
		accepted []int32
		want     [4]float64 // penalties: 1 * 2^(length - 2)
	}{
		{"too short", nil, []int32{a, b, a}, [4]float64{}},
		{"two tokens", nil, []int32{a, b, c, d, a, b}, [4]float64{c: 1}},
		{"three tokens", nil, []int32{a, b, c, d, a, b, c}, [4]float64{d: 2}},
		{"the longer of two", nil, []int32{b, c, d, a, b, c, d, d, b, c}, [4]float64{d: 1}},
		{"overlapping", nil, []int32{a, a, a, a}, [4]float64{a: 2}},
		{"breaker within", []string{"x"}, []int32{a, b, c, d, a, b, c}, [4]float64{}},
		{"breaker before", []string{"z"}, []int32{a, b, c, d, a, b, c}, [4]float64{}},
		{"breaker across tokens", []string{"wx"}, []int32{a, b, c, d, d, a, b, c, d}, [4]float64{d: 1}},
		{"breaker itself", []string{"y"}, []int32{a, b, c, d, a, b}, [4]float64{}},
	} {
		o := neutral()
		o.DRY.Multiplier, o.DRY.Base = 1, 2
		s := mustNew(t, o, 4)
		s.BreakAt(NewBreakers(test.breakers, 4, text))
		for _, id := range test.accepted {
			s.Accept(id)
		}
		s.narrow(make([]float32, 4))
		for id, want := range test.want {
			if got := -float64(s.pool.logits[id]); got != want {
				t.Errorf("%s: token %d is penalised by %v, want %v", test.name, id, got, want)
			}
		}
	}
}

// TestDRYIsBounded checks that a repetition of any length leaves finite logits.
func TestDRYIsBounded(t *testing.T) {
	o := neutral()
	o.DRY.Multiplier, o.DRY.Base, o.DRY.LastN = 100, 1e30, 1000
	s := mustNew(t, o, 2)
	for range 1000 {
		s.Accept(0)
	}
	if s.narrow([]float32{9, -9}); s.pool.logits[0] < -math.MaxFloat32 {
		t.Errorf("logit %v", s.pool.logits[0])
	}
}

func TestXTCComesByChance(t *testing.T) {
	o := neutral()
	o.XTC.Probability, o.Seed = 0.3, testenv.Rand(t).Uint64()
	s := mustNew(t, o, 3)
	const rounds = 20_000
	excluded := 0
	for range rounds {
		if probabilities(s, []float32{0, 1, -9})[1] == 0 {
			excluded++
		}
	}
	// Seven standard deviations of the binomial distribution: one seed in 1e11 fails.
	if want := 0.3 * rounds; math.Abs(float64(excluded)-want) > 7*math.Sqrt(want*0.7) {
		t.Errorf("the likeliest token was left out %d times, want about %v", excluded, want)
	}
}

// softmax returns the probabilities of logits divided by t.
func softmax(logits []float32, t float64) []float64 {
	p := make([]float64, len(logits))
	var sum float64
	for i, l := range logits {
		p[i] = math.Exp(float64(l) / t)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// TestMirostatKeepsAsPublished runs the feedback by its definition in parallel to the sampler, and checks that the
// drawn tokens are within the cut.
func TestMirostatKeepsAsPublished(t *testing.T) {
	rng := testenv.Rand(t)
	for version := 1; version <= 2; version++ {
		const n, tau, eta = 400, 3., 0.1
		o := DefaultOptions()
		o.Mirostat.Version, o.Mirostat.Tau, o.Temperature = version, tau, 0.9
		s, mu := mustNew(t, o, n), 2*tau
		var average float64
		const rounds, settling = 3000, 500
		for round := range rounds {
			logits := make([]float32, n)
			for i := range logits {
				logits[i] = float32(-1.1*math.Log(float64(i+1)) + 0.2*rng.NormFloat64()) // Zipf's law, nearly
			}
			p := softmax(logits, float64(o.Temperature))
			id := s.Sample(logits)
			rank := 0
			for _, x := range p {
				if x > p[id] {
					rank++
				}
			}
			if version == 2 && rank > 0 && -math.Log2(p[id]) > mu+1e-9 {
				t.Fatalf("drew a surprise of %v bits, the limit is %v", -math.Log2(p[id]), mu)
			}
			if version == 1 && rank >= zipfLimit(p, mu) {
				t.Fatalf("drew the token of rank %d, the limit is %d", rank, zipfLimit(p, mu))
			}
			s.Accept(id)
			mu -= float64(o.Mirostat.Eta) * (-math.Log2(p[id]) - tau)
			if math.Abs(s.feedback.limit-mu) > 1e-6 { // of thousands of additions
				t.Fatalf("the limit is %v, want %v", s.feedback.limit, mu)
			}
			if round >= settling {
				average += -math.Log2(p[id]) / (rounds - settling)
			}
		}
		// mu moves by eta times the sum of the errors, so that their average is at most its range (here 8 bits) over
		// eta and rounds.
		if limit := 8 / (eta * (rounds - settling)); math.Abs(average-tau) > limit {
			t.Errorf("mirostat %d: the average surprise is %v bits, want %v", version, average, tau)
		}
	}
}

// zipfLimit returns the number of tokens that version 1 keeps.
func zipfLimit(p []float64, mu float64) int {
	p = slices.Clone(p)
	slices.SortFunc(p, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	var tb, tt float64
	for i := 0; i < 99 && i+1 < len(p); i++ {
		x := math.Log(float64(i+2) / float64(i+1))
		tb += x * math.Log(p[i]/p[i+1])
		tt += x * x
	}
	s := tb / tt
	e := s - 1
	return max(1, int(math.Pow(e*math.Pow(2, mu)/(1-math.Pow(float64(len(p)), -e)), 1/s)))
}

// TestMirostatTakesAnyLogits checks that no distribution is too narrow, flat or short for it.
func TestMirostatTakesAnyLogits(t *testing.T) {
	for version := 1; version <= 2; version++ {
		o := DefaultOptions()
		o.Mirostat.Version, o.Mirostat.Tau = version, 0
		for _, logits := range [][]float32{{1}, {3, 3, 3}, {9, negInf, negInf}, {1e30, -1e30, 0}, {0, float32(math.Inf(1))}} {
			s := mustNew(t, o, len(logits))
			for range 50 {
				id := s.Sample(logits)
				if logits[id] == negInf {
					t.Errorf("version %d, logits %v: drew a banned token", version, logits)
				}
				s.Accept(id)
			}
		}
	}
}

func TestAdaptiveDrawsNearTheTarget(t *testing.T) {
	rng := testenv.Rand(t)
	o := neutral()
	o.Samplers, o.Adaptive.Target, o.Adaptive.Decay, o.Seed = []string{"adaptive_p", "temperature"}, 0.3, 0.9, rng.Uint64()
	logits := []float32{2, 1.5, 1, 0, -1, -2, negInf, -3}
	p := softmax(logits, 1)
	s := mustNew(t, o, len(logits))
	// The definition, without feedback: the first draw of samplers of many seeds.
	weights, total := make([]float64, len(p)), 0.
	for i := range p {
		if d := math.Abs(p[i]-0.3) / 0.3; p[i] > 0 {
			weights[i] = math.Exp(5 - 10*d*d/(1+d))
		}
		total += weights[i]
	}
	const draws = 20_000
	seen := make([]float64, len(p))
	for range draws {
		seen[s.Sample(logits)]++ // none is accepted
	}
	for i := range p {
		want := draws * weights[i] / total
		if math.Abs(seen[i]-want) > 7*math.Sqrt(want)+5 { // seven standard deviations and some for small expectations: one seed in 1e11 fails
			t.Errorf("token %d was drawn %v times, want about %v", i, seen[i], want)
		}
	}
	// The feedback.
	sum, weight := float64(o.Adaptive.Target)/(1-float64(o.Adaptive.Decay)), 1/(1-float64(o.Adaptive.Decay))
	for range 200 {
		id := s.Sample(logits)
		s.Accept(id)
		sum, weight = p[id]+float64(o.Adaptive.Decay)*sum, 1+float64(o.Adaptive.Decay)*weight
		s.Accept(1) // not chosen: nothing is learned
	}
	if got, want := s.feedback.sum/s.feedback.weight, sum/weight; math.Abs(got-want) > 1e-9 {
		t.Errorf("the average is %v, want %v", got, want)
	}
}

func TestChainNames(t *testing.T) {
	for names, want := range map[string]string{
		"penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature": "edskypmxt",
		"Top-K;topk;nucleus;TEMP;typ;adaptive-p":                            "kkptya",
	} {
		list, err := ParseSamplers(names)
		again, err2 := ParseLetters(want)
		if err != nil || err2 != nil || !slices.Equal(again, list) {
			t.Errorf("%s: %v, %v; %s: %v, %v", names, list, err, want, again, err2)
		}
	}
	for names, want := range map[string]string{"top_k;topq": `"topq"`, "": `called ""`, "infill": "infill is not supported"} {
		if _, err := ParseSamplers(names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", names, err)
		}
	}
	for letters, want := range map[string]string{"kz": "'z'", "i": "infill"} {
		if _, err := ParseLetters(letters); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", letters, err)
		}
	}
}

// TestClonesGoOn checks that a clone of every chain continues like its original.
func TestClonesGoOn(t *testing.T) {
	logits := headLogits(300)
	for name, o := range settings(len(logits)) {
		s := mustNew(t, o, len(logits))
		sequence(s, logits, 50)
		c := s.Clone(nil)
		if want := sequence(s.Clone(nil), logits, 100); !slices.Equal(sequence(s, logits, 100), want) || !slices.Equal(sequence(c, logits, 100), want) {
			t.Errorf("%s: a clone went another way", name)
		}
	}
}

// only is a constraint to one token.
type only struct{ id int32 }

func (o only) Apply(logits []float32) error {
	for i := range logits {
		if int32(i) != o.id {
			logits[i] = negInf
		}
	}
	return nil
}

func (only) Accept(int32) error { return nil }
func (only) Done() bool         { return false }

func TestCloneIsConstrainedByItsOwn(t *testing.T) {
	s := mustNew(t, DefaultOptions(), 4)
	s.Constrain(only{1})
	logits := []float32{3, 0, 0, 0}
	if got := s.Clone(only{2}).Sample(logits); got != 2 {
		t.Errorf("the clone drew %d, want 2", got)
	}
	if got := s.Sample(logits); got != 1 {
		t.Errorf("the original drew %d, want 1", got)
	}
}
