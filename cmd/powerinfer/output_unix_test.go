//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub/hubtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// evil is a text that tries to command a terminal: 7-bit and 8-bit sequences, C1 characters, an overwritten line, marks
// of direction, and invisible text.
const evil = "\x1b]0;pwned\x07\x1b[2J\x1b[31m\x9b31m\u009b31m\u0090\rover\b\x7f\u202eexe.txt\u2066\u2028x\U000E0041\ufeff"

// shownBy runs powerinfer in a pseudo-terminal and returns its output there.
func shownBy(t *testing.T, folder, stdin string, env []string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("powerinfer")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = folder
	cmd.Env = append([]string{
		"LLAMA_ARG_DEVICE=none", "LLAMA_ARG_THREADS=1", "POWERINFER_PATIENCE=0s", "TERM=xterm-256color",
		"HOME=" + folder, "XDG_STATE_HOME=" + folder, "XDG_CACHE_HOME=" + folder, "LANG=C.UTF-8",
	}, env...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	tty, err := pty.StartWithAttrs(cmd, &pty.Winsize{Rows: 24, Cols: 200}, nil)
	if err != nil {
		testenv.Missing(t, "shells", "no pseudo-terminal: "+err.Error())
	}
	defer tty.Close()
	timer := time.AfterFunc(processLimit, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	all, _ := io.ReadAll(tty) // ends with EIO when the program has ended
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(all)
}

// ours matches the escape sequences of this program: SGR, erasing and moving, and progress bars.
var ours = regexp.MustCompile(`\x1b\[(?:[0-9]{1,2}(?:;[0-9]{1,2})*m|0?m|K|J|[0-9]+A|\?2004[hl])`)

// harmless checks that the terminal got no escape sequences except our own.
func harmless(t *testing.T, shown string, sequences bool) {
	t.Helper()
	rest := strings.ReplaceAll(shown, "\r\n", "\n")
	if sequences {
		rest = strings.ReplaceAll(ours.ReplaceAllString(rest, ""), "\r", "")
	}
	if !utf8.ValidString(rest) {
		t.Errorf("bytes that are no UTF-8: %q", shown)
	}
	if i := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
			r == 0x2028 || r == 0xfeff || r >= 0xe0000 && r <= 0xe007f
	}); i >= 0 {
		t.Errorf("a terminal was shown %q in %q", rest[i:min(len(rest), i+20)], shown)
	}
}

