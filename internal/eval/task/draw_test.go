package task

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Questions are drawn as llama.cpp draws them. The numbers are those of a program in C++ with its generator and
// expressions (g++ 12.2, libstdc++).
func TestDraw(t *testing.T) {
	data := func(kind Kind, n int) *Data {
		d := &Data{Kind: kind}
		for i := range n {
			d.Items = append(d.Items, Item{ID: strconv.Itoa(i)})
		}
		return d
	}
	for _, c := range []struct {
		kind    Kind
		n, some int
		want    string
	}{
		{HellaSwag, 10042, 12, "4187 10013 7233 9363 1 1286 3036 10032 1474 2371 927 3984"},
		{HellaSwag, 8, 7, "3 7 5 6 0 1 2"},
		{Choice, 10042, 12, "4187 10012 7232 9361 1 1285 3034 10025 1472 2368 926 3978"},
		{Choice, 817, 4, "340 813 587 759"},
		{ARC, 3, 3, "0 1 2"},
		{ARC, 2, 5, "0 1"},
	} {
		d := data(c.kind, c.n)
		d.Draw(c.some, LlamaSeed)
		var got []string
		for _, it := range d.Items {
			got = append(got, it.ID)
		}
		if strings.Join(got, " ") != c.want || d.All != c.n {
			t.Errorf("%s, %d of %d: %s of %d, not %s", c.kind, c.some, c.n, got, d.All, c.want)
		}
	}
	few, more, other := data(MMLU, 1000), data(MMLU, 1000), data(MMLU, 1000)
	few.Draw(20, 7)
	more.Draw(50, 7)
	other.Draw(20, 8)
	equal := func(a, b Item) bool { return a.ID == b.ID }
	if !slices.EqualFunc(few.Items, more.Items[:20], equal) || slices.EqualFunc(few.Items, other.Items, equal) {
		t.Error("more questions by the same seed do not begin with fewer, or another seed draws the same")
	}
	last := data(Winogrande, 50)
	last.Scoring = Llama
	last.Draw(49, LlamaSeed)
	if len(last.Items) != 49 || slices.ContainsFunc(last.Items, func(it Item) bool { return it.ID == "49" }) {
		t.Errorf("%d questions", len(last.Items))
	}
}

// Examples are drawn as by Python's random.Random(1234).sample: the numbers are Python 3.11's.
func TestPythonSample(t *testing.T) {
	r := newPythonRandom(shotSeed)
	got := fmt.Sprint(r.sample(30, 6), r.sample(30, 6), r.sample(5, 5), r.sample(1000, 4), r.sample(40000, 3))
	if want := "[24 14 3 0 2 18] [1 21 22 2 3 24] [2 1 0 4 3] [354 663 638 495] [30379 9735 5982]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
