package llamacpp

import (
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// maxNorm bounds embd_normalize: larger norms are that of the largest magnitude to within rounding.
const maxNorm = 32

// embedding answers llama-server's own form: a list of vectors for each text, of which pooling leaves one.
func embedding(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	texts := m.ReadTexts(f, "content", "input")
	norm := 2
	if f.Read("embd_normalize", &norm); norm < -1 || norm > maxNorm {
		f.Fail(server.Invalid("the field embd_normalize is not a number from -1 to %d", maxNorm))
	}
	f.Only("encoding_format", `"float"`)
	if err := f.Close(); err != nil {
		return err
	}
	vectors, err := m.Embed(r.Context(), texts, m.Pooling)
	if err != nil {
		return err
	}
	type entry struct {
		Index     int         `json:"index"`
		Embedding [][]float32 `json:"embedding"` // [1 or tokens][n_embd]
	}
	all := make([]entry, len(texts))
	for i, v := range vectors {
		if m.Pooling != engine.PoolNone {
			server.Normalise(v[0], norm)
		}
		all[i] = entry{i, v}
	}
	server.WriteJSON(w, all)
	return nil
}

// rerank refuses: no family of rerankers is known yet.
func rerank(_ http.ResponseWriter, _ *http.Request, _ *server.Fields, m *server.Model) error {
	return server.NotSupported("%s is no reranker; reranking is not supported yet", m.Name)
}
