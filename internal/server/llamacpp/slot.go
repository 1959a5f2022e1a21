package llamacpp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// slots shows what each slot does, or did last.
func slots(w http.ResponseWriter, r *http.Request, m *server.Model) error {
	if m.HideSlots {
		return server.NotSupported("the server was started with --no-slots, which has nobody see what its slots do")
	}
	all := []map[string]any{}
	free := false
	for i, s := range m.SlotStates() {
		all = append(all, slotState(i, &s, m))
		free = free || !s.Busy
	}
	if r.URL.Query().Get("fail_on_no_slot") != "" && !free {
		return server.Unavailable("no slot is free")
	}
	server.WriteJSON(w, all)
	return nil
}

func slotState(id int, s *server.Slot, m *server.Model) map[string]any {
	doc := map[string]any{"id": id, "n_ctx": m.Context(), "speculative": m.Engine.Drafts() > 0, "is_processing": s.Busy}
	if s.Task == 0 {
		return doc
	}
	doc["id_task"] = s.Task
	g := s.Request
	if g == nil {
		return doc
	}
	left, decoded := -1, 0
	if s.Busy {
		if decoded = s.Decoded; g.Max >= 0 {
			left = max(0, g.Max-decoded)
		}
	}
	doc["params"] = m.Settings(g)
	doc["n_prompt_tokens"] = len(g.Prompt)
	doc["next_token"] = []map[string]any{{"has_next_token": s.Busy, "n_remain": left, "n_decoded": decoded}}
	if !s.Busy {
		doc["n_prompt_tokens_cache"], doc["n_prompt_tokens_processed"] = s.Result.Reused, s.Result.PromptTokens
	}
	return doc
}

// changeSlot saves, restores or erases what the KV cache has of a slot's last text.
func changeSlot(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	name := ""
	f.Read("filename", &name)
	if err := f.Close(); err != nil {
		return err
	}
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return server.Invalid("the slot %q is not a number", r.PathValue("id"))
	}
	begin := time.Now()
	ms := func() float64 { return float64(time.Since(begin).Microseconds()) / 1000 }
	switch action := r.URL.Query().Get("action"); action {
	case "save":
		s, err := m.SaveSlot(r.Context(), id, name)
		if err != nil {
			return err
		}
		server.WriteJSON(w, map[string]any{
			"id_slot": id, "filename": name, "n_saved": len(s.Tokens), "n_written": s.Bytes, "timings": map[string]float64{"save_ms": ms()},
		})
	case "restore":
		s, err := m.RestoreSlot(r.Context(), id, name)
		if err != nil {
			return err
		}
		server.WriteJSON(w, map[string]any{
			"id_slot": id, "filename": name, "n_restored": len(s.Tokens), "n_read": s.Bytes, "timings": map[string]float64{"restore_ms": ms()},
		})
	case "erase":
		n, err := m.EraseSlot(r.Context(), id)
		if err != nil {
			return err
		}
		server.WriteJSON(w, map[string]any{"id_slot": id, "n_erased": n})
	default:
		return server.Invalid("the action %q is none of save, restore, erase", action)
	}
	return nil
}
