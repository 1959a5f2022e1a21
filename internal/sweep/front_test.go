package sweep

import (
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func made(kld, rate float64) Point {
	return Point{Quality: &Quality{KLDivergence: Figure{Value: kld}}, Speed: &Speed{Median: rate, Least: rate, Most: rate}, Reads: &Reads{RAM: 1 / rate}}
}

// TestFronts compares with the definition: a point is on the front if no step to another one loses nothing and gains
// something.
func TestFronts(t *testing.T) {
	rng := testenv.Rand(t)
	for range 50 {
		var points []Point
		for range 12 {
			points = append(points, made(float64(rng.IntN(5)), float64(1+rng.IntN(5))))
		}
		points = append(points, Point{})
		fronts(points)
		sorted := slices.Clone(points[:12])
		slices.SortFunc(sorted, func(a, b Point) int { // walking from the fastest on, the front is where the divergence falls
			if a.Speed.Median != b.Speed.Median {
				return int(b.Speed.Median - a.Speed.Median)
			}
			return int(a.Quality.KLDivergence.Value - b.Quality.KLDivergence.Value)
		})
		least, rate := 99.0, 0.0
		for _, p := range sorted {
			v := p.Quality.KLDivergence.Value
			on := v < least || v == least && p.Speed.Median == rate
			if on {
				least, rate = v, p.Speed.Median
			}
			if p.Front != on || p.Thrifty != on {
				t.Fatalf("%g at %g: on the front %t and %t, by walking %t", v, p.Speed.Median, p.Front, p.Thrifty, on)
			}
		}
		if points[12].Front {
			t.Fatal("a point of which nothing is known is on the front")
		}
	}
}

// TestFastest: among settings with insignificant differences the one nearest to dense is taken, and none outside the
// bounds.
func TestFastest(t *testing.T) {
	points := []Point{made(0, 10), made(0.1, 19), made(0.2, 20), made(0.3, 40)}
	points[1].Speed.Most = 21
	for i := range points {
		points[i].Within = i < 3
	}
	rate := func(p *Point) (float64, float64) { return p.Speed.Median, p.Speed.Most }
	if got := fastest(points, rate); got != &points[1] {
		t.Errorf("took %g from dense", got.Quality.KLDivergence.Value)
	}
	points[1].Speed.Most = 19.5
	if got := fastest(points, rate); got != &points[2] {
		t.Errorf("took %g from dense, which is slower", got.Quality.KLDivergence.Value)
	}
	for i := range points {
		points[i].Within = false
	}
	if fastest(points, rate) != nil {
		t.Error("a setting outside of the bounds was taken")
	}
}

// TestKeeps: a sweep and the curve that it stores agree on whether a bound is kept, and both count documents, not
// windows.
func TestKeeps(t *testing.T) {
	var docs [][]int32
	for i := range 10 {
		docs = append(docs, make([]int32, 2*(1+i%3)))
	}
	const window = 2
	y := eval.Lay(docs, window, 0)
	q := &Quality{Tokens: 10 * len(y.Of), KLDivergence: Figure{Value: 0.01}, SameTop: Figure{Value: 0.9}}
	of := make([][]float64, len(docs))
	for i, d := range y.Of {
		q.KLDs, q.SameTops = append(q.KLDs, 0.01+0.001*float64(i%7)), append(q.SameTops, 0.9)
		of[d] = append(of[d], q.KLDs[i])
	}
	var logs, sum, squares float64
	for _, klds := range of {
		mean := 0.0
		for _, v := range klds {
			mean += v / float64(len(klds))
		}
		logs++
		sum += math.Log(mean)
		squares += math.Log(mean) * math.Log(mean)
	}
	spread := math.Sqrt((squares - sum*sum/logs) / (logs - 1))
	zero := float32(0)
	p := Point{Setting: Setting{Threshold: &zero}, Quality: q, Reads: &Reads{}}
	stored := p.stored(&y)
	// With ten documents the limit is 2.9 standard deviations above the mean of the logarithms (2.3 with 32, 3.1 with
	// 8: docs/prepare.md).
	if k := (math.Log(q.MostKLD) - sum/logs) / spread; k < 2.75 || k > 3.05 {
		t.Errorf("the limit lies %g standard deviations of documents above their mean", k)
	}
	for _, bound := range []float64{0.9 * q.MostKLD, 1.1 * q.MostKLD} {
		b := Bounds{MaxKLD: bound}
		if got := b.keeps(&p); got != stored.Keeps(model.Bound{KLD: bound}) || got != (bound > q.MostKLD) {
			t.Errorf("a bound of %g is kept: %t", bound, got)
		}
	}
}

func TestSettings(t *testing.T) {
	names := func(g Grid, c *model.Config) (all []string) {
		list, err := g.Settings(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			all = append(all, s.Name())
		}
		return all
	}
	c := &model.Config{Predictors: true, Sparsity: model.Sparsity{Threshold: 0.5}, Prepared: &prepared.Info{}}
	g := Grid{Modes: []string{"off", "predict"}, Thresholds: []float32{-1, 2}, AlwaysOn: []float64{0.1}, Budgets: []int64{1 << 30}}
	want := []string{"off", "predict -1", "predict 0.5", "predict 0.5 on 0.1", "predict 2", "off 1 GiB", "predict 0.5 1 GiB"}
	if got := names(g, c); !slices.Equal(got, want) {
		t.Errorf("settings %q, not %q", got, want)
	}
	g.All = true
	all := names(g, c)
	if slices.Sort(all); len(all) != 2*(1+3*2) || len(slices.Compact(all)) != len(all) {
		t.Errorf("all settings: %q", all)
	}
	g = Grid{Modes: []string{"off"}}
	for _, v := range []float64{0.1, 0.005, 5.5, 16, 21.3} { // as the command reads them
		g.Budgets = append(g.Budgets, int64(v*(1<<30)))
	}
	if got, want := names(g, c)[1:], []string{"off 0.1 GiB", "off 0.005 GiB", "off 5.5 GiB", "off 16 GiB", "off 21.3 GiB"}; !slices.Equal(got, want) {
		t.Errorf("budgets %q, not %q", got, want)
	}
	c.Curve = &prepared.Curve{Way: prepared.ByMagnitude, Points: []prepared.Point{{Setting: 0.2, MostKLD: 0.001}, {Setting: 0.4, MostKLD: 0.003}, {Setting: 0.5, MostKLD: 0.002}}}
	list, err := (&Grid{Modes: []string{"threshold"}}).Settings(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if got := c.Curve.Within(model.Bound{KLD: s.MaxKLD}); got == nil || float64(got.Setting) != s.Share {
			t.Errorf("--max-kld %g does not choose %g", s.MaxKLD, s.Share)
		}
	}
	if len(list) != 2 { // no bound chooses the second, as the third is nearer to dense
		t.Errorf("%d settings of the curve", len(list))
	}
	if _, err := (&Grid{Modes: []string{"auto"}}).Settings(c); err == nil {
		t.Error("mode auto was taken")
	}
}
