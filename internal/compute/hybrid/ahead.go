package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// While the host waits for the card's attention, its memory is idle. It reads ahead what it is going to compute with: in layers without
// a set the rows that decide, which are read whatever the token; in predict the neurons that the layer's predictor would choose from the
// residual of the layer before, which the card guesses beside that layer's cold neurons. The guess decides nothing.

// Idler is a Meeting that can have the host do something while it waits.
type Idler interface {
	Meeting
	// Idles says whether cores and memory have nothing to do while the host waits: not beside a device that uses them itself.
	Idles() bool
	// Meanwhile has the host call f while it waits in the next Beside. done says whether the wait is over, ready whether what ran beside
	// the turn before has run: what that showed is there.
	Meanwhile(f func(ready, done func() bool))
}

// Reader is a host that can bring weights into its cache.
type Reader interface {
	// ReadAhead reads rows that a SparseFFN for one token will need, until done.
	ReadAhead(s compute.Set, w compute.SparseWeights, done func() bool)
}

// Ahead says whether the host reads ahead.
type Ahead int

// Whether it does.
const (
	IfIdle Ahead = iota // where cores and memory are idle: Idler.Idles
	Never
	Always
)

// ReadAhead has the host read ahead, or not; IfIdle unless it is called.
func (d *Device) ReadAhead(a Ahead) { d.ahead = a }

// guessed is a guess that the card shows.
type guessed struct {
	up    *compute.Matrix // of the layer that it is for
	words func() (words []uint32, perRow int)
}

// idle are card and host, if the host is idle where it waits and can make use of it.
func (r *verbs) idle() (Idler, Reader, bool) {
	card, ok := r.card.(Idler)
	host, is := r.d.host.(Reader)
	return card, host, ok && is && r.d.ahead != Never && (r.d.ahead == Always || card.Idles())
}

// Foresee keeps g for this layer's SparseFFN.
func (r *verbs) Foresee(g compute.Guess) { r.guess = &g }

// guessable takes the guess at the layer after w's, if the card can make one that the host has a use for.
func (r *verbs) guessable(x compute.Tensor) *compute.Guess {
	g := r.guess
	r.guess = nil
	if g == nil || x.Rows != 1 {
		return nil
	}
	if _, _, ok := r.idle(); !ok {
		return nil
	}
	up := mem(g.Weights.Up)
	if up.card == nil || up.host == nil || !onCard(g.FC1) || !onCard(g.FC2) || !g.X.Mem.(*tensor).onCard {
		return nil
	}
	return g
}

// makeGuess records the guess, on the card, behind the hot neurons.
func (r *verbs) makeGuess(g *compute.Guess) {
	in := onCardOf(g.X)
	if g.Norm != nil {
		in = onCardOf(g.H)
		r.card.RMSNorm(in, onCardOf(g.X), cardVector(g.Norm), g.Eps)
		written(g.H, false)
	}
	m := sets(g.Set)
	r.card.Predict(setView(g.Set, m.card), in, onCardOf(g.Hidden), onCardOf(g.Logits), mem(g.FC1).card, mem(g.FC2).card)
	m.onCard = false
	r.guessed = &guessed{g.Weights.Up, r.card.ShowSet(setView(g.Set, m.card))}
}

// readAhead has the host read cold, the neurons of f from hot on, while it waits for the turn in which it computes with them.
func (r *verbs) readAhead(x compute.Tensor, s compute.Set, f compute.SparseWeights, cold compute.SparseWeights, hot int) {
	known := r.guessed
	r.guessed = nil
	card, host, ok := r.idle()
	if !ok || x.Rows != 1 {
		return
	}
	rest, log := compute.Set{Rows: 1, N: f.Up.Rows - hot}, r.d.trace
	read := func(done func() bool) {
		from := log.Now()
		host.ReadAhead(rest, cold, done)
		log.Span(trace.Host, "read ahead", from)
	}
	if s.Mem == nil {
		card.Meanwhile(func(_, done func() bool) { read(done) })
		return
	}
	if known == nil || known.up != f.Up {
		return
	}
	early, err := r.d.earlySet(f.Up.Rows)
	if err != nil {
		r.fail(err)
		return
	}
	rest.Mem = early.Mem
	card.Meanwhile(func(ready, done func() bool) {
		for !ready() {
			if done() {
				return
			}
		}
		words, perRow := known.words()
		r.d.host.FillSet(rest, words, perRow, hot)
		read(done)
	})
}

// earlySet is host memory for guesses at up to n neurons: layers take turns.
func (d *Device) earlySet(n int) (compute.Set, error) {
	if d.early.N >= n {
		return d.early, nil
	}
	var err error
	d.early, err = d.host.Set(1, n)
	return d.early, err
}
