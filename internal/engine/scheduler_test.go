package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/speculate"
)

const fakeVocab = 16

// fakeModel remembers in its pages the label of each evaluated position. Its logits depend on all that a token can see
// there.
type fakeModel struct {
	t         *testing.T
	limits    limits
	pages     [][]kvcache.Label
	states    [][]kvcache.Label // the labels that the recurrent state in each slot has read; none: the model has no such layers
	extension Extension
	turned    map[[2]int32]int32 // for extended texts: [page, slot] the rotary position of the slot's key
	out       [][]float32
	time      atomic.Int64 // nanoseconds
	cost      func(p *compute.Params) time.Duration
	fail      func(step int) error
	takes     time.Duration // time of a step
	steps     int
	wide      int // the most single tokens of any step

	unprepared atomic.Int64 // usual steps
}

func (m *fakeModel) prepare() bool {
	time.Sleep(m.takes)
	m.unprepared.Add(-1)
	return m.unprepared.Load() > 0
}

func (m *fakeModel) hidden(int) []float32 { panic("no request asks for hidden states") }

func (m *fakeModel) state(int) []float32 { panic("no draft program reads states") }

// turn rotates the keys of extended texts in the cache.
func (m *fakeModel) turn(p *compute.Params) error {
	for i := range p.Pos {
		m.turned[m.slot(p, p.Seq[i], p.Pos[i])] += p.Turns[i]
	}
	return nil
}

// slot returns the place of a sequence's position in the cache.
func (m *fakeModel) slot(p *compute.Params, seq, pos int32) [2]int32 {
	return [2]int32{p.Pages[seq][pos/compute.PagePositions], pos % compute.PagePositions}
}

// checkTurns checks that every key that a row sees has the position of the definition of self-extension.
func (m *fakeModel) checkTurns(p *compute.Params, row int32) {
	x, pos, seq := m.extension, int(p.Pos[row]), p.Seq[row]
	shared := pos / x.Width * x.Width
	for j := range pos + 1 {
		want := j / x.Group
		if j >= shared {
			want = shared/x.Group + j - shared
		}
		if got := m.turned[m.slot(p, seq, int32(j))]; int(got) != want {
			m.t.Errorf("token %d of a text of %d lies at position %d, want %d", j, pos+1, got, want)
		}
	}
}

func (m *fakeModel) run(p *compute.Params, _ wanted) error {
	m.steps++
	time.Sleep(m.takes)
	if m.cost != nil {
		m.time.Add(int64(m.cost(p)))
	}
	if m.fail != nil {
		if err := m.fail(m.steps); err != nil {
			return err
		}
	}
	if len(p.Tokens) == 0 || len(p.Tokens) > m.limits.rows || len(p.Out) > m.limits.outputs+m.limits.drafts {
		m.t.Errorf("a step of %d tokens and %d outputs of %+v", len(p.Tokens), len(p.Out), m.limits)
	}
	m.wide = max(m.wide, p.Decode)
	for i, id := range p.Tokens {
		pos := p.Pos[i]
		if m.extension.on() {
			m.turned[m.slot(p, p.Seq[i], pos)] = p.Turns[i]
		}
		m.pages[p.Pages[p.Seq[i]][pos/compute.PagePositions]][pos%compute.PagePositions] = kvcache.LabelOf(id, i < p.Decode)
		m.read(p, i)
	}
	for i, row := range p.Out {
		if m.extension.on() {
			m.checkTurns(p, row)
		}
		h := newFakeText()
		for pos := range p.Pos[row] + 1 {
			h.add(m.pages[p.Pages[p.Seq[row]][pos/compute.PagePositions]][pos%compute.PagePositions])
		}
		h.logits(m.out[i])
	}
	return nil
}

// read makes the recurrent state of row i's sequence read the row. The state must have read exactly the rows before it.
func (m *fakeModel) read(p *compute.Params, i int) {
	if m.states == nil {
		return
	}
	seq, pos := p.Seq[i], p.Pos[i]
	state := &m.states[p.States[seq]]
	if pos == 0 {
		*state = (*state)[:0]
	}
	if len(*state) != int(pos) {
		m.t.Errorf("a state that has read %d positions reads position %d", len(*state), pos)
		return
	}
	for at, l := range *state {
		if there := m.pages[p.Pages[seq][at/compute.PagePositions]][at%compute.PagePositions]; l != there {
			m.t.Errorf("a state has read %v at position %d of %d, where %v is", l, at, pos, there)
			return
		}
	}
	*state = append(*state, kvcache.LabelOf(p.Tokens[i], i < p.Decode))
}

