package llamacpp

import (
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// embedding answers in llama-server's own form: a list of vectors for each text; with pooling there is one.
func embedding(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	texts := m.ReadTexts(f, "content", "input")
	norm := m.Norm
	if f.Read("embd_normalize", &norm); norm < -1 || norm > engine.MaxNorm {
		f.Fail(server.Invalid("the field embd_normalize is not a number from -1 to %d", engine.MaxNorm))
	}
	f.Only("encoding_format", `"float"`)
	if err := f.Close(); err != nil {
		return err
	}
	if m.Pooling == engine.PoolRank {
		return m.CheckEmbeds()
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
			engine.Normalise(v[0], norm)
		}
		all[i] = entry{i, v}
	}
	server.WriteJSON(w, all)
	return nil
}
