package sample

import (
	"math"
	"testing"
)

// TestMinKeep: stages that drop tokens keep at least this many of the best ones.
func TestMinKeep(t *testing.T) {
	logits := []float32{1, 5, 4, 0, 3}
	for name, change := range map[string]func(*Options){
		"top-p": func(o *Options) { o.TopP = 0.01 }, "min-p": func(o *Options) { o.MinP = 0.99 }, "typical": func(o *Options) { o.TypicalP = 0.01 },
	} {
		for keep, want := range []int{1, 1, 2, 3, 4, 5, 5} {
			o := DefaultOptions()
			o.TopK, o.TopP, o.MinP, o.Temperature, o.MinKeep = 0, 1, 0, 1, keep
			change(&o)
			s, err := New(o, len(logits))
			if err != nil {
				t.Fatal(err)
			}
			id := s.Sample(logits)
			_, left := s.Chances(id, len(logits))
			if len(left) != want {
				t.Errorf("%s with min-keep %d leaves %d tokens, want %d", name, keep, len(left), want)
			}
		}
	}
	o := DefaultOptions()
	if o.MinKeep = -1; o.Validate(5) == nil {
		t.Error("a negative min-keep is taken")
	}
}

// TestChances: they are the softmax of the remaining logits.
func TestChances(t *testing.T) {
	logits := []float32{1, 5, 4, 0, 3}
	o := DefaultOptions()
	o.TopK, o.TopP, o.MinP, o.Temperature = 3, 1, 0, 2
	s, err := New(o, len(logits))
	if err != nil {
		t.Fatal(err)
	}
	id := s.Sample(logits)
	chance, top := s.Chances(id, 9)
	sum := math.Exp(2.5) + math.Exp(2) + math.Exp(1.5)
	const rounding = 1e-9
	for i, want := range []Chance{{1, math.Exp(2.5) / sum}, {2, math.Exp(2) / sum}, {4, math.Exp(1.5) / sum}} {
		if len(top) != 3 || top[i].ID != want.ID || math.Abs(top[i].Probability-want.Probability) > rounding {
			t.Fatalf("the chances %v, want number %d to be %v", top, i, want)
		}
		if want.ID == id && math.Abs(chance-want.Probability) > rounding {
			t.Errorf("the token %d has %v, want %v", id, chance, want.Probability)
		}
	}
	o.Temperature = 0
	if s, err = New(o, len(logits)); err != nil {
		t.Fatal(err)
	}
	if chance, top = s.Chances(s.Sample(logits), 3); chance != 1 || len(top) != 1 || top[0] != (Chance{1, 1}) {
		t.Errorf("of the highest logit: %v, %v", chance, top)
	}
}
