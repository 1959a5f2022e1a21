// Package llamacpp answers llama-server's own routes: state of the server, tokens, and completions of a text.
package llamacpp

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Register adds the routes to s.
func Register(s *server.Server) {
	api := s.API(server.CommonForm)
	health := func(w http.ResponseWriter, _ *http.Request) error {
		if err := s.Models.Ready(); err != nil {
			return err
		}
		server.WriteJSON(w, map[string]string{"status": "ok"})
		return nil
	}
	api.Get("/health", health)
	api.Get("/v1/health", health)
	api.Post("/models/load", change(s.Models.Load))
	api.Post("/models/unload", change(s.Models.Unload))
	api.ShowOr("/props", props, func(w http.ResponseWriter) error { return router(w, s) })
	api.Show("/slots", slots)
	api.Control("/slots/{id}", changeSlot)
	api.Ask("/tokenize", tokenize)
	api.Ask("/detokenize", detokenize)
	api.Ask("/completion", complete)
	api.Ask("/completions", complete)
	api.Ask("/infill", infill)
	api.Ask("/embedding", embedding)
	api.Ask("/embeddings", embedding)
	for _, path := range []string{"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"} {
		api.Ask(path, rerank)
	}
	api.Show("/lora-adapters", listAdapters)
	api.List("/lora-adapters", "list", scaleAdapters)
}

// change returns what answers a request to load or unload the model that it names, when that is done.
func change(do func(ctx context.Context, name string) error) func(http.ResponseWriter, *http.Request, *server.Fields) error {
	return func(w http.ResponseWriter, r *http.Request, f *server.Fields) error {
		name := ""
		if f.Read("model", &name); name == "" {
			f.Fail(server.Invalid("the field model is missing"))
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := do(r.Context(), name); err != nil {
			return err
		}
		server.WriteJSON(w, map[string]bool{"success": true})
		return nil
	}
}

func props(w http.ResponseWriter, _ *http.Request, m *server.Model) error {
	tok := m.Engine.Tokenizer()
	template := ""
	if m.Template != nil {
		template = m.Template.Source()
	}
	usual := server.Generation{Request: engine.Request{Max: m.Predict}, Sampling: m.Sampling}
	server.WriteJSON(w, map[string]any{
		"default_generation_settings": map[string]any{
			"id": 0, "n_ctx": m.Engine.Context(), "is_processing": false, "params": m.Settings(&usual),
		},
		"total_slots": m.Slots, "model_alias": m.Name, "model_path": m.Path, "chat_template": template,
		"bos_token": tok.Text(tok.BOS()), "eos_token": tok.Text(tok.EOS()),
		"modalities": map[string]bool{"vision": false, "audio": false}, "build_info": "powerinfer", "demo": m.Demo,
	})
	return nil
}

// router answers for a server of several models where a request names none, as llama-server does. pull and published
// are ours: whether clients may fetch models, and some that they could.
func router(w http.ResponseWriter, s *server.Server) error {
	server.WriteJSON(w, map[string]any{
		"role": "router", "model_alias": "powerinfer", "model_path": "none", "build_info": "powerinfer",
		"default_generation_settings": map[string]any{"n_ctx": 0, "params": map[string]any{}},
		"pull":                        s.Options().Fetches, "published": s.Options().Known,
	})
	return nil
}

func tokenize(w http.ResponseWriter, _ *http.Request, f *server.Fields, m *server.Model) error {
	text, addSpecial, parseSpecial, pieces := "", false, true, false
	f.Read("content", &text)
	f.Read("add_special", &addSpecial)
	f.Read("parse_special", &parseSpecial)
	f.Read("with_pieces", &pieces)
	if err := f.Close(); err != nil {
		return err
	}
	ids := m.Engine.Tokenizer().Encode(text, addSpecial, parseSpecial)
	if !pieces {
		server.WriteJSON(w, map[string]any{"tokens": append([]int32{}, ids...)})
		return nil
	}
	type token struct {
		ID    int32 `json:"id"`
		Piece any   `json:"piece"` // a text, or bytes that are none
	}
	all := []token{}
	for _, id := range ids {
		t := token{ID: id}
		if piece := m.Piece(id); utf8.Valid(piece) {
			t.Piece = string(piece)
		} else {
			values := make([]int, len(piece))
			for i, b := range piece {
				values[i] = int(b)
			}
			t.Piece = values
		}
		all = append(all, t)
	}
	server.WriteJSON(w, map[string]any{"tokens": all})
	return nil
}

func detokenize(w http.ResponseWriter, _ *http.Request, f *server.Fields, m *server.Model) error {
	var ids []int32
	f.Read("tokens", &ids)
	if err := f.Close(); err != nil {
		return err
	}
	tok := m.Engine.Tokenizer()
	for _, id := range ids {
		if id < 0 || int(id) >= tok.Size() {
			return server.Invalid("token %d is not in the vocabulary of %d", id, tok.Size())
		}
	}
	server.WriteJSON(w, map[string]string{"content": tok.Decode(ids, true)})
	return nil
}
