package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
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

// A held is what a text can be held to: a compiled grammar, and where it is one of answers, where it begins to hold.
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
	turn turns // of those who compile
}

// key names a grammar by its content.
func key(kind string, parts ...any) [sha256.Size]byte {
	text, _ := json.Marshal(append([]any{kind}, parts...)) // texts, booleans, and JSON that requests hold
	return sha256.Sum256(text)
}

// find returns the grammar of a key, which make returns where it is not there: when it is the client's turn, unless ctx
// ends.
func (g *grammars) find(ctx context.Context, client string, key [sha256.Size]byte, make func() (*held, error)) (*held, error) {
	if h := g.use(key); h != nil {
		return h, nil
	}
	if err := g.turn.take(ctx, client); err != nil {
		return nil, err
	}
	defer g.turn.give(client)
	if h := g.use(key); h != nil { // of another request, meanwhile
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

// turns let few compile at a time: of the processors at most a quarter, and each client one grammar. The client that
// had its turn last goes last. The zero value is ready for use.
type turns struct {
	mu      sync.Mutex
	now     []string // the clients of those who compile
	last    string   // the client that was let in last
	waiting []*turn  // oldest first
}

// turn is somebody who waits for one.
type turn struct {
	client string
	given  chan struct{}
}

// take waits for a turn of the client. give must follow unless it is an error: that of ctx, which has ended.
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
	} else { // it was given just before
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

// leave ends a turn of the client; mu is held.
func (t *turns) leave(client string) {
	i := slices.Index(t.now, client)
	t.now = slices.Delete(t.now, i, i+1)
	t.next()
}

// next lets in who may be; mu is held.
func (t *turns) next() {
	for len(t.now) < max(1, runtime.GOMAXPROCS(0)/4) {
		may := func(w *turn) bool { return !slices.Contains(t.now, w.client) }
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

// grammar returns the grammar of a key, which make returns where it is not there. Whoever waits for it counts among the
// requests that wait.
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

// Unusable returns the error of a field with a schema or a grammar that cannot be used. What is not the schema's fault
// stays as it is.
func Unusable(err error, format string, values ...any) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := Invalid(format, values...)
	e.Message += ": " + err.Error()
	return e
}
