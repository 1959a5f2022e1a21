package powerinfer

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// Embed returns the embedding of each of texts, a vector of length 1. Texts that share a step are computed together.
// Options.Pooling says how the states of a text's tokens become one vector.
func (m *Model) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	pooling, err := m.pooling()
	if err != nil {
		return nil, err
	}
	tokens := make([][]int32, len(texts))
	for i, text := range texts {
		if tokens[i] = m.Tokenize(text, true, true); text == "" {
			return nil, fmt.Errorf("text %d of %d is empty", i, len(texts))
		}
	}
	all, err := m.session.EmbedAll(ctx, tokens, pooling)
	if err != nil {
		return nil, tell(err)
	}
	vectors := make([][]float32, len(texts))
	for i, v := range all {
		vectors[i] = v[0]
		engine.Normalise(vectors[i], 2)
	}
	return vectors, nil
}

// pooling returns how Embed pools states.
func (m *Model) pooling() (engine.Pooling, error) {
	if m.pool != "" {
		return m.pool, nil
	}
	p, err := engine.PoolingOf(m.session.File)
	switch {
	case err != nil:
		return "", tell(err)
	case p == engine.PoolRank:
		return "", fmt.Errorf("%s ranks documents: ask it by Rerank, or set Options.Pooling", m.info.Path)
	case p == engine.PoolNone:
		return engine.PoolMean, nil
	}
	return p, nil
}

// Rerank returns a score for each of documents: the better it answers the query, the higher. The model must be a
// reranker.
func (m *Model) Rerank(ctx context.Context, query string, documents ...string) ([]float32, error) {
	pairs := make([][]int32, len(documents))
	for i, d := range documents {
		pairs[i] = m.session.EncodePair(query, d)
	}
	all, err := m.session.EmbedAll(ctx, pairs, engine.PoolRank)
	if err != nil {
		return nil, tell(err)
	}
	scores := make([]float32, len(documents))
	for i, v := range all {
		scores[i] = v[0][0]
	}
	return scores, nil
}
