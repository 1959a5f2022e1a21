package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// maxTexts is the largest number of texts of one request for embeddings.
const maxTexts = 2048

// ReadTexts reads the texts of a request for embeddings from the first of the fields names that is there: a text, a
// list of tokens, or a list of both.
func (m *Model) ReadTexts(f *Fields, names ...string) [][]int32 {
	var raw json.RawMessage
	for _, name := range names {
		if v := f.Raw(name); raw == nil {
			raw = v
		}
	}
	if raw == nil {
		f.Fail(Invalid("the field %s is missing", names[0]))
		return nil
	}
	texts, err := m.textsOf(f.context(), raw, names[0])
	if err != nil {
		f.Fail(err)
	}
	return texts
}

func (m *Model) textsOf(ctx context.Context, raw json.RawMessage, name string) ([][]int32, error) {
	if ids, ok, err := m.oneText(ctx, raw); ok || err != nil {
		return [][]int32{ids}, err
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 || len(parts) > maxTexts {
		return nil, Invalid("the field %s is none of a text, a list of tokens, and a list of up to %d of them", name, maxTexts)
	}
	texts := make([][]int32, len(parts))
	for i, p := range parts {
		ids, ok, err := m.oneText(ctx, p)
		if err != nil {
			return nil, err
		}
		if texts[i] = ids; !ok {
			return nil, Invalid("element %d of the field %s is neither a text nor a list of tokens of the vocabulary", i, name)
		}
	}
	return texts, nil
}

// oneText returns the tokens of a text, or of a list of them.
func (m *Model) oneText(ctx context.Context, raw json.RawMessage) (ids []int32, ok bool, err error) {
	var text string
	if readText(raw, &text) {
		if text == "" {
			return nil, true, nil // an embedding of the token that begins a text is not meant
		}
		ids, err = m.Encode(ctx, text, true, true)
		return ids, err == nil, err
	}
	if decode(raw, &ids) != nil || len(ids) == 0 || hasNull(raw) {
		return nil, false, nil
	}
	for _, id := range ids {
		if id < 0 || int(id) >= m.Engine.Config().Vocab {
			return nil, false, nil
		}
	}
	return ids, true, nil
}

// Embed returns the embeddings of texts, each as engine.Engine.Embed does. They take one slot together, and as many
// share a step as it has room for.
func (m *Model) Embed(ctx context.Context, texts [][]int32, p engine.Pooling) ([][][]float32, error) {
	tokens := 0
	for _, ids := range texts {
		if len(ids) == 0 {
			return nil, Invalid("a text to embed is empty")
		}
		if n := m.Context(); len(ids) > n {
			return nil, &engine.ContextError{Tokens: len(ids), Context: n}
		}
		if c, n := m.Engine.Config(), m.Engine.Step(); c.Later && len(ids) > n {
			return nil, Invalid("a text of %d tokens is longer than the %d that the server computes at a time, and this model must see all of it: start it with --ubatch-size %d", len(ids), n, len(ids))
		}
		tokens += len(ids)
	}
	if err := m.enter(1); err != nil {
		return nil, err
	}
	defer m.waiting.Add(-1)
	slot, err := m.slots.take(ctx, AnySlot)
	if err != nil {
		return nil, err
	}
	defer m.slots.give(slot)
	m.slots.begin(slot, nil)
	begin := time.Now()
	all, err := m.Engine.EmbedAll(ctx, texts, p)
	if err != nil {
		return nil, err
	}
	m.Count.Read(tokens, time.Since(begin))
	return all, nil
}

// CheckEmbeds refuses requests for embeddings where the server gives none, or not one for each text.
func (m *Model) CheckEmbeds() error {
	switch m.Pooling {
	case engine.PoolNone:
		return Invalid("the server was started with --pooling none, which gives a vector for each token; POST /embedding returns them")
	case engine.PoolRank:
		return Invalid("%s ranks documents: POST /rerank; --pooling mean, cls or last gives embeddings", m.Name)
	}
	return nil
}
