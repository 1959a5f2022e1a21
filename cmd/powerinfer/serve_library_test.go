package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/demo"
)

// TestServeLibrary: models of a folder are listed, loaded for the first request that names them, and freed on request.
// A damaged model fails only its own requests.
func TestServeLibrary(t *testing.T) {
	dir, socket := t.TempDir(), filepath.Join(t.TempDir(), "p.sock")
	for name, data := range map[string][]byte{"tales.gguf": demo.Model(), "sub/other.gguf": demo.Model(), "damaged.gguf": []byte("GGUF")} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	ask := func(path, body string) (status int, answer string) {
		t.Helper()
		var res *http.Response
		var err error
		if body == "" {
			res, err = client.Get("http://x" + path)
		} else {
			res, err = client.Post("http://x"+path, "application/json", strings.NewReader(body))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	states := func() string {
		var list struct {
			Data []struct {
				ID     string
				Status struct{ Value string }
			}
		}
		_, text := ask("/v1/models", "")
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var all []string
		for _, m := range list.Data {
			all = append(all, m.ID+" "+m.Status.Value)
		}
		return strings.Join(all, ", ")
	}
	check := func(want string) {
		t.Helper()
		if got := states(); got != want {
			t.Errorf("the models are %s, not %s", got, want)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	listening, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- serveFlags(t, func(_ context.Context, c *cli.Command) error {
			l, url, err := address(c).Listen(ctx)
			close(listening)
			if err != nil {
				return err
			}
			log, _, err := openLog(c)
			if err != nil {
				return err
			}
			o, err := serverOptions(c, log)
			if err != nil {
				return err
			}
			m, err := modelOptions(c, log)
			if err != nil {
				return err
			}
			return serveLibrary(ctx, c, o, m, l, url)
		}, "--host", socket, "--models-dir", dir, "--device", "none", "-t", "1", "--log-file", filepath.Join(t.TempDir(), "log"))
	}()
	<-listening

	check("damaged unloaded, sub/other unloaded, tales unloaded")
	if status, text := ask("/props", ""); status != http.StatusOK || !strings.Contains(text, `"role":"router"`) || !strings.Contains(text, `"pull":true`) {
		t.Errorf("of no model: status %d: %s", status, text)
	}
	for _, path := range []string{"/props?model=sub/other&autoload=false", "/props?model=sub/other", "/slots?model=sub/other", "/lora-adapters?model=sub/other"} {
		if status, text := ask(path, ""); status != http.StatusServiceUnavailable {
			t.Errorf("%s of a model that is not loaded: status %d: %s", path, status, text)
		}
	}
	check("damaged unloaded, sub/other unloaded, tales unloaded")
	if status, text := ask("/v1/completions", `{"model":"tales","prompt":"Once","max_tokens":3}`); status != http.StatusOK || !strings.Contains(text, `"model":"tales"`) {
		t.Errorf("%d %s", status, text)
	}
	check("damaged unloaded, sub/other unloaded, tales loaded")
	if status, text := ask("/v1/completions", `{"prompt":"Once","max_tokens":3}`); status != http.StatusOK { // the loaded model
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask("/models/load", `{"model":"sub/other"}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask("/v1/completions", `{"prompt":"Once","max_tokens":3}`); status != http.StatusBadRequest || !strings.Contains(text, "tales") {
		t.Errorf("no name among several: %d %s", status, text)
	}
	if status, text := ask("/props?model=sub/other", ""); status != http.StatusOK || !strings.Contains(text, `"model_alias":"sub/other"`) {
		t.Errorf("%d %s", status, text)
	}
	for _, name := range []string{"../tales", "/etc/passwd", "nobody", filepath.Join(dir, "tales.gguf")} {
		body, _ := json.Marshal(map[string]any{"model": name, "prompt": "Once"})
		if status, text := ask("/v1/completions", string(body)); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, text := ask("/v1/completions", `{"model":"damaged","prompt":"Once"}`); status != http.StatusInternalServerError || !strings.Contains(text, "damaged.gguf") || strings.Contains(text, dir) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask("/models/unload", `{"model":"tales"}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	check("damaged failed, sub/other loaded, tales unloaded")
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
