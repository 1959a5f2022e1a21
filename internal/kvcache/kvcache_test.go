package kvcache_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/kvcache"
)

// memory is the content of the pages as a device would see it, in layers that see everything and in those with windows.
type memory struct {
	*kvcache.Cache
	pages, near [][]kvcache.Label
}

const positions = 4

func newMemory(pages int) *memory { return newWindowed(pages, 0, 0) }

// newWindowed returns a memory with near pages for layers with windows.
func newWindowed(pages, window, near int) *memory {
	empty := func(n int) [][]kvcache.Label {
		list := make([][]kvcache.Label, n)
		for i := range list {
			list[i] = make([]kvcache.Label, positions)
		}
		return list
	}
	m := &memory{pages: empty(pages), near: empty(near)}
	m.Cache = kvcache.New(kvcache.Size{Pages: pages, Positions: positions, Window: window, Near: near}, func(to, from kvcache.Page) {
		copy(m.pages[to.Far], m.pages[from.Far])
		if window > 0 {
			copy(m.near[to.Near], m.near[from.Near])
		}
	})
	return m
}

// sequence is a sequence with the labels that it must hold.
type sequence struct {
	*kvcache.Sequence
	want []kvcache.Label
}

// write evaluates labels, as a step does: it writes to the pages, and then says so.
func (m *memory) write(s *sequence, labels ...kvcache.Label) bool {
	if !s.Reserve(len(labels)) {
		return false
	}
	for i, l := range labels {
		at := s.Len() + i
		m.pages[s.Pages()[at/positions]][at%positions] = l
		if near := s.Near(); near != nil {
			m.near[near[at/positions]][at%positions] = l
		}
	}
	s.Append(labels...)
	s.want = append(s.want, labels...)
	return true
}

func (m *memory) check(t *testing.T, s *sequence) {
	t.Helper()
	if s.Len() != len(s.want) {
		t.Fatalf("the sequence has %d positions, want %d", s.Len(), len(s.want))
	}
	for i, want := range s.want {
		if got := m.pages[s.Pages()[i/positions]][i%positions]; got != want {
			t.Fatalf("position %d holds %d, want %d", i, got, want)
		}
		if m.Window > 0 && i > len(s.want)-m.Window { // the next token sees it
			if got := m.near[s.Near()[i/positions]][i%positions]; got != want {
				t.Fatalf("position %d holds %d in layers with windows of %d, want %d; %d are there", i, got, m.Window, want, len(s.want))
			}
		}
	}
}

func labels(tokens ...int32) (l []kvcache.Label) {
	for _, id := range tokens {
		l = append(l, kvcache.LabelOf(id, false))
	}
	return l
}

func TestLabel(t *testing.T) {
	for _, decoded := range []bool{false, true} {
		if l := kvcache.LabelOf(1<<20, decoded); l.Token() != 1<<20 || l.Decoded() != decoded || l.IsForeign() || !l.Foreign().IsForeign() || l.Foreign().Token() != 1<<20 {
			t.Errorf("%d is token %d, decoded %t", l, l.Token(), l.Decoded())
		}
	}
}

