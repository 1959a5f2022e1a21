package train

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// unseen is the largest loss of recall of mass on samples that neither training nor calibration used: the calibration
// is one number, set on a few hundred samples.
const unseen = 0.01

func TestSyntheticLayerIsLearned(t *testing.T) {
	rng := newRand(t)
	p := newPool(t, 4)
	const embd, ff = 128, 512
	layer := newSynthetic(t, rng, p, embd, ff, 24, 0.04)
	s, fresh := layer.samples(rng, 4000), layer.samples(rng, 500)
	var neurons []int32
	for i := ff - 1; i >= 0; i -= 2 { // not all, and not in order
		neurons = append(neurons, int32(i))
	}
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.Q8_0, quant.Q4_0} {
		pred, q, err := Train(context.Background(), s, Options{Neurons: neurons, Type: typ, Pool: p, Gate: layer.gateRow, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		f := judgeFresh(pred, fresh, neurons)
		t.Logf("%s: rank %d, held out %+v, fresh %+v", typ, pred.Rank, q, f)
		if q.MassRecall < 0.99 || f.MassRecall < 0.99-unseen {
			t.Errorf("%s: recall of mass %.4f, of fresh samples %.4f", typ, q.MassRecall, f.MassRecall)
		}
		if q.Accuracy < 0.95 || f.Accuracy < 0.94 {
			t.Errorf("%s: accuracy %.4f, of fresh samples %.4f", typ, q.Accuracy, f.Accuracy)
		}
		// Chance has a precision of the active share, which the drawn layer decides: three fifths of the way from there
		// to all right.
		if f.Precision < f.ActiveShare+0.6*(1-f.ActiveShare) {
			t.Errorf("%s: precision %.4f, chance %.4f", typ, f.Precision, f.ActiveShare)
		}
		if pred.Rank > 64 && typ != quant.Q4_0 {
			t.Errorf("%s: rank %d for sets of 25 dimensions", typ, pred.Rank)
		}
		stored := make([]byte, typ.RowBytes(len(pred.FC1)))
		quant.Encode(typ, stored, pred.FC1)
		again := make([]float32, len(pred.FC1))
		quant.Decode(typ, again, stored)
		if typ != quant.Q4_0 && !slices.Equal(again, pred.FC1) { // Q4_0 rounds its own scale again
			t.Errorf("%s: the weights are not what the type holds", typ)
		}
	}
}

// Without gate rows there is less to start from, but the target holds.
func TestWithoutGateRows(t *testing.T) {
	rng := newRand(t)
	p := newPool(t, 4)
	layer := newSynthetic(t, rng, p, 64, 256, 12, 0.1)
	s := layer.samples(rng, 4000)
	_, q, err := Train(context.Background(), s, Options{Pool: p, Rank: 64, Epochs: 20})
	if err != nil {
		t.Fatal(err)
	}
	if q.MassRecall < 0.99 || q.Precision < 3*q.ActiveShare {
		t.Errorf("%+v", q)
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	rng := newRand(t)
	layer := newSynthetic(t, rng, newPool(t, 1), 64, 200, 12, 0.1)
	s := layer.samples(rng, 1500)
	var want *Predictor
	for _, threads := range []int{1, 4, 3} {
		got, _, err := Train(context.Background(), s, Options{Pool: newPool(t, threads), Gate: layer.gateRow, Epochs: 3})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		same(t, got, want)
	}
}

func same(t *testing.T, got, want *Predictor) {
	t.Helper()
	if got.Rank != want.Rank || !slices.Equal(got.FC1, want.FC1) || !slices.Equal(got.FC2, want.FC2) {
		t.Fatalf("predictors of ranks %d and %d differ", got.Rank, want.Rank)
	}
}

func TestResumedEqualsUninterrupted(t *testing.T) {
	rng := newRand(t)
	p := newPool(t, 4)
	layer := newSynthetic(t, rng, p, 64, 200, 12, 0.1)
	s := layer.samples(rng, 1500)
	o := Options{Pool: p, Gate: layer.gateRow, Epochs: 4, Accuracy: 0.97}
	saves := 0
	o.Save = func([]byte) error { saves++; return nil }
	want, quality, err := Train(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	killed := errors.New("killed")
	var checkpoint []byte
	for i := range saves { // die after every checkpoint in turn, each run going on from the last
		o.Resume = checkpoint
		o.Save = func(b []byte) error { checkpoint = b; return killed }
		if _, _, err := Train(context.Background(), s, o); !errors.Is(err, killed) {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	o.Resume, o.Save = checkpoint, func([]byte) error { return nil }
	got, q, err := Train(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	if q != quality || saves < 5 {
		t.Fatalf("%d checkpoints; quality %+v, uninterrupted %+v", saves, q, quality)
	}
}

func TestCheckpointsAreChecked(t *testing.T) {
	rng := newRand(t)
	p := newPool(t, 2)
	layer := newSynthetic(t, rng, p, 64, 100, 12, 0.2)
	s := layer.samples(rng, 500)
	var all [][]byte
	o := Options{Pool: p, Gate: layer.gateRow, Epochs: 1}
	o.Save = func(b []byte) error { all = append(all, b); return nil }
	if _, _, err := Train(context.Background(), s, o); err != nil {
		t.Fatal(err)
	}
	o.Save = nil
	for _, b := range all {
		for _, bad := range [][]byte{{}, b[:7], b[:100], b[:len(b)-1], append(slices.Clone(b), 0), flipped(b, len(b)/2), flipped(b, 20), flipped(b, 150)} {
			o.Resume = bad
			if _, _, err := Train(context.Background(), s, o); err == nil || !strings.Contains(err.Error(), "checkpoint") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("a damaged checkpoint of %d bytes gave %v", len(bad), err)
			}
		}
	}
	o.Resume, o.Seed = all[len(all)-1], 99
	if _, _, err := Train(context.Background(), s, o); err == nil || !strings.Contains(err.Error(), "other samples or options") {
		t.Fatalf("another training's checkpoint gave %v", err)
	}
}

func flipped(b []byte, i int) []byte {
	b = slices.Clone(b)
	b[i] ^= 0x10
	return b
}

func TestCancellation(t *testing.T) {
	rng := newRand(t)
	p := newPool(t, 2)
	layer := newSynthetic(t, rng, p, 64, 100, 12, 0.2)
	s := layer.samples(rng, 500)
	ctx, cancel := context.WithCancel(context.Background())
	told := 0
	_, _, err := Train(ctx, s, Options{Pool: p, Gate: layer.gateRow, Progress: func(Progress) {
		if told++; told == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || told != 3 {
		t.Fatalf("after %d reports: %v", told, err)
	}
}

func TestBadInput(t *testing.T) {
	p := newPool(t, 1)
	good := func() *Samples {
		return &Samples{Embd: 2, FF: 3, X: make([]uint16, 4), Start: []int64{0, 1, 3}, Active: []uint16{2, 0, 1}, Mass: make([]uint16, 3), Document: []int32{0, 1}}
	}
	for name, change := range map[string]func(*Samples, *Options){
		"no inputs":        func(s *Samples, _ *Options) { s.X = nil },
		"half an input":    func(s *Samples, _ *Options) { s.X = s.X[:3] },
		"too many neurons": func(s *Samples, _ *Options) { s.FF = 1 << 17 },
		"masses":           func(s *Samples, _ *Options) { s.Mass = s.Mass[:2] },
		"offsets":          func(s *Samples, _ *Options) { s.Start = []int64{0, 4, 3} },
		"negative offset":  func(s *Samples, _ *Options) { s.Start = []int64{0, -1, 3} },
		"open end":         func(s *Samples, _ *Options) { s.Start[2] = 2 },
		"order":            func(s *Samples, _ *Options) { s.Active = []uint16{2, 1, 1} },
		"neuron":           func(s *Samples, _ *Options) { s.Active[0] = 3 },
		"one document":     func(s *Samples, _ *Options) { s.Document[1] = 0 },
		"pool":             func(_ *Samples, o *Options) { o.Pool = nil },
		"recall":           func(_ *Samples, o *Options) { o.MassRecall = 1.5 },
		"NaN":              func(_ *Samples, o *Options) { o.Accuracy = math.NaN() },
		"rank":             func(_ *Samples, o *Options) { o.Rank = 33 },
		"type":             func(_ *Samples, o *Options) { o.Type = quant.Q4_0 },
		"twice":            func(_ *Samples, o *Options) { o.Neurons = []int32{1, 1} },
		"beyond":           func(_ *Samples, o *Options) { o.Neurons = []int32{3} },
		"none":             func(_ *Samples, o *Options) { o.Neurons = []int32{} },
	} {
		s, o := good(), Options{Pool: p}
		change(s, &o)
		if _, _, err := Train(context.Background(), s, o); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := good()
	s.Start, s.Active, s.Mass = []int64{0, 0, 0}, nil, nil
	if _, _, err := Train(context.Background(), s, Options{Pool: p}); err == nil {
		t.Error("neurons that are never active were learned")
	}
}
