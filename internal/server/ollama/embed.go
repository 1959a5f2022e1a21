package ollama

import (
	"net/http"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// embed answers with one vector of length 1 for each text.
func (a *api) embed(w http.ResponseWriter, r *http.Request, f *server.Fields) error {
	began, name := time.Now(), nameOf(f)
	m, release, err := a.useForEmbedding(r, f, name)
	if err != nil {
		return err
	}
	defer release()
	loading := time.Since(began)
	texts := m.ReadTexts(f, "input")
	truncate, dimensions := true, m.Engine.EmbeddingSize()
	f.Read("truncate", &truncate)
	if f.Read("dimensions", &dimensions); dimensions == 0 { // as Ollama's Go client says nothing
		dimensions = m.Engine.EmbeddingSize()
	}
	if dimensions < 1 || dimensions > m.Engine.EmbeddingSize() {
		f.Fail(server.Invalid("the field dimensions is not a number from 1 to %d, the model's", m.Engine.EmbeddingSize()))
	}
	if err := f.Close(); err != nil {
		return err
	}
	tokens := 0
	for i, ids := range texts {
		if truncate {
			texts[i] = ids[:min(len(ids), m.Context())]
		}
		tokens += len(texts[i])
	}
	vectors, err := m.Embed(r.Context(), texts, m.Pooling)
	if err != nil {
		return err
	}
	all := make([][]float32, len(vectors))
	for i := range vectors {
		all[i] = vectors[i][0][:dimensions]
		engine.Normalise(all[i], 2)
	}
	server.WriteJSON(w, map[string]any{
		"model": name, "embeddings": all, "total_duration": time.Since(began), "load_duration": loading, "prompt_eval_count": tokens,
	})
	return nil
}

// embedOne answers with one vector as the model has it, in the form of old clients.
func (a *api) embedOne(w http.ResponseWriter, r *http.Request, f *server.Fields) error {
	m, release, err := a.useForEmbedding(r, f, nameOf(f))
	if err != nil {
		return err
	}
	defer release()
	texts := m.ReadTexts(f, "prompt")
	if err := f.Close(); err != nil {
		return err
	}
	vectors, err := m.Embed(r.Context(), texts[:1], m.Pooling)
	if err == nil {
		server.WriteJSON(w, map[string]any{"embedding": vectors[0][0]})
	}
	return err
}

// useForEmbedding returns the model, which is to give one vector for each text.
func (a *api) useForEmbedding(r *http.Request, f *server.Fields, name string) (*server.Model, func(), error) {
	keep := readKeep(f)
	readValues(f)
	m, release, err := a.s.Models.Use(r.Context(), a.s.Known(name))
	if err != nil {
		return nil, nil, err
	}
	if keep != nil {
		err = a.s.Models.Keep(a.s.Known(name), *keep)
	}
	if err == nil {
		err = m.CheckEmbeds()
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return m, release, nil
}
