package llamacpp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// maxDocuments is the largest number of documents of one request.
const maxDocuments = 2048

// document is a text to be ranked. In JSON it is a string, or an object with the field text.
type document struct{ Text string }

// UnmarshalJSON implements json.Unmarshaler.
func (d *document) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var object struct{ Text *string }
		if err := json.Unmarshal(data, &object); err != nil {
			return err
		}
		if object.Text == nil {
			return server.Invalid("a document has no text")
		}
		d.Text = *object.Text
		return nil
	}
	return json.Unmarshal(data, &d.Text)
}

// rerank answers with a score for each document that says how well it answers the query, the best first. The form is
// Jina's or, if the request calls documents texts, that of Text Embeddings Inference.
func rerank(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	var query string
	if !f.Read("query", &query) {
		f.Fail(server.Invalid("the field query is missing"))
	}
	var documents []document
	field := "documents"
	tei := f.Read("texts", &documents)
	if tei {
		field = "texts"
	}
	if !f.Read("documents", &documents) && !tei || len(documents) == 0 || len(documents) > maxDocuments {
		f.Fail(server.Invalid("the field %s is no list of 1 to %d texts", field, maxDocuments))
	}
	most, texts := len(documents), false
	if f.Read("top_n", &most); most < 1 {
		f.Fail(server.Invalid("the field top_n is not a number of at least 1"))
	}
	if tei {
		f.Read("return_text", &texts)
	} else {
		f.Read("return_documents", &texts)
	}
	f.Ignore("raw_scores", "truncate", "truncation_direction", "user")
	if err := f.Close(); err != nil {
		return err
	}
	if m.Pooling != engine.PoolRank && !m.Similar {
		return server.NotSupported("%s does not rank documents here: start the server with a reranker and --rerank", m.Name)
	}
	score := scoresOf
	if m.Similar {
		score = similarities
	}
	scores, tokens, err := score(r.Context(), m, query, documents)
	if err != nil {
		return err
	}
	results := make([]ranked, len(documents))
	for i := range results {
		results[i] = ranked{index: i, score: scores[i]}
		if texts {
			results[i].text = &documents[i].Text
		}
	}
	slices.SortStableFunc(results, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
	results = results[:min(most, len(results))]
	if tei {
		server.WriteJSON(w, forms(results, ranked.tei))
		return nil
	}
	server.WriteJSON(w, map[string]any{
		"model": m.Name, "object": "list", "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}, "results": forms(results, ranked.jina),
	})
	return nil
}

// scoresOf returns what the model's classification head says of documents, and how many tokens it read.
func scoresOf(ctx context.Context, m *server.Model, query string, documents []document) ([]float32, int, error) {
	pairs, tokens := make([][]int32, len(documents)), 0
	for i, d := range documents {
		pairs[i] = m.Engine.EncodePair(query, d.Text)
		tokens += len(pairs[i])
	}
	heads, err := m.Embed(ctx, pairs, engine.PoolRank)
	if err != nil {
		return nil, 0, err
	}
	scores := make([]float32, len(heads))
	for i, h := range heads {
		scores[i] = h[0][0]
	}
	return scores, tokens, nil
}

// similarities returns the cosines of the angles between the embeddings of documents and the query's.
func similarities(ctx context.Context, m *server.Model, query string, documents []document) ([]float32, int, error) {
	texts := make([][]int32, len(documents)+1)
	asks, err := m.Encode(ctx, query, true, true)
	if err != nil {
		return nil, 0, err
	}
	texts[len(documents)] = asks
	tokens := 0 // counted as a reranker reads them, each document with the query
	for i, d := range documents {
		if texts[i], err = m.Encode(ctx, d.Text, true, true); err != nil {
			return nil, 0, err
		}
		plain, err := m.Encode(ctx, d.Text, false, true)
		if err != nil {
			return nil, 0, err
		}
		tokens += len(asks) + len(plain)
	}
	vectors, err := m.Embed(ctx, texts, m.Pooling)
	if err != nil {
		return nil, 0, err
	}
	for _, v := range vectors {
		engine.Normalise(v[0], 2)
	}
	scores, near := make([]float32, len(documents)), vectors[len(documents)][0]
	for i := range scores {
		for k, x := range vectors[i][0] {
			scores[i] += x * near[k]
		}
	}
	return scores, tokens, nil
}

// ranked is a document's place in a request, its score, and its text if that is wanted.
type ranked struct {
	index int
	score float32
	text  *string
}

func forms(list []ranked, form func(ranked) map[string]any) []map[string]any {
	out := make([]map[string]any, len(list))
	for i, r := range list {
		out[i] = form(r)
	}
	return out
}

func (r ranked) jina() map[string]any {
	out := map[string]any{"index": r.index, "relevance_score": r.score}
	if r.text != nil {
		out["document"] = map[string]string{"text": *r.text}
	}
	return out
}

func (r ranked) tei() map[string]any {
	out := map[string]any{"index": r.index, "score": r.score}
	if r.text != nil {
		out["text"] = *r.text
	}
	return out
}
