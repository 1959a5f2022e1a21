package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// seeing has a server's model see: a small random one with the embedded model's tokens, and Gemma 3's tower of the same
// width, which makes pictureRows rows of a picture.
func seeing(t testing.TB) func(*choices) {
	t.Helper()
	embedded, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	tokens, _, err := embedded.Strings("tokenizer.ggml.tokens")
	if err != nil {
		t.Fatal(err)
	}
	const width = 64
	f := synthtest.File(t, synth.Spec{Arch: "llama", Type: quant.F32, Layers: 1, Embd: width, FF: 32, Heads: 1, Vocab: len(tokens), Context: 4096, Seed: 1})
	for _, k := range embedded.Keys {
		if strings.HasPrefix(k.Key, "tokenizer.") {
			f.Set(k.Key, k.Value)
		}
	}
	tower := towerOf(t, width)
	return func(o *choices) { o.file, o.model.Tower = f, tower }
}

// pictureRows are the rows of a picture, and pictureTokens all that stands for one in a prompt.
const pictureRows = 16

func towerOf(t testing.TB, width int) *vision.Tower {
	t.Helper()
	path := filepath.Join(t.TempDir(), visiontest.TowerFile)
	for _, c := range visiontest.Cases() {
		if c.Name == "gemma3" {
			if err := c.WriteTower(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	tower, err := vision.Open(t.Context(), f, dev, vision.Options{Width: width})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tower.Close() })
	return tower
}

// pngOf returns a PNG file of one colour in base64.
func pngOf(t testing.TB, c color.Color) string {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 20, 12))
	for i := range 20 * 12 {
		m.Set(i%20, i/20, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// shown is what stands in a prompt in the place of a picture.
const shown = "\n\n<start_of_image>" + server.MediaMark + "<end_of_image>\n\n"

// pictureRequests are requests for a text about a picture, {PNG}, as clients send them, and what they ask.
var pictureRequests = []struct {
	name, path, body string
	count            string // the route that counts its tokens; empty: there is none
	tokens           []any  // where the answer says how many tokens the prompt has
	want             string // what the prompt has
}{
	{
		"openai", "/v1/chat/completions",
		`{"model":"tales","messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,{PNG}","detail":"low"}}]}]}`,
		"/v1/chat/completions/input_tokens", []any{"usage", "prompt_tokens"}, "What is this?" + shown,
	},
	{
		"openai, an address alone", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"data:image/png;base64,{PNG}"},{"type":"text","text":"What is this?"}]}]}`,
		"/v1/chat/completions/input_tokens", []any{"usage", "prompt_tokens"}, shown + "What is this?",
	},
}

// TestPictures: pictures come to the model in the place where the client put them, and their rows count as tokens of the
// prompt, also for the routes that only count.
func TestPictures(t *testing.T) {
	l := start(t, seeing(t))
	picture := pngOf(t, color.RGBA{200, 30, 30, 255})
	for _, q := range pictureRequests {
		t.Run(q.name, func(t *testing.T) {
			l.t = t
			var prompt string
			l.says.answer(func(p string) string {
				prompt = strings.ReplaceAll(p, server.MediaMark+" ", server.MediaMark) // with which this tokenizer begins a text
				return "a king"
			})
			doc := l.good(q.path, strings.ReplaceAll(q.body, "{PNG}", picture))
			if !strings.Contains(prompt, q.want) || strings.Count(prompt, server.MediaMark) != strings.Count(q.want, server.MediaMark) {
				t.Errorf("the prompt is %q, without %q", prompt, q.want)
			}
			text, _ := json.Marshal(doc)
			if !strings.Contains(string(text), "a king") {
				t.Errorf("the answer is %s", text)
			}
			without := l.m.Engine.Tokenizer().Encode(strings.ReplaceAll(prompt, server.MediaMark, ""), false, true)
			n, _ := at(t, doc, q.tokens...).(float64)
			if least := len(without) + pictureRows*strings.Count(prompt, server.MediaMark); int(n) < least-2 || int(n) > least+4 {
				t.Errorf("the prompt counts %v tokens, want about %d", n, least)
			}
			if q.count == "" {
				return
			}
			counted := l.good(q.count, strings.ReplaceAll(q.body, "{PNG}", picture))
			if counted["input_tokens"] != n {
				t.Errorf("%s counts %v, and the answer %v", q.count, counted["input_tokens"], n)
			}
		})
	}
}

// TestPicturesRefused: what is no picture, or may not be shown, is refused with 400 and a sentence.
func TestPicturesRefused(t *testing.T) {
	l := start(t, seeing(t))
	for source, want := range map[string]string{
		"":                                "no data",
		"cat.png":                         "neither base64",
		"file:///etc/passwd":              "server's files",
		"FILE:/etc/passwd":                "server's files",
		"https://example.org/cat.png":     "--media-domains example.org",
		"http://user@example.org/cat.png": "no address",
		"data:image/png;base64":           "comma",
		"data:image/png;base64,AAAA":      "not a picture",
		"data:image/png,%zz":              "percent",
		"data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte("<svg></svg>")): "SVG",
	} {
		body, _ := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "image_url", "image_url": map[string]string{"url": source}},
		}}}})
		doc, status := l.ask("/v1/chat/completions", string(body))
		if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, want) {
			t.Errorf("%q: status %d: %v", source, status, doc)
		}
	}
}
