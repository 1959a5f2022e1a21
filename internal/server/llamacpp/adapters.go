package llamacpp

import (
	"net/http"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// listAdapters answers with the model's LoRA adapters.
func listAdapters(w http.ResponseWriter, _ *http.Request, m *server.Model) error {
	type entry struct {
		ID     int     `json:"id"`
		Path   string  `json:"path"` // without folders, which are not the clients' concern
		Scale  float32 `json:"scale"`
		Task   string  `json:"task_name"`
		Prefix string  `json:"prompt_prefix"`
	}
	list := []entry{}
	for i, a := range m.Engine.Adapters() {
		list = append(list, entry{ID: i, Path: filepath.Base(a.Path), Scale: a.Scale})
	}
	server.WriteJSON(w, list)
	return nil
}

// scaleAdapters changes the scales for requests that do not say their own. An adapter that the list does not name is
// switched off, as by llama-server.
func scaleAdapters(w http.ResponseWriter, _ *http.Request, f *server.Fields, m *server.Model) error {
	scales := m.ReadScales(f, "list", nil)
	if err := f.Close(); err != nil {
		return err
	}
	if err := m.Engine.SetScales(scales); err != nil {
		return server.Invalid("%s", err)
	}
	server.WriteJSON(w, map[string]bool{"success": true})
	return nil
}
