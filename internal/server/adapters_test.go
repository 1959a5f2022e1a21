package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAdapterRoutes: adapters are listed and scaled by number; an unknown number is refused.
func TestAdapterRoutes(t *testing.T) {
	l := start(t, nil)
	res := l.request(t.Context(), "GET", "/lora-adapters", "")
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != "[]" {
		t.Errorf("a model without adapters lists %q: %d, %v", body, res.StatusCode, err)
	}
	if doc := l.good("/lora-adapters", "[]"); doc["success"] != true {
		t.Errorf("no scales: %v", doc)
	}
	l.good("/completion", `{"prompt":"Once","n_predict":1,"lora":[]}`)
	for path, body := range map[string]string{"/completion": `{"prompt":"a","lora":[{"id":0,"scale":1}]}`, "/lora-adapters": `[{"id":0,"scale":1}]`} {
		if doc, status := l.ask(path, body); status != http.StatusBadRequest || !strings.Contains(at(t, doc, "error", "message").(string), "there is no adapter 0") {
			t.Errorf("%s: %d, %v", path, status, doc)
		}
	}
	for _, body := range []string{`{"id":0}`, `[{"id":0}]`, `[1]`, `[`, ``} {
		if _, status := l.ask("/lora-adapters", body); status != http.StatusBadRequest {
			t.Errorf("%q: %d", body, status)
		}
	}
}
