package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// sets is s's memory, nil where it is all neurons.
func sets(s compute.Set) *set {
	if s.Mem == nil {
		return nil
	}
	return s.Mem.(*set)
}

func setView(s, memory compute.Set) compute.Set {
	return compute.Set{Rows: s.Rows, N: s.N, Mem: memory.Mem}
}

// Predict runs where the predictor is.
func (r *verbs) Predict(s compute.Set, x, hidden, logits compute.Tensor, fc1, fc2 *compute.Matrix) {
	m := sets(s)
	card := onCard(fc1) && onCard(fc2)
	if card {
		r.toCard(x)
		r.card.Predict(setView(s, m.card), onCardOf(x), onCardOf(hidden), onCardOf(logits), mem(fc1).card, mem(fc2).card)
	} else {
		r.toHost(x)
		r.onHost(func(v compute.Verbs) {
			v.Predict(setView(s, m.host), onHostOf(x), onHostOf(hidden), onHostOf(logits), mem(fc1).host, mem(fc2).host)
		})
	}
	m.onCard, m.onHost = card, !card
}

// setToCard has the card's memory hold s.
func (r *verbs) setToCard(s compute.Set) {
	m := sets(s)
	if m == nil || m.onCard {
		return
	}
	r.meet(nil)
	m.onCard = true
	to, from := r.card.TakeSet(setView(s, m.card)), setView(s, m.host)
	r.last.stores = append(r.last.stores, func() {
		words, perRow := to()
		r.d.host.SetWords(from, words, perRow)
	})
}

// setToHost has the host's memory hold s.
func (r *verbs) setToHost(s compute.Set) {
	m := sets(s)
	if m == nil || m.onHost {
		return
	}
	m.onHost = true
	r.loadSet(r.card.ShowSet(setView(s, m.card)), setView(s, m.host), 0)
}

// loadSet fills to with the neurons of a set that the card shows, counted from first.
func (r *verbs) loadSet(from func() ([]uint32, int), to compute.Set, first int) {
	s := r.stretch()
	s.loads = append(s.loads, func() {
		words, perRow := from()
		r.d.host.FillSet(to, words, perRow, first)
	})
}

// SparseFFN computes each neuron where its weights are, on both processors at the same time.
func (r *verbs) SparseFFN(out, x compute.Tensor, s compute.Set, f compute.SparseWeights) {
	up := mem(f.Up)
	guess := r.guessable(x)
	switch {
	case up.host == nil:
		r.toCard(x)
		r.setToCard(s)
		r.card.SparseFFN(onCardOf(out), onCardOf(x), cardSet(s), cardWeights(f))
		written(out, true)
	case r.stream(out, x, s, f):
	case up.card == nil:
		r.toHost(x)
		r.setToHost(s)
		set, w := s, hostWeights(f)
		if m := sets(s); m != nil {
			set = setView(s, m.host)
		}
		w.Count, w.DownBias = f.Count, hostVector(f.DownBias)
		r.onHost(func(v compute.Verbs) { v.SparseFFN(onHostOf(out), onHostOf(x), set, w) })
		r.stretch().named(f.Up)
		written(out, false)
	default:
		r.both(out, x, s, f, guess)
	}
}

func cardSet(s compute.Set) compute.Set {
	if m := sets(s); m != nil {
		return setView(s, m.card)
	}
	return s
}

func cardWeights(f compute.SparseWeights) compute.SparseWeights {
	f.Up, f.Down = mem(f.Up).card, mem(f.Down).card
	if f.Gate != nil {
		f.Gate = mem(f.Gate).card
	}
	f.UpBias, f.DownBias = cardVector(f.UpBias), cardVector(f.DownBias)
	return f
}

// hostWeights leaves out the bias of down, which is added once, and the count.
func hostWeights(f compute.SparseWeights) compute.SparseWeights {
	w := compute.SparseWeights{Up: mem(f.Up).host, Down: mem(f.Down).host, UpBias: hostVector(f.UpBias), Act: f.Act}
	if f.Gate != nil {
		w.Gate = mem(f.Gate).host
	}
	return w
}

// both computes hot neurons on the card while the host computes cold ones, and adds the host's sum to the card's.
func (r *verbs) both(out, x compute.Tensor, s compute.Set, f compute.SparseWeights, guess *compute.Guess) {
	hot, n := mem(f.Up).hot, f.Up.Rows
	warm, cold := cardWeights(f), hostWeights(f)
	cold.Count = &compute.NeuronCount{}
	partial, err := r.d.partial(out.Cols)
	if err == nil {
		warm.UpBias, err = part(f.UpBias, r.d.card, 0, hot)
	}
	if err == nil {
		cold.UpBias, err = part(f.UpBias, r.d.host, hot, n)
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.toCard(x)
	r.setToCard(s)
	r.toHost(x)
	rest := r.cold(s, hot, n)
	sum := viewed(out, partial.host)
	r.onHost(func(v compute.Verbs) { v.SparseFFN(sum, onHostOf(x), rest, cold) })
	work := r.stretch()
	work.named(f.Up)
	r.readAhead(x, s, f, cold, hot)
	r.meet(func() {
		set := cardSet(s)
		if set.Mem == nil {
			set.N = hot
		}
		r.card.SparseFFN(onCardOf(out), onCardOf(x), set, warm)
		if guess != nil {
			r.makeGuess(guess)
		}
	})
	from := viewed(out, partial.card)
	to := r.card.Take(from)
	work.stores = append(work.stores, func() {
		copy(to(), r.d.host.Data(sum))
		f.Count.Join(cold.Count)
	})
	r.card.Add(onCardOf(out), from)
	written(out, true)
}

// cold is the host's set of the neurons of s from hot on, counted from there.
func (r *verbs) cold(s compute.Set, hot, n int) compute.Set {
	m := sets(s)
	if m == nil {
		return compute.Set{Rows: s.Rows, N: n - hot}
	}
	to := compute.Set{Rows: s.Rows, N: n - hot, Mem: m.cold.Mem}
	if !m.onHost {
		r.loadSet(r.card.ShowSet(setView(s, m.card)), to, hot)
		return to
	}
	perRow := (n + 31) / 32
	if len(m.words) < s.Rows*perRow {
		m.words = make([]uint32, s.Rows*perRow)
	}
	words, all, host := m.words, setView(s, m.host), r.d.host
	work := r.stretch()
	work.loads = append(work.loads, func() {
		host.SetWords(all, words, perRow)
		host.FillSet(to, words, perRow, hot)
	})
	return to
}