func (m *fakeModel) logits(i int) []float32 { return m.out[i] }

// readPage returns labels as the bytes of one layer, four for each.
func (m *fakeModel) readPage(page kvcache.Page, layers [][]byte) error {
	for i := range len(layers[0]) / 4 {
		binary.LittleEndian.PutUint32(layers[0][4*i:], uint32(m.pages[page.Far][i]))
	}
	return nil
}

func (m *fakeModel) writePage(page kvcache.Page, layers [][]byte) error {
	for i := range len(layers[0]) / 4 {
		m.pages[page.Far][i] = kvcache.Label(binary.LittleEndian.Uint32(layers[0][4*i:]))
	}
	return nil
}

func (m *fakeModel) cache() (*kvcache.Cache, contents) {
	for i := range m.pages {
		m.pages[i] = make([]kvcache.Label, compute.PagePositions)
	}
	return kvcache.New(kvcache.Size{Pages: len(m.pages), Positions: compute.PagePositions, States: len(m.states)}, func(to, from kvcache.Page) {
		if to.State >= 0 {
			m.states[to.State] = slices.Clone(m.states[from.State])
		} else {
			copy(m.pages[to.Far], m.pages[from.Far])
		}
	}), m
}

// fakeText is a number that stands for a sequence's text.
type fakeText uint64

func newFakeText() *fakeText { h := fakeText(14695981039346656037); return &h }

func (h *fakeText) add(l kvcache.Label) { *h = (*h ^ fakeText(l)) * 1099511628211 }

func (h *fakeText) logits(to []float32) {
	rng := rand.New(rand.NewPCG(uint64(*h), 0))
	for i := range to {
		to[i] = rng.Float32()
	}
}

// greedySampler takes the likeliest token. before, if set, is called first.
type greedySampler struct{ before func() }

func (greedySampler) Accept(int32)                {}
func (greedySampler) Constrain(sample.Constraint) {}
func (greedySampler) Done() bool                  { return false }
func (greedySampler) Err() error                  { return nil }

func (g greedySampler) Sample(logits []float32) int32 {
	if g.before != nil {
		g.before()
	}
	return int32(slices.Index(logits, slices.Max(logits)))
}

// alone returns the text after prompt, from the definition of fakeModel.
func alone(prompt []int32, n int) (out []int32) {
	h, logits := newFakeText(), make([]float32, fakeVocab)
	for _, id := range prompt {
		h.add(kvcache.LabelOf(id, false))
	}
	for range n {
		h.logits(logits)
		id := greedySampler{}.Sample(logits)
		out = append(out, id)
		h.add(kvcache.LabelOf(id, true))
	}
	return out
}

// fakeGuesser knows the text, but makes mistakes.
type fakeGuesser struct {
	text   []int32
	prompt int  // tokens; 0: not known yet
	sure   bool // it makes no mistakes, and drafts as much as it may
	rng    *rand.Rand
}

// guessRight is how many of ten guesses are right.
const guessRight = 8

func (g *fakeGuesser) Accept(id int32) { g.text = append(g.text, id) }

func (g *fakeGuesser) Draft(most int, cost func(int) speculate.Cost) (out []int32) {
	if most < 1 {
		return nil
	}
	if g.prompt == 0 { // the text has its first token
		g.prompt = len(g.text) - 1
		g.rng = rand.New(rand.NewPCG(uint64(g.prompt), 0))
	}
	cost(most)
	h, logits := newFakeText(), make([]float32, fakeVocab)
	for i, id := range g.text {
		h.add(kvcache.LabelOf(id, i >= g.prompt))
	}
	n := most
	if !g.sure {
		n = g.rng.IntN(most + 1)
	}
	for range n {
		h.logits(logits)
		id := greedySampler{}.Sample(logits)
		h.add(kvcache.LabelOf(id, true))
		if !g.sure && g.rng.IntN(10) >= guessRight {
			id = (id + 1) % fakeVocab
		}
		out = append(out, id)
	}
	return out
}

func (g *fakeGuesser) Outcome(drafted, accepted int) {
	if accepted > drafted {
		panic("more guesses came true than were checked")
	}
}

func openFake(t *testing.T, pages int, l limits) (*Engine, *fakeModel) {
	return openFakeRecurrent(t, pages, 0, l)
}

