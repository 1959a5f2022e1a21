package vulkan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TestOverlap: in every replay the host sees what was computed before its turn, the device goes on during the turn, and
// later operations see both.
func TestOverlap(t *testing.T) {
	d := lent(t)
	g := ground(t, d)
	const n = 3
	x, y, k := g.x.First(n), g.y.First(n), g.k.First(n)
	bodies, meetings := 0, 0
	refuse := errors.New("the host cannot")
	body := func(v compute.Verbs) {
		bodies++
		r := v.Executor().(*recorder)
		v.Embed(x, g.table)
		v.Embed(k, g.table)
		for range 2 { // two layers
			seen := r.Download(x)
			var sent func() []float32
			r.Overlap(func(p *compute.Params) error {
				meetings++
				if p.Threshold > 0 {
					return refuse
				}
				for i, s := range seen() {
					sent()[i] = s * float32(p.Tokens[0])
				}
				return nil
			}, func() {
				v.Add(k, x)
				v.Add(k, k)
			})
			sent = r.Upload(y)
			v.Add(x, y)
			v.Add(x, k)
		}
	}
	for step, tokens := range [][]int32{{2, 5, 1}, {8, 0, 3}, {1, 1, 4}, {3, 7, 7}} {
		p := &compute.Params{Tokens: tokens}
		if err := d.Run(compute.Segment{Name: "layers", Rows: n}, p, body); err != nil {
			t.Fatal(err)
		}
		for i, token := range tokens {
			for c, got := range readable(d.Read(x, i)) {
				e := float32((int(token)*replayCols+c)%37) - float32(token)/8
				want, beside := e, e
				for range 2 {
					beside = 2 * (beside + want)
					want += want*float32(tokens[0]) + beside
				}
				if got != want {
					t.Fatalf("step %d, row %d column %d: %g, want %g", step, i, c, got, want)
				}
			}
		}
		if meetings != 2*(step+1) {
			t.Fatalf("step %d: the host was called %d times", step, meetings)
		}
	}
	if bodies != 2 { // the second copies what was read
		t.Errorf("%d bodies were run", bodies)
	}
	if err := d.Run(compute.Segment{Name: "layers", Rows: n}, &compute.Params{Tokens: []int32{1, 2, 3}, Threshold: 1}, body); !errors.Is(err, refuse) || !strings.Contains(err.Error(), "layers") {
		t.Errorf("error %v, want the host's", err)
	}
	if err := d.Run(compute.Segment{Name: "layers", Rows: n}, &compute.Params{Tokens: []int32{1, 2, 3}}, body); err != nil {
		t.Errorf("after the host's error: %v", err)
	}
}

// TestSetsPass: a set's bits reach the host and come back.
func TestSetsPass(t *testing.T) {
	d := lent(t)
	const rows, neurons, perRow = 2, 70, 3
	var sets [2]compute.Set
	for i := range sets {
		var err error
		if sets[i], err = d.Set(rows, neurons); err != nil {
			t.Fatal(err)
		}
	}
	want := []uint32{1, 0, 33, 0xffffffff, 5, 0}
	var got []uint32
	for range 2 {
		err := d.Run(compute.Segment{Name: "sets", Rows: rows}, &compute.Params{}, func(v compute.Verbs) {
			r := v.Executor().(*recorder)
			var sent func() ([]uint32, int)
			r.Overlap(func(*compute.Params) error {
				words, n := sent()
				if n != perRow {
					t.Errorf("%d words for a token", n)
				}
				copy(words, want)
				return nil
			}, nil)
			sent = r.UploadSet(sets[0])
			seen := r.DownloadSet(sets[0])
			r.Overlap(func(*compute.Params) error {
				words, _ := seen()
				got = slices.Clone(words)
				return nil
			}, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%x came back, want %x", got, want)
		}
	}
}

// TestReplayAllocatesNothing: a token's path makes no garbage.
func TestReplayAllocatesNothing(t *testing.T) {
	d := lent(t)
	g := ground(t, d)
	p := &compute.Params{Tokens: []int32{2}, Pos: []int32{0}, Seq: []int32{0}, Out: []int32{0}, Pages: [][]int32{{3}}}
	body := func(v compute.Verbs) {
		v.Embed(g.x.First(1), g.table)
		v.RoPE(g.x.First(1), replayCols/2, &g.rope)
		v.StoreKV(g.cache, 0, g.x.First(1), g.x.First(1))
		v.Attend(g.y.First(1), g.x.First(1), g.cache, 0, compute.Attention{Scale: 1})
		v.Gather(g.out.First(1), g.y.First(1))
	}
	step := func() {
		p.Pos[0]++
		if err := d.Run(compute.Segment{Name: "token", Rows: 1, Out: 1}, p, body); err != nil {
			t.Fatal(err)
		}
		readable(d.Read(g.out, 0))
	}
	step()
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("%g allocations a token", n)
	}
}
