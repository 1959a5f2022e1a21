// Package llamacpp answers llama-server's own routes: state of the server, tokens, and completions of a text.
package llamacpp

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Register adds the routes to s. Models are removed from the cache of h; nil: they are not.
func Register(s *server.Server, h *hub.Hub) {
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
	api.Delete("/models", func(w http.ResponseWriter, r *http.Request) error {
		n, err := server.HubName(h, r.URL.Query().Get("model"))
		if err == nil {
			err = s.Remove(r.Context(), h, n)
		}
		if err != nil {
			return err
		}
		server.WriteJSON(w, map[string]bool{"success": true})
		return nil
	})
	api.Get("/props", properties{s}.show)
	api.Get("/tools", func(w http.ResponseWriter, _ *http.Request) error {
		server.WriteJSON(w, []any{}) // that the server would run for its page: none
		return nil
	})
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

// properties answers /props. It neither loads a model nor wakes a sleeping one. llama-server's router loads the named
// model unless autoload=false, but then any web page could make a browser load models.
type properties struct{ s *server.Server }

func (p properties) show(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("model")
	m, release, err := p.s.Models.Peek(name)
	if last := p.s.Asleep.Load(); err != nil && last != nil {
		doc := maps.Clone(*last)
		doc["is_sleeping"] = true
		server.WriteJSON(w, doc)
		return nil
	}
	if router := p.s.Options().Router; router != nil && name == "" {
		doc := map[string]any{"default_generation_settings": map[string]any{}, "build_info": build}
		if err == nil {
			defer release()
			doc = Properties(m)
		}
		doc["pull"], doc["published"], doc["ram"] = p.s.Options().Fetches, p.s.Options().Known, p.s.Options().RAM // ours, for the page
		doc["role"], doc["max_instances"], doc["models_autoload"] = "router", router.Most, router.Autoload
		server.WriteJSON(w, doc)
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	server.WriteJSON(w, Properties(m))
	return nil
}

// build names the program; llama.cpp's names begin with b, too.
const build = "b-powerinfer"

// Properties returns /props of a model.
func Properties(m *server.Model) map[string]any {
	tok := m.Engine.Tokenizer()
	template := ""
	if m.Template != nil {
		template = m.Template.Source()
	}
	usual := server.Generation{Request: engine.Request{Max: m.Predict}, Sampling: m.Sampling}
	p := map[string]any{
		"default_generation_settings": map[string]any{
			"id": 0, "n_ctx": m.Context(), "is_processing": false, "params": m.Settings(&usual),
		},
		"total_slots": m.Slots, "model_alias": m.Name, "model_path": m.FileName(), "chat_template": template,
		"bos_token": tok.Text(tok.BOS()), "eos_token": tok.Text(tok.EOS()),
		"modalities": map[string]bool{"vision": m.Sees(), "audio": false}, "media_marker": server.MediaMark, "build_info": build, "is_sleeping": false, "demo": m.Demo,
	}
	if d := m.OnDisk(); d != nil {
		p["disk"] = d
	}
	return p
}

// perPiece is the memory that a token takes until its text is sent, in bytes.
const perPiece = 150

func tokenize(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	text, addSpecial, parseSpecial, pieces := "", false, true, false
	f.Read("content", &text)
	f.Read("add_special", &addSpecial)
	f.Read("parse_special", &parseSpecial)
	f.Read("with_pieces", &pieces)
	if err := f.Close(); err != nil {
		return err
	}
	ids, err := m.Encode(r.Context(), text, addSpecial, parseSpecial)
	if err != nil {
		return err
	}
	if !pieces {
		writeTokens(w, ids)
		return nil
	}
	if err := server.Reserve(w, r, int64(len(ids))*perPiece); err != nil {
		return err
	}
	type token struct {
		ID    int32 `json:"id"`
		Piece any   `json:"piece"` // a text, or bytes that are none
	}
	all := make([]token, 0, len(ids))
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

// writeTokens answers with tokens, without holding the whole answer in memory.
func writeTokens(w http.ResponseWriter, ids []int32) {
	const chunk = 32 << 10 // bytes
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	b := append(make([]byte, 0, chunk+16), `{"tokens":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		if b = strconv.AppendInt(b, int64(id), 10); len(b) < chunk {
			continue
		}
		if _, err := w.Write(b); err != nil { // the client left
			return
		}
		b = b[:0]
	}
	w.Write(append(b, "]}"...))
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