// openFakeRecurrent is openFake for a model with this many slots for recurrent states.
func openFakeRecurrent(t *testing.T, pages, slots int, l limits) (*Engine, *fakeModel) {
	t.Helper()
	m := &fakeModel{t: t, limits: l, pages: make([][]kvcache.Label, pages), out: make([][]float32, l.outputs+l.drafts)}
	if slots > 0 {
		m.states = make([][]kvcache.Label, slots)
	}
	for i := range m.out {
		m.out[i] = make([]float32, fakeVocab)
	}
	e := &Engine{context: l.context, drafts: l.drafts, pages: compute.CacheSpec{States: slots}}
	e.guesser = func(*Request) guesser { return &fakeGuesser{} }
	e.config.Vocab = fakeVocab
	e.sched = newScheduler(m, l, func() time.Duration { return time.Duration(m.time.Load()) })
	t.Cleanup(func() { e.sched.close(errors.New("closed")) })
	return e, m
}

func (e *Engine) heldPages() int {
	e.sched.mu.Lock()
	defer e.sched.mu.Unlock()
	return e.sched.kv.Held()
}

func tokens(rng *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(rng.IntN(fakeVocab))
	}
	return ids
}

// TestTwoHundredRequests: requests join, leave and are cancelled at random, with a cache too small for all of them.
// They give the same text as alone, all pages are freed, and no goroutine remains.
func TestTwoHundredRequests(t *testing.T) {
	for _, drafts := range []int{0, 6} {
		for _, slots := range []int{0, 8} { // for states of five sequences, and three others
			t.Run(fmt.Sprintf("%d drafts, %d slots", drafts, slots), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testTwoHundredRequests(t, drafts, slots) })
			})
		}
	}
}

