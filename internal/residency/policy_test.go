package residency_test

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// speeds are the speeds of a computer with a bus at a third of RAM's bandwidth.
var speeds = residency.Speeds{RAM: 60e9, GPU: 600e9, Bus: 20e9}

func open(t *testing.T, l residency.Layer) *residency.Policy {
	t.Helper()
	p, err := residency.New([]residency.Layer{l}, speeds, residency.Tuned())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// use has tokens use the given experts of layer 0, one token at a time.
func use(p *residency.Policy, n, tokens int, experts ...int32) {
	uses := make([]int32, n)
	for _, e := range experts {
		uses[e]++
	}
	for range tokens {
		p.Used(0, 1, uses)
	}
}

func TestWhatIsUsedComesAndWhatIsNotGoes(t *testing.T) {
	p := open(t, residency.Layer{Experts: 8, Slots: 2, Bytes: 1 << 20})
	p.Fill(0, []int32{0, 1})
	use(p, 8, 200, 0, 5)
	m, ok := p.Next()
	if !ok || m.Expert != 5 || m.Slot != 1 {
		t.Fatalf("chose %+v, %v; expert 5 was used by every token, and expert 1 in slot 1 by none", m, ok)
	}
	if s := p.Slots(0); s[1] != 1 || s[5] != residency.Absent {
		t.Errorf("until the slot is overwritten expert 1 is there, got %v", s)
	}
	if lost := p.Sending(m); lost != 1 {
		t.Errorf("expert %d is lost, and 1 lay in the slot", lost)
	}
	if s := p.Slots(0); s[1] != residency.Absent || s[5] != residency.Absent {
		t.Errorf("while the slot is overwritten neither expert is there, got %v", s)
	}
	if again, ok := p.Next(); ok {
		t.Errorf("chose %+v, too", again)
	}
	p.Done(m)
	if s := p.Slots(0); s[5] != 1 || s[0] != 0 || s[1] != residency.Absent {
		t.Errorf("slots are %v", s)
	}
}

// TestFail: a copy of an expert that could not be read leaves its slot as it was, full or free. It is chosen again only
// after the expert was used as often as others that are copied.
func TestFail(t *testing.T) {
	p := open(t, residency.Layer{Experts: 8, Slots: 2, Bytes: 1 << 20})
	p.Fill(0, []int32{0})
	use(p, 8, 200, 5, 6)
	free, ok := p.Next()
	full, also := p.Next()
	if !ok || !also || free.Slot != 1 || full.Slot != 0 {
		t.Fatalf("chose %+v and %+v", free, full)
	}
	p.Fail(free)
	p.Fail(full)
	if s := p.Slots(0); s[0] != 0 || s[5] != residency.Absent || s[6] != residency.Absent {
		t.Errorf("slots are %v", s)
	}
	use(p, 8, 1, 5, 6)
	if m, ok := p.Next(); ok {
		t.Errorf("chose %+v, which could not be read, after one use", m)
	}
	use(p, 8, 200, 5, 6)
	again, ok := p.Next()
	more, also := p.Next()
	if !ok || !also || again != free || more != full {
		t.Errorf("chose %+v and %+v, before %+v and %+v", again, more, free, full)
	}
}

func TestOneUseDoesNotPay(t *testing.T) {
	p := open(t, residency.Layer{Experts: 8, Slots: 2, Bytes: 1 << 20})
	p.Fill(0, []int32{0, 1})
	use(p, 8, 200, 0, 1)
	use(p, 8, 1, 5)
	if m, ok := p.Next(); ok {
		t.Errorf("chose %+v after a single use", m)
	}
}

func TestFasterRAMNeedsNoGPU(t *testing.T) {
	p, err := residency.New([]residency.Layer{{Experts: 4, Slots: 1, Bytes: 1}}, residency.Speeds{RAM: 2, GPU: 1, Bus: 1}, residency.Tuned())
	if err != nil {
		t.Fatal(err)
	}
	use(p, 4, 1000, 3)
	if m, ok := p.Next(); ok {
		t.Errorf("chose %+v, though RAM is the faster", m)
	}
}

// TestInvariants plays random uses and copies: a slot holds one expert, an expert is in one slot, and nothing is copied
// to where it is.
func TestInvariants(t *testing.T) {
	r := testenv.Rand(t)
	const experts, slots = 16, 5
	p := open(t, residency.Layer{Experts: experts, Slots: slots, Bytes: 1 << 20})
	var under, sent []residency.Move // what is staged, and what overwrites its slot
	for i := range 5000 {
		topic := int32(i / 300 % 4 * 4)
		use(p, experts, 1, topic+r.Int32N(4), r.Int32N(experts))
		if m, ok := p.Next(); ok {
			under = append(under, m)
		}
		if len(sent) > 0 && r.IntN(3) == 0 {
			p.Done(sent[0])
			sent = sent[1:]
		}
		if len(under) > 0 && r.IntN(3) == 0 {
			p.Sending(under[0])
			under, sent = under[1:], append(sent, under[0])
		}
		held := map[int32]bool{}
		for e, s := range p.Slots(0) {
			if s == residency.Absent {
				continue
			}
			if s < 0 || s >= slots || held[s] {
				t.Fatalf("token %d: expert %d in slot %d: %v", i, e, s, p.Slots(0))
			}
			held[s] = true
		}
		for _, m := range sent {
			if held[m.Slot] {
				t.Fatalf("token %d: slot %d is filled and holds an expert", i, m.Slot)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, l := range []residency.Layer{{Experts: 0, Bytes: 1}, {Experts: 4, Slots: 5, Bytes: 1}, {Experts: 4, Slots: 1}, {Experts: 4, Bytes: 1, Prior: []float64{1}}} {
		if _, err := residency.New([]residency.Layer{l}, speeds, residency.Tuned()); err == nil {
			t.Errorf("%+v was taken", l)
		}
	}
	if _, err := residency.New(nil, residency.Speeds{RAM: 1, GPU: 1}, residency.Tuned()); err == nil {
		t.Error("a bus of no bandwidth was taken")
	}
}

// TestWhatACopyCosts: an expert comes where what it is expected to save in 128 tokens is 1.25 times what its way takes
// of the bus and of RAM, by hand: 1.25 · (1/20 + 2/60) / (1/60 − 1/600) / 128 = 0.0543 uses a token.
func TestWhatACopyCosts(t *testing.T) {
	tuning := residency.Tuned()
	tuning.Doubt = 0
	for uses, want := range map[float64]bool{0.054: false, 0.055: true} {
		if got := comes(t, uses, speeds, tuning); got != want {
			t.Errorf("an expert that %g of the tokens use comes: %v, want %v", uses, got, want)
		}
	}
}

// TestWhatACopyCostsBeside: where copies have a queue of their own, RAM alone pays, three times: 1.25 · (3/60) / (1/60
// − 1/600) / 128 = 0.0326 uses a token. Copies then take as much of the bus as they will.
func TestWhatACopyCostsBeside(t *testing.T) {
	tuning, speeds := residency.Tuned(), speeds
	tuning.Doubt, speeds.Beside = 0, true
	for uses, want := range map[float64]bool{0.032: false, 0.033: true} {
		if got := comes(t, uses, speeds, tuning); got != want {
			t.Errorf("an expert that %g of the tokens use comes: %v, want %v", uses, got, want)
		}
	}
	if got := speeds.Piece(0); got < 1<<40 {
		t.Errorf("%d bytes at a time in a queue of copies", got)
	}
}

// comes reports whether an expert that this share of the tokens uses is copied over an unused one.
func comes(t *testing.T, uses float64, s residency.Speeds, tuning residency.Tuning) bool {
	t.Helper()
	p, err := residency.New([]residency.Layer{{Experts: 2, Slots: 1, Bytes: 1, Prior: []float64{0, uses}}}, s, tuning)
	if err != nil {
		t.Fatal(err)
	}
	p.Fill(0, []int32{0})
	_, ok := p.Next()
	return ok
}

// TestPiece: the bus moves 80 MB in a sixteenth of 64 ms at 20 GB/s, and something even in no time.
func TestPiece(t *testing.T) {
	if got := speeds.Piece(64e-3); got != 80e6 {
		t.Errorf("%d bytes behind a step of 64 ms, want 80 million", got)
	}
	if got := speeds.Piece(0); got != 512<<10 {
		t.Errorf("%d bytes behind a step of no time, want half a MiB", got)
	}
	if got := (residency.Speeds{Bus: math.Inf(1)}).Piece(1); got <= 1<<40 {
		t.Errorf("%d bytes over a bus of any bandwidth", got)
	}
}
