package hub

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestHubsOwnClient: the hub's JavaScript client finds pulled files in its cache, and files that it fetched are found
// here.
func TestHubsOwnClient(t *testing.T) {
	testenv.Thorough(t)
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Missing(t, "npm", program+" is absent")
		}
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "client"))); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline", "--ignore-scripts")
	install.Dir = folder
	if out, err := install.CombinedOutput(); err != nil {
		testenv.Missing(t, "npm", "npm cannot install @huggingface/hub: "+string(out))
	}
	s, h := standIn(t)
	pulled(t, s, h, "user/one:Q8_0")
	node := exec.CommandContext(t.Context(), "node", "cache.mjs", s.URL, h.Folder())
	node.Dir = folder
	out, err := node.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found struct{ Files, Warnings []string }
	last := out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:] // after the client's progress
	if err := json.Unmarshal(last, &found); err != nil || len(found.Warnings) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, file := range []string{"one-Q8_0.gguf", "one-F16.gguf"} {
		if !strings.Contains(strings.Join(found.Files, "\n"), file) {
			t.Errorf("it does not find %s: %s", file, out)
		}
	}
	before := len(s.Log())
	m, err := h.Use(t.Context(), name(t, "user/one:F16"), nil)
	if err != nil || len(s.Log()) != before {
		t.Fatalf("%v, %d requests", err, len(s.Log())-before)
	}
	same(t, s, m)
}