// TestRunningSequencesShare: full pages are shared while their writer runs, a page in use is copied, and the last
// sequence takes an idle page over without a copy.
func TestRunningSequencesShare(t *testing.T) {
	m := newMemory(8)
	a, b := &sequence{Sequence: m.NewSequence()}, &sequence{Sequence: m.NewSequence()}
	text := labels(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	m.write(a, text...)
	if n := b.Follow(text, false); n != 10 {
		t.Errorf("%d positions are shared, want 10", n)
	}
	b.want = slices.Clone(text)
	m.check(t, b)
	if a.Pages()[1] != b.Pages()[1] || a.Pages()[2] == b.Pages()[2] || m.Held() != 4 {
		t.Errorf("pages %v and %v", a.Pages(), b.Pages())
	}
	m.write(a, labels(11)...)
	m.write(b, labels(12)...)
	m.check(t, a)
	m.check(t, b)
	page := b.Pages()[2]
	b.Release()
	c := &sequence{Sequence: m.NewSequence()}
	if n := c.Follow(labels(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13), false); n != 11 || c.Pages()[2] != page {
		t.Errorf("%d positions in pages %v, want 11 that end in page %d", n, c.Pages(), page)
	}
}

// TestDecodedIsAnother: positions evaluated by other arithmetic are reused only on request.
func TestDecodedIsAnother(t *testing.T) {
	m := newMemory(4)
	a := &sequence{Sequence: m.NewSequence()}
	m.write(a, append(labels(1, 2), kvcache.LabelOf(3, true))...)
	for _, loose := range []bool{false, true} {
		b := m.NewSequence()
		if n, want := b.Follow(labels(1, 2, 3), loose), map[bool]int{false: 2, true: 3}[loose]; n != want {
			t.Errorf("loose %t: %d positions, want %d", loose, n, want)
		}
		b.Release()
	}
}

// TestOldestPrefixGoes: pages are taken from the prefix that was released first, from its end.
func TestOldestPrefixGoes(t *testing.T) {
	m := newMemory(4)
	for _, first := range []int32{1, 2} {
		s := &sequence{Sequence: m.NewSequence()}
		m.write(s, labels(first, 3, 4, 5, 6, 7, 8, 9)...)
		s.Release()
	}
	s := &sequence{Sequence: m.NewSequence()}
	m.write(s, labels(11)...)
	for first, want := range map[int32]int{1: 4, 2: 8} {
		f := m.NewSequence()
		if n := f.Follow(labels(first, 3, 4, 5, 6, 7, 8, 9), false); n != want {
			t.Errorf("%d positions of prefix %d are left, want %d", n, first, want)
		}
		f.Release()
	}
}

// TestRandom: in random use each sequence reads what it wrote, as far as it sees, no page is lost, and in the end all
// are free.
func TestRandom(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := newMemory(12)
		if window := rng.IntN(14); seed >= 4 && window > 0 {
			m = newWindowed(12, window, min(12, 6+rng.IntN(7)))
		}
		random(t, m, rng, seed)
	}
}

func random(t *testing.T, m *memory, rng *rand.Rand, seed uint64) {
	var running []*sequence
	for range 1500 {
		if len(running) == 0 || rng.IntN(8) == 0 {
			running = append(running, &sequence{Sequence: m.NewSequence()})
		}
		i := rng.IntN(len(running))
		s := running[i]
		some := func() (l []kvcache.Label) {
			for range rng.IntN(9) {
				l = append(l, kvcache.LabelOf(int32(rng.IntN(2)), rng.IntN(9) == 0))
			}
			return l
		}
		switch rng.IntN(6) {
		case 0, 1:
			m.write(s, some()...)
		case 2:
			want := some()
			if len(running) > 1 { // what another one holds, and a little more
				if other := running[rng.IntN(len(running))].want; len(other) >= len(s.want) && slices.Equal(other[:len(s.want)], s.want) {
					want = append(slices.Clone(other[len(s.want):]), want...)
				}
			}
			n := s.Follow(want, false)
			s.want = append(s.want, want[:n]...)
		case 3:
			p := m.Find(s.want)
			for i, want := range p.Labels() {
				page := p.Page(i / positions)
				if got := m.pages[page.Far][i%positions]; got.Token() != want.Token() {
					t.Fatalf("seed %d: position %d of a prefix is token %d, want %d", seed, i, got.Token(), want.Token())
				}
				if m.Window > 0 && i > len(p.Labels())-m.Window && m.near[page.Near][i%positions].Token() != want.Token() {
					t.Fatalf("seed %d: position %d of a prefix of %d is not there in layers with windows of %d", seed, i, len(p.Labels()), m.Window)
				}
			}
			p.Release()
		case 4:
			s.Reserve(rng.IntN(6))
		case 5:
			if rng.IntN(2) == 0 {
				s.Release()
				running = slices.Delete(running, i, i+1)
			}
		}
		held := map[int32]bool{}
		for _, s := range running {
			m.check(t, s)
			for _, p := range s.Pages() {
				held[p] = true
			}
		}
		if m.Held() != len(held) {
			t.Fatalf("seed %d: %d pages are held, want %d", seed, m.Held(), len(held))
		}
	}
	for _, s := range running {
		s.Release()
	}
	m.Clear()
	room := 12
	if m.Window > 0 {
		room = m.Near
	}
	if s := m.NewSequence(); m.Held() != 0 || !s.Reserve(room*positions) || s.Reserve(room*positions+1) {
		t.Fatalf("seed %d: not all pages are free again", seed)
	}
}

