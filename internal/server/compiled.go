package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"runtime"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// Bounds of the compiled grammars of past requests; those used last stay.
const (
	grammarBytes = 32 << 20
	mostGrammars = 256
)

// held is a constraint on a text: a compiled grammar and, for grammars of answers, where it begins to hold.
type held struct {
	key      [sha256.Size]byte
	compiled *grammar.Compiled
	answer   *answer.Constraint // nil: it holds from the beginning
}

// grammars are compiled grammars of past requests, by their content, the one used last at the end. Clients send the
// same tools and schemas with every request.
type grammars struct {
	mu   sync.Mutex
	all  []*held
	turn turns // limits how many compile at a time
}

// key names a grammar by its content.
func key(kind string, parts ...any) [sha256.Size]byte {
	text, _ := json.Marshal(append([]any{kind}, parts...)) // texts, booleans, and JSON that requests hold
	return sha256.Sum256(text)
}

// find returns the grammar of a key. If it is not there, find waits for the client's turn, until ctx ends, and calls
// make.
func (g *grammars) find(ctx context.Context, client string, key [sha256.Size]byte, make func() (*held, error)) (*held, error) {
	if h := g.use(key); h != nil {
		return h, nil
	}
	if err := g.turn.take(ctx, client); err != nil {
		return nil, err
	}
	defer g.turn.give(client)
	if h := g.use(key); h != nil { // another request has made it meanwhile
		return h, nil
	}
	h, err := make()
	if err != nil {
		return nil, err
	}
	h.key = key
	g.add(h)
	return h, nil
}

func (g *grammars) use(key [sha256.Size]byte) *held {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.all, func(h *held) bool { return h.key == key })
	if i < 0 {
		return nil
	}
	h := g.all[i]
	g.all = append(slices.Delete(g.all, i, i+1), h)
	return h
}

// add keeps h, and drops those not used for longest where all take too much.
func (g *grammars) add(h *held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, h)
	sum := 0
	for i, h := range slices.Backward(g.all) {
		if sum += h.compiled.Bytes(); i < len(g.all)-1 && (sum > grammarBytes || i < len(g.all)-mostGrammars) {
			g.all = slices.Delete(g.all, 0, i+1)
			return
		}
	}
}

// turns limit how many grammars are compiled at a time: one for each client, and together at most a quarter of the
// CPUs. The client that had the last turn waits for the others. The zero value is ready for use.
type turns struct {
	mu      sync.Mutex
	now     []string // the clients that compile now
	last    string   // the client that was let in last
	waiting []*turn  // oldest first
}

// turn is a request that waits for its turn.
type turn struct {
	client string
	given  chan struct{}
}

// take waits for a turn of the client. The caller must call give afterwards, unless take returns an error, because ctx
// has ended.
func (t *turns) take(ctx context.Context, client string) error {
	w := &turn{client, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.next()
	t.mu.Unlock()
	select {
	case <-w.given:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // the turn was given just before
		t.leave(client)
	}
	return context.Cause(ctx)
}

// give ends a turn of the client.
func (t *turns) give(client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave(client)
}

// leave ends a turn of the client. mu is held.
func (t *turns) leave(client string) {
	i := slices.Index(t.now, client)
	t.now = slices.Delete(t.now, i, i+1)
	t.next()
}

// next gives turns to the clients that are due. mu is held.
func (t *turns) next() {
	for len(t.now) < max(1, runtime.GOMAXPROCS(0)/4) {
		may := func(w *turn) bool { return w.client == "" || !slices.Contains(t.now, w.client) } // empty: see clientOf
		i := slices.IndexFunc(t.waiting, func(w *turn) bool { return may(w) && w.client != t.last })
		if i < 0 {
			i = slices.IndexFunc(t.waiting, may)
		}
		if i < 0 {
			return
		}
		w := t.waiting[i]
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.now, t.last = append(t.now, w.client), w.client
		close(w.given)
	}
}

// grammar returns the grammar of a key. If it is not cached, it calls make. A request that waits for its turn to
// compile counts among the waiting requests (--max-queue).
func (m *Model) grammar(g *Generation, key [sha256.Size]byte, make func(ctx context.Context) (*held, error)) (*held, error) {
	if h := m.grammars.use(key); h != nil {
		return h, nil
	}
	if err := m.enter(1); err != nil {
		return nil, err
	}
	defer m.waiting.Add(-1)
	ctx := g.context()
	return m.grammars.find(ctx, g.client, key, func() (*held, error) { return make(ctx) })
}
