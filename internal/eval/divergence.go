package eval

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// KLDivergence measures how far a model's predictions are from those saved in Base, by llama.cpp's method, so that
// figures can be compared.
type KLDivergence struct {
	Base   *Base // just opened; its rows are read in order. The engine's context must hold Base.Context tokens
	Chunks int   // at most this many; negative: all
	BOS    int32 // replaces each chunk's first token; -1: none
	// Expect, if set, is called before the first chunk with the number of chunks and their expected time, unless the
	// text is short.
	Expect func(chunks int, whole time.Duration)
	// Chunk, if set, gets the running figures after each chunk, without percentiles.
	Chunk func(done, total int, d Divergence)
}

// Figure is a mean with its standard error.
type Figure struct{ Value, Error float64 }

// Divergence compares the evaluated model Q with the base model P, token by token. Probabilities are 0…1, not percent.
type Divergence struct {
	Count       int    // predicted tokens
	PPL         Figure // of Q
	BasePPL     Figure // of P
	Correlation float64
	LogRatio    Figure // ln(PPL(Q)/PPL(P))
	Ratio       Figure // PPL(Q)/PPL(P)
	Difference  Figure // PPL(Q)−PPL(P)
	KLD         Figure // Σ_v P(v)·ln(P(v)/Q(v)), nats per token
	DeltaP      Figure // Q−P of the token that follows in the text
	RMSDeltaP   Figure // root of the mean square of the same
	SameTop     Figure // share of predictions with the same most likely token
	// Sorted, ascending, for percentiles; nil while running. [Count]
	KLDs, DeltaPs []float32
	Chunks        []Document // [chunks] in the text's order; nil while running
}

// Run evaluates k. It holds two numbers for each prediction; the base file is streamed.
func (k *KLDivergence) Run(ctx context.Context, e *engine.Engine) (Divergence, error) {
	b := k.Base
	if v := e.Config().Vocab; b.Vocab != v {
		return Divergence{}, fmt.Errorf("%s: saved by a model with a vocabulary of %d, not this one's %d", b.Path, b.Vocab, v)
	}
	if b.Context > e.Context() {
		return Divergence{}, setting.Errorf("%s: saved at a context of %d tokens, more than the %d given; use %s", b.Path, b.Context, e.Context(), setting.Context.To(b.Context))
	}
	count := b.Chunks
	if k.Chunks >= 0 {
		count = min(count, k.Chunks)
	}
	if count == 0 {
		return Divergence{}, errNoChunk
	}
	if err := foretell(e, b.Tokens[:b.Context], k.BOS, b.Context/2, count, k.Expect); err != nil {
		return Divergence{}, err
	}
	var sums divergenceSums
	var chunks []Document
	base := make([]float32, b.Vocab)
	for c := range count {
		if err := ctx.Err(); err != nil {
			return Divergence{}, err
		}
		var rowErr error
		err := evaluateChunk(e, b.Tokens[c*b.Context:][:b.Context], k.BOS, b.Context/2, func(logits []float32, next int32) {
			if rowErr == nil {
				rowErr = b.next(base)
			}
			if rowErr == nil && !sums.add(logits, base, int(next)) {
				rowErr = e.ErrNotFinite()
			}
		})
		if err == nil {
			err = rowErr
		}
		if err != nil {
			return Divergence{}, err
		}
		chunks = append(chunks, sums.since(chunks))
		if k.Chunk != nil {
			k.Chunk(c+1, count, sums.figures())
		}
	}
	d := sums.figures()
	d.Chunks = chunks
	slices.Sort(sums.klds)
	slices.Sort(sums.deltas)
	d.KLDs, d.DeltaPs = sums.klds, sums.deltas
	return d, nil
}

// moments are the sums of a quantity and of its square.
type moments struct{ sum, square float64 }

func (m *moments) add(v float64) { m.sum += v; m.square += v * v }

func (m moments) mean(n int) float64 { return m.sum / float64(n) }

