package server

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
)

// grammarBytes bounds what compiled grammars of past requests take; those used last stay.
const grammarBytes = 256 << 20

// A held is what a text can be held to: a compiled grammar, and where it is one of answers, where it begins to hold.
type held struct {
	key      [sha256.Size]byte
	compiled *grammar.Compiled
	answer   *answer.Constraint // nil: it holds from the beginning
}

// grammars are compiled grammars of past requests, by their content, the one used last at the end. Clients send the
// same tools and schemas with every request.
type grammars struct {
	mu  sync.Mutex
	all []*held
}

// key names a grammar by its content.
func key(kind string, parts ...any) [sha256.Size]byte {
	text, _ := json.Marshal(append([]any{kind}, parts...)) // texts, booleans, and JSON that requests hold
	return sha256.Sum256(text)
}

// find returns the grammar of a key, made where it is not there.
func (g *grammars) find(key [sha256.Size]byte, make func() (*held, error)) (*held, error) {
	if h := g.use(key); h != nil {
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
		if sum += h.compiled.Bytes(); sum > grammarBytes && i < len(g.all)-1 {
			g.all = slices.Delete(g.all, 0, i+1)
			return
		}
	}
}
