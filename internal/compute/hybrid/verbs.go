package hybrid

import (
	"cmp"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// verbs sends each verb to the processor that has what it needs. Host verbs are gathered until the card's turn comes; then they become
// one function, which the card calls in every replay.
type verbs struct {
	d    *Device
	card Meeting
	seg  compute.Segment
	err  error

	next    *stretch       // of host verbs that no Beside has yet
	guess   *compute.Guess // at the next layer, for this layer's SparseFFN
	guessed *guessed       // at this layer

	last *stretch // the one before: what the card takes next was written by it or earlier
}

// fail keeps the first error of the recording; Run returns it.
func (r *verbs) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// stretch is a function of the host: it loads what the card shows, computes, and stores what the card takes.
type stretch struct {
	d      *Device
	name   string // of a weight that it is for, for the trace
	seg    compute.Segment
	loads  []func()
	verbs  []func(v compute.Verbs)
	stores []func()
	body   func(v compute.Verbs) // runs verbs
}

func (r *verbs) stretch() *stretch {
	if r.next == nil {
		s := &stretch{d: r.d, seg: r.seg}
		s.seg.Name = fmt.Sprintf("%s, host", r.seg.Name)
		s.body = func(v compute.Verbs) {
			for _, verb := range s.verbs {
				verb(v)
			}
		}
		r.next = s
	}
	return r.next
}

func (s *stretch) run(p *compute.Params) error {
	from := s.d.trace.Now()
	err := s.compute(p)
	s.d.trace.Span(trace.Host, cmp.Or(s.name, "activations"), from)
	return err
}

func (s *stretch) compute(p *compute.Params) error {
	for _, load := range s.loads {
		load()
	}
	if len(s.verbs) > 0 {
		if err := s.d.host.Run(s.seg, p, s.body); err != nil {
			return &hostError{err}
		}
	}
	for _, store := range s.stores {
		store()
	}
	return nil
}

// named says what s is for, if nothing has yet.
func (s *stretch) named(w *compute.Matrix) {
	if s.name == "" {
		s.name = w.Name
	}
}

// meet hands what the host has to do to the card, which computes what during records at the same time.
func (r *verbs) meet(during func()) {
	if r.next == nil {
		if during != nil {
			during()
		}
		return
	}
	r.last, r.next = r.next, nil
	r.card.Beside(r.last.run, during)
}

// toCard has the card's memory hold t. It ends the host's stretch, for the card goes on.
func (r *verbs) toCard(tensors ...compute.Tensor) {
	r.meet(nil)
	for _, t := range tensors {
		m, ok := t.Mem.(*tensor)
		if !ok || m.onCard {
			continue
		}
		m.onCard = true
		if r.last == nil {
			continue // it never had a content: the card's is as good
		}
		from, to := viewed(t, m.host), r.card.Take(viewed(t, m.card))
		r.last.stores = append(r.last.stores, func() { copy(to(), r.d.host.Data(from)) })
	}
}

// toHost has the host's memory hold t.
func (r *verbs) toHost(tensors ...compute.Tensor) {
	for _, t := range tensors {
		m, ok := t.Mem.(*tensor)
		if !ok || m.onHost {
			continue
		}
		m.onHost = true
		from, to := r.card.Show(viewed(t, m.card)), viewed(t, m.host)
		s := r.stretch()
		s.loads = append(s.loads, func() { copy(r.d.host.Data(to), from()) })
	}
}

// leave shows tensors that another card's part of the pass goes on with. What it returns brings them to the host's memory when this
// part has run, in every replay: no turn of the host is needed for it.
func (r *verbs) leave(tensors ...compute.Tensor) (bring []func()) {
	r.meet(nil)
	for _, t := range tensors {
		m := t.Mem.(*tensor)
		if m.onHost {
			continue
		}
		m.onHost = true
		from, to := r.card.Show(viewed(t, m.card)), viewed(t, m.host)
		bring = append(bring, func() { copy(r.d.host.Data(to), from()) })
	}
	return bring
}

// arrive says that the host's memory holds tensors which another card's part of the pass has left there.
func (r *verbs) arrive(tensors ...compute.Tensor) {
	for _, t := range tensors {
		r.stretch() // what the card takes is stored in the host's turn
		written(t, false)
	}
}

// written says where t's content is now.
func written(t compute.Tensor, card bool) {
	m := t.Mem.(*tensor)
	m.onCard, m.onHost = card, !card
}

// onHost has the host run verb.
func (r *verbs) onHost(verb func(v compute.Verbs)) {
	s := r.stretch()
	s.verbs = append(s.verbs, verb)
}

// prefer is where a verb without weights runs: on the card, unless only the host has all operands.
func prefer(tensors ...compute.Tensor) (card bool) {
	card, host := true, true
	for _, t := range tensors {
		if m, ok := t.Mem.(*tensor); ok {
			card, host = card && m.onCard, host && m.onHost
		}
	}
	return card || !host
}

func onCardOf(t compute.Tensor) compute.Tensor {
	if m, ok := t.Mem.(*tensor); ok {
		return viewed(t, m.card)
	}
	return t
}

func onHostOf(t compute.Tensor) compute.Tensor {
	if m, ok := t.Mem.(*tensor); ok {
		return viewed(t, m.host)
	}
	return t
}

// Embed runs where the table is.
func (r *verbs) Embed(dst compute.Tensor, table *compute.Matrix) {
	card := onCard(table)
	if card {
		r.toCard()
		r.card.Embed(onCardOf(dst), mem(table).card)
	} else {
		r.onHost(func(v compute.Verbs) { v.Embed(onHostOf(dst), mem(table).host) })
		r.stretch().named(table)
	}
	written(dst, card)
}

// AddPosition runs where the table is.
func (r *verbs) AddPosition(x compute.Tensor, table *compute.Matrix, offset int) {
	card := onCard(table)
	if card {
		r.toCard(x)
		r.card.AddPosition(onCardOf(x), mem(table).card, offset)
	} else {
		r.toHost(x)
		r.onHost(func(v compute.Verbs) { v.AddPosition(onHostOf(x), mem(table).host, offset) })
	}
	written(x, card)
}

// weightless runs a verb that reads in and writes out where the operands are.
func (r *verbs) weightless(out compute.Tensor, in []compute.Tensor, verb func(v compute.Verbs, of func(compute.Tensor) compute.Tensor, vec func(*compute.Vector) *compute.Vector)) {
	card := prefer(in...)
	if card {
		r.toCard(in...)
		verb(r.card, onCardOf, cardVector)
	} else {
		r.toHost(in...)
		r.onHost(func(v compute.Verbs) { verb(v, onHostOf, hostVector) })
	}
	written(out, card)
}

// RMSNorm runs where x is.
func (r *verbs) RMSNorm(dst, x compute.Tensor, w *compute.Vector, eps float32) {
	r.weightless(dst, []compute.Tensor{x}, func(v compute.Verbs, of func(compute.Tensor) compute.Tensor, vec func(*compute.Vector) *compute.Vector) {
		v.RMSNorm(of(dst), of(x), vec(w), eps)
	})
}

// LayerNorm runs where x is.
func (r *verbs) LayerNorm(dst, x compute.Tensor, w, b *compute.Vector, eps float32) {
	r.weightless(dst, []compute.Tensor{x}, func(v compute.Verbs, of func(compute.Tensor) compute.Tensor, vec func(*compute.Vector) *compute.Vector) {
		v.LayerNorm(of(dst), of(x), vec(w), vec(b), eps)
	})
}

// RoPE runs where x is.
func (r *verbs) RoPE(x compute.Tensor, headDim int, rope *compute.Rope) {
	r.weightless(x, []compute.Tensor{x}, func(v compute.Verbs, of func(compute.Tensor) compute.Tensor, _ func(*compute.Vector) *compute.Vector) {
		v.RoPE(of(x), headDim, rope)
	})
}

// Add runs where both are.
func (r *verbs) Add(dst, x compute.Tensor) {
	r.weightless(dst, []compute.Tensor{dst, x}, func(v compute.Verbs, of func(compute.Tensor) compute.Tensor, _ func(*compute.Vector) *compute.Vector) {
		v.Add(of(dst), of(x))
	})
}

// Activate runs where its operands are.
func (r *verbs) Activate(dst, gate, up compute.Tensor, act compute.Activation) {
	r.weightless(dst, []compute.Tensor{gate, up}, func(v compute.Verbs, of func(compute.Tensor) compute.Tensor, _ func(*compute.Vector) *compute.Vector) {
		v.Activate(of(dst), of(gate), of(up), act)
	})
}

// Gather runs where x is.
func (r *verbs) Gather(dst, x compute.Tensor) {
	r.weightless(dst, []compute.Tensor{x}, func(v compute.Verbs, of func(compute.Tensor) compute.Tensor, _ func(*compute.Vector) *compute.Vector) {
		v.Gather(of(dst), of(x))
	})
}

// MatMul computes each product where its weights are.
func (r *verbs) MatMul(x compute.Tensor, p compute.Products) {
	var card, host compute.Products
	nCard, nHost := 0, 0
	for _, y := range p {
		if y.W == nil {
			break
		}
		if onCard(y.W) {
			card[nCard] = compute.Product{Out: onCardOf(y.Out), W: mem(y.W).card, Bias: cardVector(y.Bias)}
			nCard++
		} else {
			host[nHost] = compute.Product{Out: onHostOf(y.Out), W: mem(y.W).host, Bias: hostVector(y.Bias)}
			nHost++
		}
	}
	if nHost > 0 {
		r.toHost(x)
		r.onHost(func(v compute.Verbs) { v.MatMul(onHostOf(x), host) })
		r.stretch().named(host[0].W)
	}
	if nCard > 0 {
		r.toCard(x)
		r.card.MatMul(onCardOf(x), card)
	}
	for _, y := range p[:nCard+nHost] {
		written(y.Out, onCard(y.W))
	}
}

// StoreKV runs where the layer's cache is.
func (r *verbs) StoreKV(c *compute.Cache, layer int, k, v compute.Tensor) {
	m := c.Mem.(*cache)
	if r.d.attention[layer] {
		r.toCard(k, v)
		r.card.StoreKV(m.card, m.index[layer], onCardOf(k), onCardOf(v))
		return
	}
	r.toHost(k, v)
	r.onHost(func(on compute.Verbs) { on.StoreKV(m.host, m.index[layer], onHostOf(k), onHostOf(v)) })
}

// Attention runs where the layer's cache is.
func (r *verbs) Attention(out, q compute.Tensor, c *compute.Cache, layer int, scale float32) {
	m := c.Mem.(*cache)
	card := r.d.attention[layer]
	if card {
		r.toCard(q)
		r.card.Attention(onCardOf(out), onCardOf(q), m.card, m.index[layer], scale)
	} else {
		r.toHost(q)
		r.onHost(func(v compute.Verbs) { v.Attention(onHostOf(out), onHostOf(q), m.host, m.index[layer], scale) })
	}
	written(out, card)
}

// Host ends both devices' work and calls f.
func (r *verbs) Host(f func()) {
	r.meet(nil)
	r.card.Host(f)
}