// TestWindow: in layers with windows a long text has only the pages of its window. Another text can continue after its
// end, but not from its middle, which no window reaches any more. It can again once pages are left.
func TestWindow(t *testing.T) {
	const window = 6
	text := make([]int32, 40)
	for i := range text {
		text[i] = int32(i)
	}
	for _, c := range []struct{ near, want int }{{4, 0}, {10, 20}} {
		m := newWindowed(20, window, c.near)
		a := &sequence{Sequence: m.NewSequence()}
		for i := range text {
			if !m.write(a, labels(text[i])...) {
				t.Fatalf("no page for position %d of a window of %d", i, window)
			}
			m.check(t, a)
		}
		a.Release()
		b := &sequence{Sequence: m.NewSequence()}
		if n := b.Follow(labels(append(slices.Clone(text), 99)...), false); n != len(text) {
			t.Errorf("%d pages: %d positions of the same text are taken over, want all %d", c.near, n, len(text))
		}
		b.want = labels(text...)
		m.check(t, b)
		b.Release()
		d := &sequence{Sequence: m.NewSequence()}
		n := d.Follow(labels(append(slices.Clone(text[:20]), 99)...), false)
		if n != c.want {
			t.Errorf("%d pages: %d positions of a text that goes on differently are taken over, want %d", c.near, n, c.want)
		}
		d.want = labels(text[:n]...)
		m.check(t, d)
	}
}