// figure returns the mean over n and its standard error; llama.cpp gives one from 11 values on.
func (m moments) figure(n int) Figure {
	f := Figure{Value: m.mean(n)}
	if variance := m.square/float64(n) - f.Value*f.Value; variance > 0 && n > 10 {
		f.Error = math.Sqrt(variance / float64(n-1))
	}
	return f
}

// divergenceSums accumulates over predictions.
type divergenceSums struct {
	nll, baseNLL moments // −ln Q, −ln P of the token that follows
	product      float64 // Σ of the two
	kld          moments
	delta        moments // Q−P of the token that follows
	deltaSquare  moments // (Q−P)²
	sameTop      int
	klds, deltas []float32 // in the text's order
}

// since returns the part after the earlier chunks.
func (s *divergenceSums) since(before []Document) Document {
	d := Document{Count: len(s.klds)}
	same := float64(s.sameTop)
	for _, b := range before {
		d.Count -= b.Count
		same -= b.SameTop * float64(b.Count)
	}
	for _, v := range s.klds[len(s.klds)-d.Count:] {
		d.KLD += float64(v) / float64(d.Count)
	}
	d.SameTop = same / float64(d.Count)
	return d
}

// leastLog is the log-probability below which the base's tokens are left out of the divergence, because they are stored
// too coarsely.
const leastLog = -floor

// add compares one prediction: logits of Q and log-probabilities of P [n_vocab]; next is the token that follows. It
// reports whether the logits are numbers.
func (s *divergenceSums) add(logits, base []float32, next int) bool {
	z := logSumExp(logits)
	kld, top, baseTop := 0.0, 0, 0
	for i, p := range base {
		if logits[i] > logits[top] {
			top = i
		}
		if p > base[baseTop] {
			baseTop = i
		}
		if p > leastLog {
			kld += math.Exp(float64(p)) * (float64(p) - float64(logits[i]) + z)
		}
	}
	nll, baseNLL := z-float64(logits[next]), -float64(base[next])
	delta := math.Exp(-nll) - math.Exp(-baseNLL)
	s.nll.add(nll)
	s.baseNLL.add(baseNLL)
	s.product += nll * baseNLL
	s.kld.add(kld)
	s.delta.add(delta)
	s.deltaSquare.add(delta * delta)
	if top == baseTop {
		s.sameTop++
	}
	s.klds = append(s.klds, float32(kld))
	s.deltas = append(s.deltas, float32(delta))
	return nll-nll == 0
}

// figures are everything but the percentiles. Errors of derived figures are propagated to first order.
func (s *divergenceSums) figures() Divergence {
	n := len(s.klds)
	d := Divergence{Count: n, KLD: s.kld.figure(n), DeltaP: s.delta.figure(n)}
	q, p := s.nll.figure(n), s.baseNLL.figure(n)
	d.PPL = exponential(q)
	d.BasePPL = exponential(p)
	covariance := 0.0 // of the two means
	if n >= 10 {
		covariance = (s.product/float64(n) - q.Value*p.Value) / float64(n-1)
	}
	if q.Error > 0 && p.Error > 0 {
		d.Correlation = covariance / (q.Error * p.Error)
	}
	difference := func(a, b, covariance float64) float64 { return math.Sqrt(max(0, a*a+b*b-2*covariance)) }
	d.LogRatio = Figure{q.Value - p.Value, difference(q.Error, p.Error, covariance)}
	d.Ratio = exponential(d.LogRatio)
	d.Difference = Figure{d.PPL.Value - d.BasePPL.Value, difference(d.PPL.Error, d.BasePPL.Error, d.PPL.Value*d.BasePPL.Value*covariance)}
	square := s.deltaSquare.figure(n)
	d.RMSDeltaP.Value = math.Sqrt(square.Value)
	if square.Value > 0 {
		d.RMSDeltaP.Error = 0.5 / d.RMSDeltaP.Value * square.Error
	}
	d.SameTop.Value = float64(s.sameTop) / float64(n)
	if n > 1 {
		d.SameTop.Error = math.Sqrt(d.SameTop.Value * (1 - d.SameTop.Value) / float64(n-1))
	}
	return d
}

