package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// served is a server started with the flags of serve, on a socket.
type served struct {
	t      *testing.T
	client *http.Client
}

// startServer starts a server and ends it with the test.
func startServer(t *testing.T, args ...string) *served {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "p.sock")
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveFlags(t, func(_ context.Context, c *cli.Command) error { return serve(ctx, c) },
			append([]string{"--host", socket, "--device", "none", "-t", "1", "--log-file", filepath.Join(dir, "log")}, args...)...)
	}()
	s := &served{t, &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	testenv.Eventually(t, "the server's health", func() bool {
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("the server ended: %v", err)
		default:
		}
		res, err := s.client.Get("http://x/health")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return s
}

// ask sends a request and returns the decoded answer and the status.
func (s *served) ask(method, path, body string) (map[string]any, int) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		s.t.Fatalf("%s %s: %s: %v", method, path, text, err)
	}
	return doc, res.StatusCode
}

// TestSleep: an idle model is freed but still listed, and loaded again for the next request under any name.
func TestSleep(t *testing.T) {
	s := startServer(t, "--sleep-idle-seconds", "0", "--alias", "tales,stories")
	asleep := func() bool {
		doc, status := s.ask("GET", "/props", "")
		if status != http.StatusOK || doc["model_alias"] != "stories" || doc["total_slots"] != 4.0 {
			t.Errorf("/props: %d %v", status, doc)
		}
		return doc["is_sleeping"] == true
	}
	for range 2 {
		testenv.Eventually(t, "the model's sleep", asleep)
		doc, status := s.ask("GET", "/v1/models", "")
		if list, ok := doc["data"].([]any); status != http.StatusOK || !ok || len(list) != 1 {
			t.Errorf("the list: %d %v", status, doc)
		}
		if doc, status := s.ask("POST", "/v1/completions", `{"model":"gpt-9","prompt":"Once","max_tokens":2}`); status != http.StatusOK || doc["model"] != "stories" {
			t.Errorf("a request: %d %v", status, doc)
		}
	}
	if doc, status := s.ask("POST", "/api/generate", `{"model":"tales","keep_alive":0}`); status != http.StatusOK || doc["done_reason"] != "unload" {
		t.Errorf("unloading: %d %v", status, doc)
	}
}

// TestServeFlags: llama-server's flags have their documented effect.
func TestServeFlags(t *testing.T) {
	for _, k := range []struct {
		args    []string
		context float64 // of a slot
		slots   int     // of /slots
	}{
		{[]string{"-c", "512", "-np", "2", "--no-slots"}, 256, 501},
		{[]string{"-c", "512", "-np", "2", "--kv-unified"}, 512, 200},
		{[]string{"-c", "512"}, 512, 200},
		{[]string{"-np", "2"}, 512, 200},
		{[]string{"-c", "512", "--no-kv-unified"}, 128, 200},
		{[]string{"-c", "512", "--kv-unified-per-slot", "100", "-np", "-1"}, 100, 200},
	} {
		t.Run(strings.Join(k.args, " "), func(t *testing.T) {
			s := startServer(t, k.args...)
			doc, _ := s.ask("GET", "/props", "")
			if n := doc["default_generation_settings"].(map[string]any)["n_ctx"]; n != k.context {
				t.Errorf("a slot's context is %v, not %v", n, k.context)
			}
			res, err := s.client.Get("http://x/slots")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != k.slots {
				t.Errorf("/slots: %d", res.StatusCode)
			}
		})
	}
}

// TestRouter: /props of a server of several models shows its flags, and removing an unknown model is an error.
func TestRouter(t *testing.T) {
	s := startServer(t, "--models-max", "2", "--no-models-autoload")
	if doc, _ := s.ask("GET", "/props", ""); doc["role"] != "router" || doc["max_instances"] != 2.0 || doc["models_autoload"] != false {
		t.Errorf("/props: %v", doc)
	}
	if doc, status := s.ask("DELETE", "/models?model=nobody/nothing", ""); status != http.StatusNotFound {
		t.Errorf("removing a model that is not there: %d %v", status, doc)
	}
}