// writeEvil writes the embedded model with evil in every text and in the file's name, which it returns. change edits
// keys and tensors.
func writeEvil(t *testing.T, folder string, change func(keys []gguf.KV, tensors []gguf.Source)) string {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	keys := slices.Clone(f.Keys)
	for i, kv := range keys {
		switch v := kv.Value.(type) {
		case string:
			if !strings.HasPrefix(kv.Key, "powerinfer.") && kv.Key != "general.architecture" && kv.Key != "tokenizer.ggml.model" && kv.Key != "tokenizer.ggml.pre" {
				keys[i].Value = v + evil
			}
		case []string:
			if kv.Key != "tokenizer.ggml.tokens" {
				continue
			}
			tokens := slices.Clone(v)
			for j := range tokens {
				if len(tokens[j]) > 0 && tokens[j][0] != '<' {
					tokens[j] += "\x1b[31m\u202e\u009b\r"
				}
			}
			keys[i].Value = tokens
		}
	}
	for _, key := range []string{"general.name", "general.license", "general.basename", "general.author", "general.description", "general.finetune", "general.size_label", "evil." + strings.ToValidUTF8(evil, "?")} {
		keys = slices.DeleteFunc(keys, func(kv gguf.KV) bool { return kv.Key == key })
		keys = append(keys, gguf.KV{Key: key, Value: "name" + evil})
	}
	var tensors []gguf.Source
	for _, x := range f.Tensors {
		tensors = append(tensors, gguf.Source{Name: x.Name, Type: x.Type, Shape: x.Shape, Write: func(w io.Writer) error { _, err := w.Write(x.Data); return err }})
	}
	if change != nil {
		change(keys, tensors)
	}
	path := filepath.Join(folder, "file\x1b[31m\u202e\u009b.gguf")
	if err := gguf.Create(context.Background(), path, f.Magic, keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// valued returns a change that gives a key a value.
func valued(key string, value any) func([]gguf.KV, []gguf.Source) {
	return func(keys []gguf.KV, _ []gguf.Source) {
		for i := range keys {
			if keys[i].Key == key {
				keys[i].Value = value
			}
		}
	}
}

// TestForeignText: no command passes text from a model's file to a terminal unfiltered.
func TestForeignText(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	model := writeEvil(t, folder, nil)
	names := filepath.Join(folder, "names")
	architecture, tokenizer := filepath.Join(folder, "architecture"), filepath.Join(folder, "tokenizer")
	for _, dir := range []string{names, architecture, tokenizer} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	badNames := writeEvil(t, names, func(_ []gguf.KV, tensors []gguf.Source) {
		tensors[3].Name = "blk.0" + strings.ToValidUTF8(evil[:40], "?")
	})
	badArchitecture := writeEvil(t, architecture, valued("general.architecture", "llama"+evil))
	badTokenizer := writeEvil(t, tokenizer, valued("tokenizer.ggml.model", "gpt2"+evil))
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := file("text\x1b[31m", "Once upon a time "+evil+strings.Repeat(" there was a little girl", 60))
	template := file("template", "{{ raise_exception('no "+evil+"') }}")
	broken := file("broken", "{{ "+evil)
	grammar := file("grammar", `root ::= "`+`\x1b[31m\x9b\u202e`+`x" [`+"\n"+evil)
	says := file("says", `root ::= "\x1b[31mred\u202e\u009bx"`)
	lines := file("lines", `{"prompt":"`+"a"+`"}`+"\n"+`{"prompt":"\u202e\u009b"}`+"\n")
	for _, k := range []struct {
		args  []string
		stdin string
	}{
		{args: []string{"run", "-m", model, "-p", "Once" + evil, "-n", "12", "-v"}},
		{args: []string{"run", "-m", model, "-p", "Once", "-n", "40", "--grammar-file", says, "-no-cnv"}},
		{args: []string{"run", "-m", model, "-f", text, "-n", "2"}},
		{args: []string{"run", "-m", model, "-p", "x", "--grammar-file", grammar}},
		{args: []string{"run", "-m", badNames, "-p", "x"}},
		{args: []string{"run", "-m", badArchitecture, "-p", "x"}},
		{args: []string{"run", "-m", badTokenizer, "-p", "x"}},
		{args: []string{"run", "-m", folder + "/none" + evil, "-p", "x"}},
		{args: []string{"run", evil, "x"}},
		{args: []string{evil}},
		{args: []string{"run", "--" + evil}},
		{args: []string{"chat", "-m", model, "-st", "-p", "hello" + evil, "-n", "12"}},
		{args: []string{"chat", "-m", model, "-n", "12", "-v"}, stdin: "hello" + evil + "\n/thoughts\n/model\n/set\n/stats\n/read " + evil + "\n"},
		{args: []string{"chat", "-m", model, "--chat-template", "chatml", "-n", "12", "--simple-io"}, stdin: "hello\n"},
		{args: []string{"chat", "-m", model, "-st", "-p", "x", "--chat-template-file", template}},
		{args: []string{"chat", "-m", model, "-st", "-p", "x", "--chat-template-file", broken}},
		{args: []string{"plan", "-m", model, "-c", "256", "--machine", "64:60"}},
		{args: []string{"plan", "-m", model, "-c", "256", "--machine", "64:60", "--json"}},
		{args: []string{"plan", "-m", badNames, "--machine", "64:60"}},
		{args: []string{"plan", "-m", badArchitecture}},
		{args: []string{"show", model}},
		{args: []string{"show", model, "--json"}},
		{args: []string{"show", badArchitecture}},
		{args: []string{"show", badNames}},
		{args: []string{"list", "--models-dir", folder}},
		{args: []string{"list", "--models-dir", names, "--json"}},
		{args: []string{"inspect", "-m", model}},
		{args: []string{"inspect", "-m", model, "--json"}},
		{args: []string{"inspect", "-m", badNames}},
		{args: []string{"inspect", "-m", badNames, "--json"}},
		{args: []string{"inspect", "-m", badArchitecture}},
		{args: []string{"tokenize", "-m", model, "-p", "Once upon" + evil}},
		{args: []string{"tokenize", "-m", badTokenizer, "-p", "Once upon"}},
		{args: []string{"embedding", "-m", model, "-p", "Once" + evil}},
		{args: []string{"bench", "-m", model, "-p", "4", "-n", "2", "-r", "1"}},
		{args: []string{"bench", "-m", model, "-p", "4", "-n", "2", "-r", "1", "-o", "json"}},
		{args: []string{"perplexity", "-m", model, "-f", text, "-c", "64"}},
		{args: []string{"imatrix", "-m", model, "-f", text, "-c", "64", "-o", filepath.Join(folder, "im\x1b[31m.gguf")}},
		{args: []string{"quantize", "--dry-run", badNames, filepath.Join(folder, "o.gguf"), "q4_0"}},
		{args: []string{"quantize", "--allow-requantize", badNames, filepath.Join(folder, "out\x1b[31m\u009b.gguf"), "q4_0"}},
		{args: []string{"batch", "-m", model, "-f", lines, "-n", "2"}},
		{args: []string{"sweep", "-m", badNames, "-f", text}},
		{args: []string{"prepare", "-m", badNames, "-o", filepath.Join(folder, "p.gguf"), "-f", text}},
		{args: []string{"profile", "-m", badNames, "-o", filepath.Join(folder, "p.json"), "-f", text}},
		{args: []string{"convert", folder + evil, filepath.Join(folder, "c.gguf")}},
		{args: []string{"eval", "-m", badNames, "hellaswag", "-f", text}},
		{args: []string{"serve", "-m", badNames}},
		{args: []string{"serve", "-m", badArchitecture}},
		{args: []string{"health", "http://" + evil}},
		{args: []string{"pull", "user/" + evil}},
	} {
		shown := shownBy(t, folder, k.stdin, nil, k.args...)
		t.Logf("%.12q: %.160q", k.args, shown)
		if strings.Contains(shown, "panic:") {
			t.Errorf("%q crashed: %s", k.args, shown)
		}
		harmless(t, shown, true)
		if strings.TrimSpace(shown) == "" {
			t.Errorf("%q showed nothing", k.args)
		}
	}
}

// TestForeignAnswers: nor text from servers and the hub.
func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	message, err := json.Marshal(strings.ToValidUTF8(evil, "?"))
	if err != nil {
		t.Fatal(err)
	}
	status, body := http.StatusOK, ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Error-Message", "no \u202e\u009b")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []struct {
		status int
		body   string
	}{
		{200, `{"models":[{"name":` + string(message) + `,"size":1},{"name":"b"}]}`},
		{200, evil},
		{500, `{"error":` + string(message) + `}`},
		{503, `{"error":{"message":` + string(message) + `}}`},
		{404, evil},
	} {
		status, body = answer.status, answer.body
		for _, args := range [][]string{
			{"ps", "--port", u.Port()},
			{"ps", "--json", "--port", u.Port()},
			{"stop", "--port", u.Port()},
			{"stop", "b", "--port", u.Port()},
			{"health", s.URL},
			{"pull", "user/repo"},
		} {
			shown := shownBy(t, folder, "", []string{"HF_ENDPOINT=" + s.URL}, args...)
			t.Logf("%q: %.300q", args, shown)
			harmless(t, shown, true)
		}
	}
	h := hubtest.New()
	defer h.Close()
	h.Repos["user/repo"] = &hubtest.Repo{Files: map[string][]byte{"a" + strings.ToValidUTF8(evil, "?") + "-Q8_0.gguf": demo.Model(), "b-Q4_0\u202e.gguf": demo.Model()}}
	for _, args := range [][]string{{"pull", "user/repo"}, {"pull", "user/repo:Q8_0"}, {"list"}, {"show", "user/repo"}, {"rm", "user/repo"}} {
		shown := shownBy(t, folder, "y\n", []string{"HF_ENDPOINT=" + h.URL}, args...)
		t.Logf("%q: %.300q", args, shown)
		harmless(t, shown, true)
	}
}
