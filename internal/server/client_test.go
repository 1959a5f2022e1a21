package server_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestOpenAIClient: OpenAI's own client for Node chats, streams, calls tools, has answers held to a schema, aborts, and is refused.
func TestOpenAIClient(t *testing.T) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Missing(t, "npm", program+" is absent")
		}
	}
	folder := t.TempDir()
	script, err := os.ReadFile(filepath.Join("testdata", "openai.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"openai.mjs": string(script), "package.json": `{"private":true}`} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "openai@6")
	install.Dir = folder
	if out, err := install.CombinedOutput(); err != nil {
		testenv.Missing(t, "npm", "npm cannot install openai: "+string(out))
	}
	l := start(t, func(o *choices) { o.Keys = []string{"secret"} })
	node := exec.CommandContext(t.Context(), "node", "openai.mjs", l.url+"/v1")
	node.Dir = folder
	if out, err := node.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	eventually(t, "the aborted answer ended", l.idle)
}
