package server_test

import (
	"crypto/sha256"
	"fmt"
	"image/color"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// thinking gives a server's model a template with thoughts and tools.
func thinking(t testing.TB) func(*choices) {
	t.Helper()
	source, err := os.ReadFile(testenv.Shared(t, "chat-templates/Qwen-Qwen3-0.6B.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return func(o *choices) {
		o.Keys = []string{"secret"}
		o.context = 4096
		if o.model.Template, err = chat.Parse(string(source), "", "<|im_end|>"); err != nil {
			t.Fatal(err)
		}
	}
}

// bracketed returns the text in the last double brackets of a prompt: clients put there what the model is to answer
// with.
func bracketed(prompt string) string {
	i := strings.LastIndex(prompt, "[[")
	n := strings.Index(prompt[max(0, i):], "]]")
	if i < 0 || n < 0 {
		return itself
	}
	return prompt[i+2 : i+n]
}

// TestGoClients: OpenAI's and Ollama's clients for Go behave like those for Node. They are in a separate module,
// because they have many dependencies.
func TestGoClients(t *testing.T) {
	testenv.Thorough(t)
	program := filepath.Join(t.TempDir(), "clients")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join("testdata", "goclients")
	if out, err := build.CombinedOutput(); err != nil {
		testenv.Missing(t, "npm", "the Go clients cannot be built: "+string(out)) // as for Node, a registry is needed
	}
	l := start(t, thinking(t))
	l.says.answer(bracketed)
	if out, err := exec.CommandContext(t.Context(), program, l.url).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	eventually(t, "the aborted answer ended", l.idle)
}

// installed returns a folder with source's files and the packages of its lock file. They stay in the repository's
// .cache until the lock file changes, because to install their thousands of files takes longer than the tests.
func installed(t *testing.T, source string) string {
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join("..", "..", ".cache")
	kept := filepath.Join(cache, fmt.Sprintf("clients-%x", sha256.Sum256(lock)))
	if _, err := os.Stat(kept); err != nil {
		if err := os.MkdirAll(cache, 0o755); err != nil {
			t.Fatal(err)
		}
		begun, err := os.MkdirTemp(cache, "clients-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(begun)
		if err := os.CopyFS(begun, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		install := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline", "--ignore-scripts")
		install.Dir = begun
		if out, err := install.CombinedOutput(); err != nil {
			testenv.Missing(t, "npm", "npm cannot install the clients: "+string(out))
		}
		if err := os.Rename(begun, kept); err != nil { // another run was first, perhaps
			if _, err := os.Stat(kept); err != nil {
				t.Fatal(err)
			}
		}
	}
	scripts, err := filepath.Glob(filepath.Join(source, "*.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		text, err := os.ReadFile(s)
		if err == nil {
			err = os.WriteFile(filepath.Join(kept, filepath.Base(s)), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return kept
}

// clients returns the folder of the clients for Node.
func clients(t *testing.T) string {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Missing(t, "npm", program+" is absent")
		}
	}
	return installed(t, filepath.Join("testdata", "clients"))
}

// TestClientsShowPictures: the same clients send pictures, each in its own form.
func TestClientsShowPictures(t *testing.T) {
	testenv.Thorough(t)
	folder := clients(t)
	l := start(t, seeing(t))
	l.says.answer(func(prompt string) string { return fmt.Sprint(strings.Count(prompt, server.MediaMark), " pictures") })
	node := exec.CommandContext(t.Context(), "node", "pictures.mjs", l.url, pngOf(t, color.RGBA{200, 30, 30, 255}))
	node.Dir = folder
	if out, err := node.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// TestClients: popular clients, unmodified, chat, stream, call tools, get answers with a schema, abort, and are
// refused.
func TestClients(t *testing.T) {
	testenv.Thorough(t)
	folder := clients(t)
	for script, change := range map[string]func(*choices){
		"openai.mjs": func(o *choices) { o.Keys = []string{"secret"} }, "anthropic.mjs": thinking(t), "ollama.mjs": thinking(t),
		"langchain.mjs": thinking(t), "aisdk.mjs": thinking(t),
	} {
		t.Run(strings.TrimSuffix(script, ".mjs"), func(t *testing.T) {
			l := start(t, change)
			l.says.answer(bracketed)
			node := exec.CommandContext(t.Context(), "node", script, l.url)
			node.Dir = folder
			if out, err := node.CombinedOutput(); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			eventually(t, "the aborted answer ended", l.idle)
		})
	}
}