func testTwoHundredRequests(t *testing.T, drafts, slots int) {
	const seed = 7
	e, m := openFakeRecurrent(t, 12, slots, limits{rows: 48, outputs: 5, drafts: drafts, context: 8 * compute.PagePositions})
	m.takes = 20 * time.Microsecond
	m.fail = func(step int) error { // a GPU fails now and then, and the cache is lost
		if step%97 == 0 {
			return errLost
		}
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	roots := [][]int32{tokens(rng, 200), tokens(rng, 150), nil}
	var all sync.WaitGroup
	var finished, cancelled atomic.Int32
	for i := range 200 {
		prompt := slices.Concat(roots[rng.IntN(len(roots))], tokens(rng, 1+rng.IntN(90)))
		most, quit, slow := rng.IntN(60), -1, rng.IntN(20) == 0
		if rng.IntN(4) == 0 {
			quit = rng.IntN(30)
		}
		reuse := []Reuse{ReuseSame, ReuseSame, ReuseNone}[rng.IntN(3)]
		pause := time.Duration(rng.IntN(3000)) * time.Microsecond
		all.Go(func() {
			time.Sleep(pause)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if quit == 0 {
				time.AfterFunc(pause/8, cancel)
			}
			var out []int32
			res, err := e.Generate(ctx, Request{Prompt: prompt, Max: most, Sampler: greedySampler{}, IgnoreEOG: true, Reuse: reuse}, func(tok Token) bool {
				if out = append(out, tok.ID); len(out) == quit {
					cancel()
				}
				if slow {
					time.Sleep(3 * time.Millisecond)
				}
				return true
			})
			switch {
			case err != nil:
				t.Errorf("seed %d, request %d: %v", seed, i, err)
			case res.Stop == StopCancelled:
				cancelled.Add(1)
			case res.Stop != StopLength || len(out) != most:
				t.Errorf("seed %d, request %d: stopped by %q after %d of %d tokens", seed, i, res.Stop, len(out), most)
			default:
				finished.Add(1)
			}
			if want := alone(prompt, len(out)); !slices.Equal(out, want) {
				t.Errorf("seed %d, request %d says %v, alone %v", seed, i, out, want)
			}
		})
	}
	all.Wait()
	s := e.Stats()
	t.Logf("%d finished, %d were cancelled, in %d steps of up to %d single tokens; %d of %d guesses were right", finished.Load(), cancelled.Load(), m.steps, m.wide, s.Accepted, s.Drafted)
	if drafts > 0 && (s.Accepted < s.Drafted/2 || s.Accepted < 500) {
		t.Errorf("%d of %d guesses were right, too few to tell", s.Accepted, s.Drafted)
	}
	if finished.Load() < 100 || cancelled.Load() < 5 || m.wide < 3 {
		t.Errorf("%d finished and %d were cancelled, with %d at a time: too few to tell", finished.Load(), cancelled.Load(), m.wide)
	}
	if n := e.heldPages(); n != 0 {
		t.Errorf("%d pages are held", n)
	}
	e.sched.kv.Clear()
	var free []*kvcache.Sequence
	for s := e.sched.kv.NewSequence(); len(free) < slots && s.Reserve(1); s = e.sched.kv.NewSequence() {
		free = append(free, s)
	}
	if len(free) != slots {
		t.Errorf("%d of %d slots are free again", len(free), slots)
	}
	for _, s := range free {
		s.Release()
	}
	if s := e.sched.kv.NewSequence(); !s.Reserve(12 * compute.PagePositions) {
		t.Error("not all pages are free again")
	}
	e.sched.close(errors.New("closed")) // The bubble fails if a goroutine of the scheduler stays.
}

// gapBound limits a stream's longest gap between two tokens while a prompt is read, as a multiple of its usual gap.
const gapBound = 3

// TestGap: a long prompt is read in parts between which other streams continue, at any speed of the model: no step
// takes as long as three steps of single tokens. It times steps, not tokens, because on a busy machine a client may
// miss a step.
func TestGap(t *testing.T) {
	// In a bubble a client that can run does so before any time passes: a busy machine does not make it late.
	synctest.Test(t, testGap)
}

func testGap(t *testing.T) {
	for _, c := range []struct{ decode, row time.Duration }{{30 * time.Millisecond, 5 * time.Millisecond}, {8 * time.Millisecond, 50 * time.Microsecond}, {10 * time.Millisecond, 9 * time.Millisecond}} {
		const length = 2000
		e, m := openFake(t, 80, limits{rows: 512, outputs: 4, context: 4096})
		var longest atomic.Int64
		var reading, read atomic.Bool
		m.cost = func(p *compute.Params) time.Duration {
			cost := c.decode + time.Duration(len(p.Tokens)-p.Decode)*c.row
			if reading.Load() && !read.Load() && int64(cost) > longest.Load() {
				longest.Store(int64(cost))
			}
			return cost
		}
		rng := rand.New(rand.NewPCG(1, 0))
		prompt, reader, n := tokens(rng, length), make(chan struct{}), 0
		_, err := e.Generate(context.Background(), Request{Prompt: tokens(rng, 5), Max: 3000, Sampler: greedySampler{}, IgnoreEOG: true}, func(Token) bool {
			if n++; n == 20 {
				reading.Store(true)
				st, err := e.Submit(context.Background(), Request{Prompt: prompt, Max: 1, Sampler: greedySampler{}, IgnoreEOG: true})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					defer close(reader)
					if _, ok := st.Next(); !ok {
						t.Error(st.Err())
					}
					read.Store(true)
				}()
			}
			return !read.Load()
		})
		<-reader
		if err != nil {
			t.Fatal(err)
		}
		if gap := time.Duration(longest.Load()); gap >= gapBound*c.decode || gap == c.decode {
			t.Errorf("%+v: the longest gap is %v, %.1f times the usual one", c, gap, float64(gap)/float64(c.decode))
		}
	}
}

// TestSamplingOutside: other requests continue while one request's sampler, or the reader of its tokens, is slow.
func TestSamplingOutside(t *testing.T) {
	synctest.Test(t, testSamplingOutside)
}

