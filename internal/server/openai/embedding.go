package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// embeddings answers /v1/embeddings: one vector of length 1 for each text.
func embeddings(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	texts := m.ReadTexts(f, "input")
	format, dimensions := "float", m.Engine.EmbeddingSize()
	if f.Read("encoding_format", &format); format != "float" && format != "base64" {
		f.Fail(server.Invalid("the field encoding_format is %.40q; there are float and base64", format))
	}
	if f.Read("dimensions", &dimensions); dimensions < 1 || dimensions > m.Engine.EmbeddingSize() {
		f.Fail(server.Invalid("the field dimensions is not a number from 1 to %d, the model's", m.Engine.EmbeddingSize()))
	}
	server.Unused[string](f, "user")
	if err := f.Close(); err != nil {
		return err
	}
	if err := m.CheckEmbeds(); err != nil {
		return err
	}
	vectors, err := m.Embed(r.Context(), texts, m.Pooling)
	if err != nil {
		return err
	}
	type entry struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"` // numbers, or a text in base64
	}
	data, tokens := make([]entry, len(texts)), 0
	for i := range texts {
		v := vectors[i][0][:dimensions]
		engine.Normalise(v, 2)
		data[i] = entry{"embedding", i, any(v)}
		if format == "base64" {
			data[i].Embedding = encode(v)
		}
		tokens += len(texts[i])
	}
	server.WriteJSON(w, map[string]any{
		"object": "list", "data": data, "model": m.Name, "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens},
	})
	return nil
}

// encode returns v as OpenAI's clients ask for it: little-endian float32 numbers in base64.
func encode(v []float32) string {
	bytes := make([]byte, 0, 4*len(v))
	for _, x := range v {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(bytes)
}
