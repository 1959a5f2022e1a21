package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// ollamaServer implements Ollama's documented API: /api/ps, and /api/generate with keep_alive 0, which frees a model.
func ollamaServer(t *testing.T, key string, loaded ...string) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/ps", func(w http.ResponseWriter, _ *http.Request) {
		list := []map[string]any{}
		for _, name := range loaded {
			list = append(list, map[string]any{"name": name, "model": name, "size": 2_000_000_000, "size_vram": 1_500_000_000, "context_length": 4096, "expires_at": "2999-01-01T00:00:00Z"})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"models": list})
	})
	mux.HandleFunc("POST /api/generate", func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Model     string `json:"model"`
			KeepAlive *int   `json:"keep_alive"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.KeepAlive == nil || *request.KeepAlive != 0 {
			t.Errorf("a request %+v, %v", request, err)
		}
		if request.Model == "pinned" {
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w, `{"error":"it stays"}`)
			return
		}
		loaded = nil
		_, _ = io.WriteString(w, `{"done":true,"done_reason":"unload"}`)
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key != "" && r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestRunningModels(t *testing.T) {
	run := func(s *httptest.Server, args ...string) (string, error) {
		host, port, err := net.SplitHostPort(s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		root, out := command(), &bytes.Buffer{}
		root.Writer, root.ErrWriter = out, io.Discard
		err = root.Run(context.Background(), append([]string{"powerinfer"}, append(args, "--host", host, "--port", port)...))
		return out.String(), err
	}
	says := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	s := ollamaServer(t, "", "qwen3:0.6b")
	if out, err := run(s, "ps"); err != nil || !strings.Contains(out, "qwen3:0.6b  2.0 GB  1.5 GB") {
		t.Errorf("%q, %v", out, err)
	}
	_, err := run(s, "stop", "llama3.2")
	says("another model", err, `"llama3.2" is not loaded; loaded are qwen3:0.6b`)
	if _, err := run(s, "stop", "qwen3:0.6b:latest"); err != nil {
		t.Error(err)
	}
	_, err = run(s, "stop")
	says("nothing loaded", err, "the server has no model loaded")
	_, err = run(ollamaServer(t, "", "a", "b"), "stop")
	says("two models", err, "name one of the loaded models: a, b")
	_, err = run(ollamaServer(t, "", "pinned"), "stop")
	says("a model that stays", err, "the server refuses: it stays")
	_, err = run(ollamaServer(t, "secret", "a"), "ps")
	says("no key", err, "--api-key")
	if _, err := run(ollamaServer(t, "secret", "a"), "ps", "--api-key", "secret"); err != nil {
		t.Error(err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	_, err = run(other, "ps")
	says("another program", err, "it is no server of powerinfer's")
}