func testSamplingOutside(t *testing.T) {
	e, _ := openFake(t, 8, limits{rows: 32, outputs: 4, context: 256})
	prompt := []int32{1, 2, 3}
	others := make(chan int, 100)
	slow := greedySampler{before: func() {
		for range 5 { // tokens of the other request
			<-others
		}
	}}
	var group sync.WaitGroup
	group.Go(func() {
		st, err := e.Submit(context.Background(), Request{Prompt: prompt, Max: 4, Sampler: slow, IgnoreEOG: true})
		if err != nil {
			t.Error(err)
			return
		}
		defer st.Close()
		var out []int32
		for tok, ok := st.Next(); ok; tok, ok = st.Next() {
			out = append(out, tok.ID)
		}
		if want := alone(prompt, 4); !slices.Equal(out, want) {
			t.Errorf("%v, want %v", out, want)
		}
	})
	time.Sleep(10 * time.Millisecond) // it is alone at first, and its logits are where the next step would write
	for range 2 {
		group.Go(func() {
			_, err := e.Generate(context.Background(), Request{Prompt: []int32{4, 5}, Max: 100, Sampler: greedySampler{}, IgnoreEOG: true}, func(Token) bool {
				select {
				case others <- 1:
				default:
				}
				return true
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case <-time.After(50 * time.Millisecond): // nothing else can continue
			select {
			case others <- 1: // the first token, chosen in place while nothing else runs, needs no other
			default:
			}
		}
	}
}

// TestForgottenStream: a request whose tokens nobody reads does not keep others from its pages.
func TestForgottenStream(t *testing.T) {
	e, _ := openFake(t, 4, limits{rows: 64, outputs: 1, context: 3 * compute.PagePositions})
	rng := rand.New(rand.NewPCG(3, 0))
	first, second := tokens(rng, 150), tokens(rng, 160)
	st, err := e.Submit(context.Background(), Request{Prompt: first, Max: 20, Sampler: greedySampler{}, IgnoreEOG: true})
	if err != nil {
		t.Fatal(err)
	}
	tok, _ := st.Next()
	out := []int32{tok.ID}
	var other []int32
	if _, err := e.Generate(context.Background(), Request{Prompt: second, Max: 20, Sampler: greedySampler{}, IgnoreEOG: true}, func(tok Token) bool {
		other = append(other, tok.ID)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for tok, err := range st.Tokens() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tok.ID)
	}
	if !slices.Equal(out, alone(first, 20)) || !slices.Equal(other, alone(second, 20)) {
		t.Errorf("%v and %v", out, other)
	}
}

// TestCancelWaiting: a waiting request, or one that is being read, leaves at once and holds nothing. After Close
// nothing continues.
func TestCancelWaiting(t *testing.T) {
	e, m := openFake(t, 4, limits{rows: 16, outputs: 1, context: 3 * compute.PagePositions})
	blocked := make(chan struct{})
	m.cost = func(*compute.Params) time.Duration { <-blocked; return 0 }
	ctx, cancel := context.WithCancel(context.Background())
	var streams []*Stream
	for range 3 {
		st, err := e.Submit(ctx, Request{Prompt: make([]int32, 100), Max: 5, Sampler: greedySampler{}, IgnoreEOG: true})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, st)
	}
	cancel()
	for _, st := range streams {
		if _, ok := st.Next(); ok || st.Result().Stop != StopCancelled || st.Err() != nil {
			t.Errorf("stopped by %q, %v", st.Result().Stop, st.Err())
		}
	}
	close(blocked)
	e.sched.close(errors.New("closed for the night"))
	if n := e.heldPages(); n != 0 {
		t.Errorf("%d pages are held", n)
	}
	if _, err := e.Submit(context.Background(), Request{Prompt: []int32{1}, Sampler: greedySampler{}}); err == nil || !strings.Contains(err.Error(), "night") {
		t.Errorf("after Close: %v", err)
	}
}

// TestCancelInRecurrentStep: a request leaves while a step reads its prompt. Its recurrent state has then read more
// positions than the cache has, so it must not become a checkpoint for later requests.
func TestCancelInRecurrentStep(t *testing.T) {
	e, m := openFakeRecurrent(t, 4, 4, limits{rows: 16, outputs: 1, context: 3 * compute.PagePositions})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	m.cost = func(*compute.Params) time.Duration {
		if m.steps == 2 {
			cancel()
			<-left
		}
		return 0
	}
	prompt := tokens(rand.New(rand.NewPCG(1, 0)), 60)
	request := Request{Prompt: prompt, Max: 5, Sampler: greedySampler{}, IgnoreEOG: true}
	if res, err := e.Generate(ctx, request, nil); err != nil || res.Stop != StopCancelled {
		t.Fatalf("stopped by %q, %v", res.Stop, err)
	}
	close(left)
	var out []int32
	if _, err := e.Generate(t.Context(), request, func(tok Token) bool { out = append(out, tok.ID); return true }); err != nil {
		t.Fatal(err)
	}
	if want := alone(prompt, 5); !slices.Equal(out, want) {
		t.Errorf("%v after a request that left, alone %v", out, want)
	}
}

// TestCloseWhileAwaiting: Close ends an engine that waits for one client while another's prompt is read.
func TestCloseWhileAwaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, m := openFake(t, 8, limits{rows: 16, outputs: 2, context: 128})
		blocked := make(chan struct{})
		m.cost = func(*compute.Params) time.Duration { <-blocked; return 0 }
		var streams []*Stream
		for _, n := range []int{2, 100} {
			st, err := e.Submit(t.Context(), Request{Prompt: make([]int32, n), Max: 5, Sampler: greedySampler{}, IgnoreEOG: true})
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, st)
		}
		close(blocked)
		synctest.Wait()
		if e.sched.awaited != 1 {
			t.Fatalf("%d clients are awaited, want 1", e.sched.awaited)
		}
		closed := errors.New("closed")
		e.sched.close(closed)
		for i, st := range streams {
			for _, ok := st.Next(); ok; _, ok = st.Next() {
			}
			if st.Err() != closed {
				t.Errorf("request %d: %v", i, st.Err())
			}
		}
	})
}

