// Package llamacpp answers llama-server's own routes: state of the server, tokens, and completions of a text.
package llamacpp

import (
	"net/http"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// api is the routes over one server.
type api struct{ *server.Server }

// Register adds the routes to s.
func Register(s *server.Server) {
	a := api{s}
	health := func(w http.ResponseWriter, _ *http.Request) { server.WriteJSON(w, map[string]string{"status": "ok"}) }
	s.Get("/health", health)
	s.Get("/v1/health", health)
	s.Get("/props", a.props)
	s.Get("/slots", a.slots)
	s.Post("/tokenize", a.tokenize)
	s.Post("/detokenize", a.detokenize)
	s.Post("/completion", a.completion)
	s.Post("/completions", a.completion)
}

func (a api) props(w http.ResponseWriter, _ *http.Request) {
	o, tok := a.Options(), a.Engine.Tokenizer()
	template := ""
	if o.Template != nil {
		template = o.Template.Source()
	}
	server.WriteJSON(w, map[string]any{
		"default_generation_settings": map[string]any{
			"id": 0, "n_ctx": a.Engine.Context(), "is_processing": false, "params": settings(&o.Sampling, o.Predict),
		},
		"total_slots": o.Slots, "model_alias": o.Name, "model_path": o.Path, "chat_template": template,
		"bos_token": tok.Text(tok.BOS()), "eos_token": tok.Text(tok.EOS()),
		"modalities": map[string]bool{"vision": false, "audio": false}, "build_info": "powerinfer",
	})
}

// settings returns how a text is drawn, under the names of request fields.
func settings(o *sample.Options, most int) map[string]any {
	chain := []string{}
	for _, g := range o.Chain {
		chain = append(chain, g.String())
	}
	return map[string]any{
		"seed": o.Seed, "samplers": chain, "n_predict": most, "temperature": o.Temperature, "dynatemp_range": o.DynamicRange,
		"dynatemp_exponent": o.DynamicExponent, "top_k": o.TopK, "top_p": o.TopP, "min_p": o.MinP, "top_n_sigma": o.TopNSigma,
		"typical_p": o.TypicalP, "xtc_probability": o.XTCProbability, "xtc_threshold": o.XTCThreshold, "repeat_last_n": o.RepeatLastN,
		"repeat_penalty": o.RepeatPenalty, "presence_penalty": o.PresencePenalty, "frequency_penalty": o.FrequencyPenalty,
		"dry_multiplier": o.DRYMultiplier, "dry_base": o.DRYBase, "dry_allowed_length": o.DRYAllowedLength,
		"dry_penalty_last_n": o.DRYLastN, "mirostat": o.Mirostat, "mirostat_tau": o.MirostatTau, "mirostat_eta": o.MirostatEta,
		"adaptive_target": o.AdaptiveTarget, "adaptive_decay": o.AdaptiveDecay,
	}
}

func (a api) slots(w http.ResponseWriter, r *http.Request) {
	type slot struct {
		ID           int  `json:"id"`
		Context      int  `json:"n_ctx"`
		IsProcessing bool `json:"is_processing"`
	}
	var all []slot
	free := false
	for i, busy := range a.Busy() {
		all = append(all, slot{i, a.Engine.Context(), busy})
		free = free || !busy
	}
	if r.URL.Query().Get("fail_on_no_slot") != "" && !free {
		server.WriteError(w, &server.Error{Status: http.StatusServiceUnavailable, Type: "unavailable_error", Message: "no slot is free"})
		return
	}
	server.WriteJSON(w, all)
}

func (a api) tokenize(w http.ResponseWriter, _ *http.Request, f *server.Fields) error {
	text, addSpecial, parseSpecial, pieces := "", false, true, false
	f.Read("content", &text)
	f.Read("add_special", &addSpecial)
	f.Read("parse_special", &parseSpecial)
	f.Read("with_pieces", &pieces)
	f.Ignore("model")
	if err := f.Close(); err != nil {
		return err
	}
	ids := a.Engine.Tokenizer().Encode(text, addSpecial, parseSpecial)
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
		if piece := a.Piece(id); utf8.Valid(piece) {
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

func (a api) detokenize(w http.ResponseWriter, _ *http.Request, f *server.Fields) error {
	var ids []int32
	f.Read("tokens", &ids)
	f.Ignore("model")
	if err := f.Close(); err != nil {
		return err
	}
	tok := a.Engine.Tokenizer()
	for _, id := range ids {
		if id < 0 || int(id) >= tok.Size() {
			return server.Invalid("token %d is not in the vocabulary of %d", id, tok.Size())
		}
	}
	server.WriteJSON(w, map[string]string{"content": tok.Decode(ids, true)})
	return nil
}
