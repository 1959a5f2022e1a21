package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Experts of SmallThinker's shape that a benchmark computes, each token other ones.
const (
	benchEmbd, benchFF            = 2560, 768
	benchUsed, benchCount         = 6, 64
	undisturbed                   = 5 // one in so many steps is taken to have the machine to itself
	rootOfEmbd            float64 = 50.6
)

// benchExperts are experts of one layer, on a device of their own.
type benchExperts struct {
	d       *Device
	w       compute.ExpertWeights
	x, out  compute.Tensor
	logits  compute.Tensor
	choice  compute.Choice
	turn    int
	seconds []float64
}

func newBenchExperts(b *testing.B, typ quant.Type, kind compute.Nonlinearity, open float64, threads int, exact bool) *benchExperts {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	normal := func(n int, scale, mean float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(scale*random.NormFloat64() + mean)
		}
		return x
	}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	d, err := New(Options{Threads: threads})
	check(err)
	b.Cleanup(func() { d.Close() })
	matrix := func(rows, cols int, use compute.Use, stack int) *compute.Matrix {
		one := make([]byte, rows*typ.RowBytes(cols))
		quant.Encode(typ, one, normal(rows*cols, 1/rootOfEmbd, 0))
		if !exact {
			use, stack = compute.Dense, 0
		}
		m, err := d.Matrix(compute.Source{Name: "experts", Type: typ, Rows: benchCount * rows, Cols: cols, Data: slices.Repeat(one, benchCount), Stack: stack}, use)
		check(err)
		return m
	}
	data := make([]byte, 4*benchCount*benchFF)
	quant.Encode(quant.F32, data, normal(benchCount*benchFF, 0, quantile(open)))
	bias, err := d.Vector(compute.Source{Name: "bias", Type: quant.F32, Rows: 1, Cols: benchCount * benchFF, Data: data})
	check(err)
	e := &benchExperts{d: d, w: compute.ExpertWeights{Act: compute.Activation{Kind: kind}, Exact: exact, Count: &compute.NeuronCount{}}}
	if kind == compute.ReLU2 {
		e.w.UpBias = bias
	} else {
		e.w.Gate, e.w.GateBias = matrix(benchFF, benchEmbd, compute.Rows, 0), bias
	}
	e.w.Up, e.w.Down = matrix(benchFF, benchEmbd, compute.Rows, 0), matrix(benchEmbd, benchFF, compute.Columns, benchCount)
	d.Tune()
	for t, cols := range map[*compute.Tensor]int{&e.x: benchEmbd, &e.out: benchEmbd, &e.logits: benchCount} {
		*t, err = d.Tensor(1, cols)
		check(err)
	}
	e.choice, err = d.Choice(1, benchUsed, benchCount)
	check(err)
	copy(d.Data(e.x), normal(benchEmbd, 1, 0))
	return e
}

// step computes a token's experts.
func (e *benchExperts) step() error {
	for i := range benchCount {
		e.d.Data(e.logits)[i] = float32((i + e.turn) % benchCount)
	}
	e.turn += benchUsed
	p := compute.Params{Decode: 1, Tokens: []int32{0}}
	return e.d.Run(compute.Segment{Rows: 1, Decode: 1}, &p, func(v compute.Verbs) {
		v.Route(e.choice, e.logits, nil, nil, compute.Routing{Score: compute.Softmax, Scale: 1})
		begun := monotime.Now()
		v.Experts(e.out, e.x, e.choice, e.w)
		e.seconds = append(e.seconds, monotime.Since(begun).Seconds())
	})
}

// quick returns the time of steps that little else disturbed.
func (e *benchExperts) quick() float64 {
	slices.Sort(e.seconds)
	return e.seconds[len(e.seconds)/undisturbed]
}

// quantile returns what is added to normal numbers so that a share of them is above zero.
func quantile(share float64) float64 { return math.Sqrt2 * math.Erfinv(2*share-1) }

// openShares are the shares of gates, in ungated layers of ups, that benchmarks leave open.
var openShares = []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6}

// BenchmarkExactExperts computes single tokens' experts, of whose neurons a share is open, in turns: all of them, and
// what is not zero. read is the share of the bytes that is read then, faster how many times as fast it is, and of-bytes
// what that is of as many times as there are fewer bytes.
func BenchmarkExactExperts(b *testing.B) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0, quant.F16} {
		for _, kind := range []compute.Nonlinearity{compute.ReLU, compute.ReLU2, compute.DReLU} {
			for _, threads := range []int{1, 2} {
				for _, open := range openShares {
					b.Run(fmt.Sprintf("%s/%s/%d threads/%g", typ, kind, threads, open), func(b *testing.B) {
						whole, exact := newBenchExperts(b, typ, kind, open, threads, false), newBenchExperts(b, typ, kind, open, threads, true)
						for b.Loop() {
							for _, e := range []*benchExperts{whole, exact} {
								if err := e.step(); err != nil {
									b.Fatal(err)
								}
							}
						}
						read := float64(exact.w.Count.Bytes) / float64(whole.w.Count.Bytes)
						faster := whole.quick() / exact.quick()
						b.ReportMetric(read, "read")
						b.ReportMetric(faster, "faster")
						b.ReportMetric(faster*read, "of-bytes")
						b.ReportMetric(1e6*exact.quick(), "exact-µs")
						b.ReportMetric(float64(exact.w.Count.Active)/float64(exact.w.Count.Predicted), "active")
					})
				}
			}
		}
	}
}