// TestNeverFits: a request that can never fit is refused with both numbers.
func TestNeverFits(t *testing.T) {
	e, _ := openFake(t, 3, limits{rows: 16, outputs: 1, context: 128})
	_, err := e.Submit(context.Background(), Request{Prompt: make([]int32, 129), Sampler: greedySampler{}})
	if err == nil || !strings.Contains(err.Error(), "129") || !strings.Contains(err.Error(), "128") {
		t.Errorf("%v", err)
	}
}

// TestFailedStep: an error of the model ends the requests of its step, and no others.
func TestFailedStep(t *testing.T) {
	e, m := openFake(t, 8, limits{rows: 16, outputs: 2, context: 128})
	m.fail = func(step int) error {
		if step == 3 {
			return fmt.Errorf("step %d failed", step)
		}
		return nil
	}
	for i, want := range []string{"step 3 failed", ""} {
		_, err := e.Generate(context.Background(), Request{Prompt: []int32{1, 2}, Max: 5, Sampler: greedySampler{}, IgnoreEOG: true}, nil)
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("request %d: %v, want %q", i, err, want)
		}
	}
	if n := e.heldPages(); n != 0 {
		t.Errorf("%d pages are held", n)
	}
}

// TestPace: parts of prompts have few different lengths.
func TestPace(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 4, 6: 6, 7: 6, 8: 8, 11: 8, 12: 12, 100: 96, 128: 128} {
		if got := round(n); got != want {
			t.Errorf("%d is rounded to %d, want %d", n, got, want)
		}
	}
}

// idleModel computes nothing.
type idleModel struct{ row []float32 }

func (idleModel) run(*compute.Params, wanted) error { return nil }

func (idleModel) turn(*compute.Params) error { return nil }
func (idleModel) prepare() bool              { return false }
func (m idleModel) logits(int) []float32     { return m.row }
func (m idleModel) hidden(int) []float32     { return m.row }
func (m idleModel) state(int) []float32      { return m.row }
func (idleModel) cache() (*kvcache.Cache, contents) {
	return kvcache.New(kvcache.Size{Pages: 1 << 15, Positions: compute.PagePositions}, func(_, _ kvcache.Page) {}), nil
}

// BenchmarkHandOver measures a token of a single sequence without the model and the sampler.
func BenchmarkHandOver(b *testing.B) {
	l := limits{rows: 32, outputs: 1, context: 1 << 20}
	e := &Engine{context: l.context}
	e.config.Vocab = fakeVocab
	e.sched = newScheduler(idleModel{make([]float32, fakeVocab)}, l, monotime.Now)
	defer e.sched.close(errors.New("closed"))
	st, err := e.Submit(context.Background(), Request{Prompt: []int32{1}, Max: -1, Sampler: greedySampler{}, IgnoreEOG: true})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := st.Next(); !ok {
			b.Fatal(st.Err())
		}
	}
}

// TestPromptsCostNothing: steps with a short prompt do not count for the cost of checking drafts. An engine's first
// step, which is slow, often has one.
func TestPromptsCostNothing(t *testing.T) {
	e, m := openFake(t, 8, limits{rows: 32, outputs: 1, context: 256})
	e.sched.short = 8
	first := true
	m.cost = func(p *compute.Params) time.Duration {
		if first {
			first = false
			return time.Second
		}
		return time.Millisecond
	}
	if _, err := e.Generate(context.Background(), Request{Prompt: []int32{1, 2, 3}, Max: 4, Sampler: greedySampler{}, IgnoreEOG: true}, nil); err != nil {
		t.Fatal(err)
	}
	e.sched.mu.Lock()
	defer e.sched.mu.Unlock()
	if c := &e.sched.costs; c.time(1) != float64(time.Millisecond) || c.widest() != 1 {
		t.Errorf("a step of one token takes %v, the widest had %d tokens", time.Duration(c.time(1)), c.widest())
	}
}