func exponential(f Figure) Figure {
	e := math.Exp(f.Value)
	return Figure{e, e * f.Error}
}

// Percentile interpolates linearly in sorted values; fraction is 0…1.
func Percentile(sorted []float32, fraction float64) float64 {
	at := min(max(fraction, 0), 1) * float64(len(sorted)-1)
	i := int(at)
	rest := at - float64(i)
	return (1-rest)*float64(sorted[i]) + rest*float64(sorted[min(i+1, len(sorted)-1)])
}

// DivergenceHeader heads the lines that Divergence.Line makes.
const DivergenceHeader = "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS            Same top p"

// Line returns the running figures after a chunk, in llama.cpp's layout.
func (d Divergence) Line(chunk int) string {
	return fmt.Sprintf("%4d    %9.4f ± %9.4f    %10.5f ± %10.5f    %10.5f ± %10.5f    %6.3f ± %6.3f %%    %6.3f ± %6.3f %%", chunk,
		d.PPL.Value, d.PPL.Error, d.LogRatio.Value, d.LogRatio.Error, d.KLD.Value, d.KLD.Error,
		100*d.RMSDeltaP.Value, 100*d.RMSDeltaP.Error, 100*d.SameTop.Value, 100*d.SameTop.Error)
}

// Report writes the closing figures in llama.cpp's layout, for programs that read its output.
func (d Divergence) Report(w io.Writer) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	figure := func(name string, f Figure) { line("%-30s: %10.6f ± %10.6f", name, f.Value, f.Error) }
	line("====== Perplexity statistics ======")
	figure("Mean PPL(Q)", d.PPL)
	figure("Mean PPL(base)", d.BasePPL)
	line("Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%", 100*d.Correlation)
	figure("Mean ln(PPL(Q)/PPL(base))", d.LogRatio)
	figure("Mean PPL(Q)/PPL(base)", d.Ratio)
	figure("Mean PPL(Q)-PPL(base)", d.Difference)

	line("\n====== KL divergence statistics ======")
	line("Mean    KLD: %10.6f ± %10.6f", d.KLD.Value, d.KLD.Error)
	for _, p := range []struct {
		name     string
		fraction float64
	}{
		{"Maximum", 1},
		{"99.9%  ", 0.999},
		{"99.0%  ", 0.99},
		{"95.0%  ", 0.95},
		{"90.0%  ", 0.9},
		{"Median ", 0.5},
		{"10.0%  ", 0.1},
		{" 5.0%  ", 0.05},
		{" 1.0%  ", 0.01},
		{" 0.1%  ", 0.001},
		{"Minimum", 0},
	} {
		line("%s KLD: %10.6f", p.name, Percentile(d.KLDs, p.fraction))
	}

	line("\n====== Token probability statistics ======")
	line("Mean    Δp: %6.3f ± %5.3f %%", 100*d.DeltaP.Value, 100*d.DeltaP.Error)
	for _, p := range []struct {
		name     string
		fraction float64
	}{
		{"Maximum", 1},
		{"99.9%  ", 0.999},
		{"99.0%  ", 0.99},
		{"95.0%  ", 0.95},
		{"90.0%  ", 0.9},
		{"75.0%  ", 0.75},
		{"Median ", 0.5},
		{"25.0%  ", 0.25},
		{"10.0%  ", 0.1},
		{" 5.0%  ", 0.05},
		{" 1.0%  ", 0.01},
		{" 0.1%  ", 0.001},
		{"Minimum", 0},
	} {
		line("%s Δp: %6.3f%%", p.name, 100*Percentile(d.DeltaPs, p.fraction))
	}
	line("RMS Δp    : %6.3f ± %5.3f %%", 100*d.RMSDeltaP.Value, 100*d.RMSDeltaP.Error)
	line("Same top p: %6.3f ± %5.3f %%", 100*d.SameTop.Value, 100*d.SameTop.Error)
	return err
}