// TestBegin: in layers with windows, pages from outside need only those that the window reaches. Later sequences can
// continue after their end.
func TestBegin(t *testing.T) {
	const window = 5
	m := newWindowed(10, window, 3)
	text := labels(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
	s := m.NewSequence()
	if s.Begin(len(text), 5); s.Continues(len(text)) {
		t.Error("a sequence goes on without the window before its end")
	}
	if s.Begin(len(text), 0); !s.Continues(len(text)) || s.Continues(len(text)-4) {
		t.Error("there is room for the window behind 20 positions alone")
	}
	if !s.Reserve(len(text)) {
		t.Fatal("no room for 5 pages, one of them with a window's")
	}
	for i, l := range text {
		m.pages[s.Pages()[i/positions]][i%positions] = l
		if page := s.Page(i / positions); (page.Near >= 0) != (i/positions >= 4) {
			t.Errorf("page %d is %v", i/positions, page)
		} else if page.Near >= 0 {
			m.near[s.Near()[i/positions]][i%positions] = l
		}
	}
	s.Append(text...)
	s.Release()
	b := &sequence{Sequence: m.NewSequence(), want: text}
	if n := b.Follow(append(slices.Clone(text), labels(99)...), false); n != len(text) {
		t.Errorf("%d positions are taken over, want %d", n, len(text))
	}
	m.check(t, b)
	if n := m.NewSequence().Follow(append(slices.Clone(text[:8]), labels(99)...), false); n != 0 {
		t.Errorf("%d positions are taken over without their windows", n)
	}
}

// TestPrivate: a private sequence neither shares nor reuses pages, and its pages are free at once.
func TestPrivate(t *testing.T) {
	m := newMemory(8)
	a := &sequence{Sequence: m.NewSequence()}
	m.write(a, labels(1, 2, 3, 4, 5)...)
	p := &sequence{Sequence: m.NewPrivate()}
	if n := p.Follow(labels(1, 2, 3, 4), true); n != 0 {
		t.Errorf("a private sequence took %d positions over", n)
	}
	m.write(p, labels(6, 7, 8, 9, 10)...)
	m.check(t, p)
	b := m.NewSequence()
	if n := b.Follow(labels(6, 7, 8, 9), true); n != 0 {
		t.Errorf("%d positions of a private sequence were taken over", n)
	}
	if p.Release(); m.Available() != 6 || m.Held() != 2 {
		t.Errorf("%d pages can be had and %d are held", m.Available(), m.Held())
	}
}

// TestForget: afterwards nothing is found, sequences keep the pages they hold, and none is lost.
func TestForget(t *testing.T) {
	m := newMemory(6)
	a, idle := &sequence{Sequence: m.NewSequence()}, &sequence{Sequence: m.NewSequence()}
	m.write(a, labels(1, 2, 3, 4, 5)...)
	m.write(idle, labels(6, 7, 8, 9)...)
	idle.Release()
	m.Forget()
	m.write(a, labels(10, 11, 12, 13)...)
	m.check(t, a)
	for _, want := range [][]kvcache.Label{labels(1, 2, 3, 4), labels(6, 7, 8, 9)} {
		if n := m.NewSequence().Follow(want, true); n != 0 {
			t.Errorf("%d positions of what was forgotten were found", n)
		}
	}
	a.Release()
	b := &sequence{Sequence: m.NewSequence()}
	if n := b.Follow(labels(1, 2, 3, 4), true); n != 0 {
		t.Errorf("%d positions of a sequence from before were found", n)
	}
	m.write(b, labels(1, 2, 3, 4)...)
	c := m.NewSequence()
	if n := c.Follow(labels(1, 2, 3, 4), false); n != 4 {
		t.Errorf("%d positions of a sequence from afterwards were found, want 4", n)
	}
	b.Release()
	c.Release()
	if m.Clear(); !m.NewSequence().Reserve(6 * positions) {
		t.Error("not all pages are free again")
	}
}

// TestFind: of texts with a common beginning the longest is found, with tokens evaluated either way. It is not evicted
// while it is held.
func TestFind(t *testing.T) {
	m := newMemory(6)
	texts := [][]kvcache.Label{
		labels(1, 2, 3, 4, 5),
		append([]kvcache.Label{kvcache.LabelOf(1, true).Foreign()}, labels(2, 3, 4, 5, 6, 7)...),
	}
	for _, text := range texts {
		s := &sequence{Sequence: m.NewSequence()}
		m.write(s, text...)
		s.Release()
	}
	p := m.Find(labels(1, 2, 3, 4, 5, 6, 8))
	if got, want := p.Labels(), texts[1][:6]; !slices.Equal(got, want) {
		t.Fatalf("found %v, want %v", got, want)
	}
	s := m.NewSequence()
	if !s.Reserve(4*positions) || s.Reserve(4*positions+1) {
		t.Errorf("%d pages can be had beside the two that are held", m.Available())
	}
	for i, want := range p.Labels() {
		if got := m.pages[p.Page(i/positions).Far][i%positions]; got != want {
			t.Errorf("position %d holds %d, want %d", i, got, want)
		}
	}
	s.Release()
	p.Release()
	if m.Held() != 0 {
		t.Errorf("%d pages are held", m.Held())
	}
}

// TestErase: pages that another text shares, or that a sequence holds, stay.
func TestErase(t *testing.T) {
	m := newMemory(12)
	m.write(&sequence{Sequence: m.NewSequence()}, labels(1, 9)...) // and continues
	short, long := labels(1, 2, 3, 4, 5, 6), labels(1, 2, 3, 4, 7, 8)
	for _, text := range [][]kvcache.Label{short, long} {
		s := &sequence{Sequence: m.NewSequence()}
		s.want = append(s.want, text[:s.Follow(text, false)]...)
		m.write(s, text[s.Len():]...)
		s.Release()
	}
	m.Erase(short)
	if p := m.Find(long); len(p.Labels()) != len(long) {
		t.Errorf("%d positions of the other text are left, want %d", len(p.Labels()), len(long))
	} else {
		p.Release()
	}
	if p := m.Find(short); len(p.Labels()) != positions {
		t.Errorf("%d positions of the text are left, want %d", len(p.Labels()), positions)
	} else {
		p.Release()
	}
	running := m.NewSequence()
	running.Follow(long, false)
	m.Erase(long)
	if m.Held() != 1+len(running.Pages()) {
		t.Errorf("%d pages are held, want %d", m.Held(), 1+len(running.Pages()))
	}
	running.Release()
	m.Erase(long)
	if m.Kept() != 0 || m.Held() != 1 {
		t.Errorf("%d pages are kept and %d held", m.Kept(), m.Held())
	}
}

// TestReadWhileFilled: a page is neither freed nor written while it is read, even if its sequence turns out to have the
// content of another.
func TestReadWhileFilled(t *testing.T) {
	m := newMemory(3)
	a, b := &sequence{Sequence: m.NewSequence()}, &sequence{Sequence: m.NewSequence()}
	m.write(a, labels(1, 2)...)
	m.write(b, labels(1, 2)...)
	p := m.Find(labels(1, 2, 3, 4))
	m.write(b, labels(3, 4)...)
	m.write(a, labels(3, 4)...) // its page was found
	a.Release()
	b.Release()
	other := &sequence{Sequence: m.NewSequence()}
	m.write(other, labels(9, 9, 9, 9, 9, 9, 9, 9)...)
	for i, want := range p.Labels() {
		if got := m.pages[p.Page(0).Far][i]; got != want {
			t.Errorf("position %d holds %d, want %d", i, got, want)
		}
	}
	p.Release()
	other.Release()
	m.Clear()
	if m.Available() != 3 {
		t.Errorf("%d pages are free", m.Available())
	}
}

// TestStates: random sequences continue after checkpoints with the state of exactly the labels before them, slots are
// never shared, and none is lost.
func TestStates(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		const slots, most = 6, 3
		states := make([][]kvcache.Label, slots) // what each has read
		m := &memory{pages: make([][]kvcache.Label, 20)}
		for i := range m.pages {
			m.pages[i] = make([]kvcache.Label, positions)
		}
		m.Cache = kvcache.New(kvcache.Size{Pages: 20, Positions: positions, States: slots}, func(to, from kvcache.Page) {
			if to.State >= 0 {
				states[to.State] = slices.Clone(states[from.State])
			} else {
				copy(m.pages[to.Far], m.pages[from.Far])
			}
		})
		var running []*sequence
		resumed := 0
		for range 300 {
			if len(running) < most && rng.IntN(4) == 0 {
				text := make([]kvcache.Label, 1+rng.IntN(14))
				for i := range text {
					text[i] = kvcache.LabelOf(rng.Int32N(2), false)
				}
				s := &sequence{Sequence: m.NewSequence()}
				n := s.Follow(text, rng.IntN(2) == 0)
				resumed += n
				s.want = slices.Clone(text[:n])
				running = append(running, s)
			}
			if len(running) == 0 {
				continue
			}
			i := rng.IntN(len(running))
			s := running[i]
			switch rng.IntN(7) {
			case 0, 1, 2:
				label := kvcache.LabelOf(rng.Int32N(2), false)
				if m.write(s, label) {
					states[s.State()] = append(slices.Clone(states[s.State()][:min(len(s.want)-1, len(states[s.State()]))]), label)
				}
			case 3:
				s.Mark()
			case 6: // positions are tried, and taken back or not
				if s.State() < 0 || !s.Keep() {
					break
				}
				tried := labels(rng.Int32N(2), rng.Int32N(2))
				states[s.State()] = append(slices.Clone(states[s.State()]), tried...)
				if rng.IntN(2) == 0 || !m.write(s, tried...) {
					s.TakeBack()
				} else {
					s.Settle()
				}
			case 4:
				p := m.Find(s.want)
				if n := len(p.Labels()); n > 0 && !slices.Equal(states[p.State()], p.Labels()) {
					t.Fatalf("seed %d: the state behind a prefix is of %v, want %v", seed, states[p.State()], p.Labels())
				}
				p.Release()
			case 5:
				s.Release()
				running = slices.Delete(running, i, i+1)
			}
			used := map[int32]bool{}
			for _, s := range running {
				m.check(t, s)
				if s.State() < 0 {
					continue
				}
				if used[s.State()] {
					t.Fatalf("seed %d: two sequences have slot %d", seed, s.State())
				}
				used[s.State()] = true
				if !slices.Equal(states[s.State()], s.want) {
					t.Fatalf("seed %d: a sequence of %v has a state of %v", seed, s.want, states[s.State()])
				}
			}
		}
		for _, s := range running {
			s.Release()
		}
		m.Clear()
		for i := range slots {
			if !m.NewSequence().Reserve(1) {
				t.Fatalf("seed %d: %d of %d slots are free in the end", seed, i, slots)
			}
		}
		if resumed == 0 {
			t.Errorf("seed %d: nothing was taken over", seed)
		}
	}
}
