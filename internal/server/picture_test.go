package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/bmp"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// seeing gives a server a model that sees: a small random one with the embedded model's tokens, and Gemma 3's tower of
// the same width, which makes pictureRows rows of a picture.
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

// shown is the text in place of a picture in the prompt of a conversation.
const shown = "\n\n" + shownPlain + "\n\n"

// shownPlain is the text in place of a picture in any other prompt.
const shownPlain = "<start_of_image>" + server.MediaMark + "<end_of_image>"

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
		"/v1/chat/completions/input_tokens",
		[]any{"usage", "prompt_tokens"},
		"What is this?" + shown,
	},
	{
		"openai, an address alone", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"data:image/png;base64,{PNG}"},{"type":"text","text":"What is this?"}]}]}`,
		"/v1/chat/completions/input_tokens",
		[]any{"usage", "prompt_tokens"},
		shown + "What is this?",
	},
	{
		"openai, a tool's result", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"Look."},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"seen"},{"type":"image_url","image_url":{"url":"data:image/png;base64,{PNG}"}}]}]}`,
		"/v1/chat/completions/input_tokens",
		[]any{"usage", "prompt_tokens"},
		"seen" + shown,
	},
	{
		"open webui", "/v1/chat/completions", // a file's data URI has its parameters, and the text comes first
		`{"stream":false,"model":"tales","messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;name=a%20b.png;base64,{PNG}"}}]}],"params":{},"features":{}}`,
		"/v1/chat/completions/input_tokens",
		[]any{"usage", "prompt_tokens"},
		"What is this?" + shown,
	},
	{
		"responses", "/v1/responses",
		`{"model":"tales","input":[{"role":"user","content":[{"type":"input_text","text":"What is this?"},{"type":"input_image","image_url":"data:image/png;base64,{PNG}","detail":"auto"}]}]}`,
		"/v1/responses/input_tokens",
		[]any{"usage", "input_tokens"},
		"What is this?" + shown,
	},
	{
		"responses, a tool's result", "/v1/responses",
		`{"input":[{"role":"user","content":"Look."},{"type":"function_call","call_id":"call_1","name":"look","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"seen"},{"type":"input_image","image_url":"data:image/png;base64,{PNG}"}]}]}`,
		"/v1/responses/input_tokens",
		[]any{"usage", "input_tokens"},
		"seen" + shown,
	},
	{
		"responses, a screenshot", "/v1/responses",
		`{"input":[{"role":"user","content":"Look."},{"type":"computer_call","call_id":"call_1","action":{"type":"screenshot"},"status":"completed"},` +
			`{"type":"computer_call_output","call_id":"call_1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,{PNG}"}}]}`,
		"/v1/responses/input_tokens",
		[]any{"usage", "input_tokens"},
		shown,
	},
	{
		"anthropic", "/v1/messages",
		`{"model":"tales","max_tokens":100,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"{PNG}"}},{"type":"text","text":"What is this?"}]}]}`,
		"/v1/messages/count_tokens",
		[]any{"usage", "input_tokens"},
		shown + "What is this?",
	},
	{
		"claude code, which has read a picture's file", "/v1/messages",
		`{"model":"tales","max_tokens":100,"messages":[{"role":"user","content":[{"type":"text","text":"Read a.png"}]},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":"/a.png"}}]},` +
			`{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"{PNG}","media_type":"image/png"}}],"cache_control":{"type":"ephemeral"}}]}]}`,
		"/v1/messages/count_tokens",
		[]any{"usage", "input_tokens"},
		shown,
	},
	{
		"ollama, chat", "/api/chat", `{"model":"tales","stream":false,"messages":[{"role":"user","content":"What is this?","images":["{PNG}","{PNG}"]}]}`,
		"",
		[]any{"prompt_eval_count"},
		shown + shown + "What is this?",
	},
	{
		"ollama, generate", "/api/generate", `{"model":"tales","stream":false,"prompt":"What is this?","images":["{PNG}"]}`,
		"",
		[]any{"prompt_eval_count"},
		shown + "What is this?",
	},
	{
		"ollama, raw", "/api/generate", `{"model":"tales","stream":false,"raw":true,"prompt":"What is this?","images":["{PNG}"]}`,
		"",
		[]any{"prompt_eval_count"},
		shownPlain + "What is this?",
	},
	{
		"llama-server", "/completion", `{"prompt":{"prompt_string":"See <__media__> here.","multimodal_data":["{PNG}"]}}`,
		"",
		[]any{"tokens_evaluated"},
		"See " + shownPlain + " here.",
	},
	{
		"llama-server's form at OpenAI's route", "/v1/completions", `{"prompt":[{"prompt_string":"See <__media__><__media__>","multimodal_data":["{PNG}","{PNG}"]}],"max_tokens":20}`,
		"",
		[]any{"usage", "prompt_tokens"},
		"See " + shownPlain + shownPlain,
	},
}

// TestPictures: pictures reach the model in the client's place, and their rows count as tokens of the prompt, also on
// routes that only count.
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
			if cached, ok := at(t, doc, "usage", "cache_read_input_tokens").(float64); ok { // Anthropic's input_tokens are without them
				n += cached
			}
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

// TestPictureProgress: a client that asks for a prompt's progress also gets the tower's, before that of the prompt.
func TestPictureProgress(t *testing.T) {
	l := start(t, seeing(t))
	body := `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,{PNG}"}},{"type":"text","text":"What is this?"}]}],"max_tokens":2,"stream":true,"return_progress":true}`
	res := l.request(t.Context(), "POST", "/v1/chat/completions", strings.ReplaceAll(body, "{PNG}", pngOf(t, color.RGBA{1, 2, 3, 255})))
	docs, _ := events(t, res.Body)
	res.Body.Close()
	var seen, total []float64
	read := false
	for _, d := range docs {
		p, ok := d["prompt_progress"].(map[string]any)
		if !ok {
			continue
		}
		of, ok := p["pictures"].(map[string]any)
		if read = read || !ok; ok {
			if seen, total = append(seen, of["processed"].(float64)), append(total, of["total"].(float64)); read || p["processed"] != 0.0 {
				t.Errorf("pictures are computed when %v tokens are read", p["processed"])
			}
		}
	}
	if n := len(seen); n < 2 || !slices.IsSorted(seen) || seen[n-1] != total[n-1] || total[0] != total[n-1] || !read {
		t.Errorf("%v of %v is told, then what is read: %t", seen, total, read)
	}
}

// TestPicturesRefused: invalid or forbidden pictures are refused with 400 and a sentence.
func TestPicturesRefused(t *testing.T) {
	l := start(t, seeing(t))
	for source, want := range map[string]string{
		"":                                "no data",
		"data":                            "not a picture", // base64
		"ftp://example.org/cat.png":       "neither a data URI",
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

// TestSeesInLists: lists and properties say whether a model sees, as each API's clients expect.
func TestSeesInLists(t *testing.T) {
	for _, sees := range []bool{false, true} {
		l := start(t, func(o *choices) {
			if sees {
				seeing(t)(o)
			}
		})
		props, _ := l.get("/props")
		models, _ := l.get("/v1/models")
		one, _ := l.get("/v1/models/tales")
		tags, _ := l.get("/api/tags")
		show := l.good("/api/show", `{"model":"tales"}`)
		has := func(list any, what string) bool {
			all, _ := list.([]any)
			return slices.Contains(all, any(what))
		}
		for what, said := range map[string]bool{
			"/props":                  at(t, props, "modalities", "vision") == true,
			"/v1/models":              has(at(t, models, "data", 0, "architecture", "input_modalities"), "image"),
			"/v1/models capabilities": has(at(t, models, "data", 0, "capabilities"), "multimodal"),
			"/v1/models/tales":        has(at(t, one, "architecture", "input_modalities"), "image"),
			"/api/tags":               has(at(t, tags, "models", 0, "capabilities"), "vision"),
			"/api/tags families":      has(at(t, tags, "models", 0, "details", "families"), "clip"),
			"/api/show":               has(show["capabilities"], "vision"),
		} {
			if said != sees {
				t.Errorf("%s says %v of a model that sees: %v", what, said, sees)
			}
		}
		if props["media_marker"] != server.MediaMark {
			t.Errorf("the mark of a picture is %v", props["media_marker"])
		}
	}
}

// TestBlindModels: without a tower all routes refuse pictures before they read them. A tool's pictures are described in
// words.
func TestBlindModels(t *testing.T) {
	l := start(t, func(o *choices) { o.context = 1024 })
	l.says.text("a king")
	for _, q := range pictureRequests {
		doc, status := l.ask(q.path, strings.ReplaceAll(q.body, "{PNG}", "!!"))
		text, _ := json.Marshal(doc)
		if strings.Contains(q.body, "tool_result") || strings.Contains(q.body, "_output") || strings.Contains(q.body, "tool_call_id") {
			if status != http.StatusOK {
				t.Errorf("%s: status %d: %s", q.name, status, text)
			}
		} else if status != http.StatusBadRequest || !strings.Contains(string(text), "image input is not supported") || !strings.Contains(string(text), "--mmproj") {
			t.Errorf("%s: status %d: %s", q.name, status, text)
		}
	}
}

// TestPicturesDecoded: base64 in all forms that clients write.
func TestPicturesDecoded(t *testing.T) {
	l := start(t, seeing(t))
	standard := pngOf(t, color.RGBA{250, 30, 30, 255})
	data, _ := base64.StdEncoding.DecodeString(standard)
	var lines strings.Builder
	for i := 0; i < len(standard); i += 20 {
		lines.WriteString(standard[i:min(i+20, len(standard))] + "\r\n")
	}
	count := func(source string) any {
		t.Helper()
		body, _ := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "image_url", "image_url": source}}}}})
		return l.good("/v1/chat/completions/input_tokens", string(body))["input_tokens"]
	}
	want := count(standard)
	for _, source := range []string{
		"data:image/png;base64," + standard, "DATA:IMAGE/PNG;BASE64," + standard, "data:;base64," + standard,
		"data:image/jpeg;charset=utf-8;base64," + strings.TrimRight(standard, "="), "data:image/png;base64," + lines.String(),
		"data:image/png;base64," + base64.URLEncoding.EncodeToString(data), base64.RawURLEncoding.EncodeToString(data),
		"data:image/png;base64," + url.QueryEscape(standard), "data:image/png," + url.PathEscape(string(data)), " \n" + standard,
	} {
		if got := count(source); got != want {
			t.Errorf("%.60q: %v tokens, want %v", source, got, want)
		}
	}
}

// TestDamagedPictures: 2,000 damaged files on all routes get 400 or 200, in time, and all memory is freed.
func TestDamagedPictures(t *testing.T) {
	l := start(t, seeing(t))
	l.says.text("a king")
	whole := fileOf(t)
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for i := range 2000 {
		data := slices.Clone(whole[i%len(whole)])
		switch i / len(whole) % 3 {
		case 0: // cut off
			data = data[:random.IntN(len(data))]
		case 1: // bytes changed
			for range 1 + random.IntN(8) {
				data[random.IntN(len(data))] = byte(random.Uint32())
			}
		case 2: // header changed, where sizes are
			data[random.IntN(min(40, len(data)))] ^= byte(1 + random.IntN(255))
		}
		q := pictureRequests[i%len(pictureRequests)]
		path := q.path
		if q.count != "" {
			path = q.count // without generating
		}
		doc, status := l.ask(path, strings.ReplaceAll(q.body, "{PNG}", base64.StdEncoding.EncodeToString(data)))
		message := fmt.Sprint(doc["error"])
		switch {
		case status == http.StatusBadRequest && len(message) > 10:
			refused++
		case status == http.StatusRequestEntityTooLarge && strings.Contains(message, "--request-memory"): // its header says that it is large
			refused++
		case status != http.StatusOK:
			t.Fatalf("file %d, %s: status %d: %v", i, path, status, doc)
		}
	}
	if refused < 500 {
		t.Errorf("%d were refused", refused)
	}
	eventually(t, "all memory was given back", func() bool { return l.s.TakenMemory() == 0 })
}

// fileOf returns files of pictures in several formats.
func fileOf(t testing.TB) [][]byte {
	t.Helper()
	m := image.NewPaletted(image.Rect(0, 0, 24, 16), color.Palette{color.Black, color.White, color.RGBA{200, 0, 0, 255}})
	for i := range m.Pix {
		m.Pix[i] = byte(i * i % 3)
	}
	var files [][]byte
	for _, encode := range []func(w io.Writer) error{
		func(w io.Writer) error { return png.Encode(w, m) },
		func(w io.Writer) error { return jpeg.Encode(w, m, nil) },
		func(w io.Writer) error { return gif.Encode(w, m, nil) },
		func(w io.Writer) error { return bmp.Encode(w, m) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		files = append(files, b.Bytes())
	}
	return files
}

// TestPicturesWithinMemory: a picture's memory is reserved before it is decoded, and a request for too much is refused
// with advice.
func TestPicturesWithinMemory(t *testing.T) {
	l := start(t, func(o *choices) {
		seeing(t)(o)
		o.Memory = 24 << 20
	})
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 4000, 3000))); err != nil { // few bytes, many pixels
		t.Fatal(err)
	}
	body := strings.ReplaceAll(pictureRequests[0].body, "{PNG}", base64.StdEncoding.EncodeToString(b.Bytes()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	doc, status := l.ask("/v1/chat/completions", body)
	runtime.ReadMemStats(&after)
	if message, _ := at(t, doc, "error", "message").(string); status != http.StatusRequestEntityTooLarge || !strings.Contains(message, "--request-memory") {
		t.Errorf("status %d: %v", status, doc)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("the refused picture took %d bytes", took)
	}
	many := strings.Repeat(`{"type":"image_url","image_url":"{PNG}"},`, 101)
	doc, status = l.ask("/v1/chat/completions", strings.ReplaceAll(`{"messages":[{"role":"user","content":[`+many[:len(many)-1]+`]}]}`, "{PNG}", pngOf(t, color.White)))
	if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, "more than 100 pictures") {
		t.Errorf("status %d: %v", status, doc)
	}
	eventually(t, "all memory was given back", func() bool { return l.s.TakenMemory() == 0 })
}

// TestPicturesInTurns: a second turn finds the first one's picture in the cache; another picture of the same size does
// not match it.
func TestPicturesInTurns(t *testing.T) {
	l := start(t, seeing(t))
	l.says.text("a king")
	ask := func(c color.Color, more string) (cached float64) {
		t.Helper()
		doc := l.good("/v1/chat/completions", strings.ReplaceAll(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"{PNG}"},{"type":"text","text":"What?"}]}`+more+`]}`, "{PNG}", pngOf(t, c)))
		n, _ := at(t, doc, "usage", "prompt_tokens_details", "cached_tokens").(float64)
		return n
	}
	red, blue := color.RGBA{255, 0, 0, 255}, color.RGBA{0, 0, 255, 255}
	const more = `,{"role":"assistant","content":"a king"},{"role":"user","content":"Why?"}`
	ask(red, "")
	other, same := ask(blue, ""), ask(red, more)
	if same < other+pictureRows { // the texts before the pictures are the same
		t.Errorf("of another picture %v tokens are in the cache, of the same one %v", other, same)
	}
}

// TestOllamaContextWithPictures: a text continues after tokens of an earlier text and a picture, and tokens with a
// picture are not offered for continuing.
func TestOllamaContextWithPictures(t *testing.T) {
	l := start(t, seeing(t))
	l.says.text("a king")
	first := l.good("/api/generate", `{"model":"tales","stream":false,"prompt":"Hi"}`)
	before, _ := json.Marshal(first["context"])
	var prompt string
	l.says.answer(func(p string) string { prompt = p; return "a king" })
	doc := l.good("/api/generate", strings.ReplaceAll(`{"model":"tales","stream":false,"prompt":"What?","images":["{PNG}"],"context":`+string(before)+`}`, "{PNG}", pngOf(t, color.White)))
	if doc["context"] != nil || !strings.Contains(prompt, "Hi") || strings.Index(prompt, server.MediaMark) < strings.Index(prompt, "a king") {
		t.Errorf("%q: %v", prompt, doc)
	}
}

// TestAlteredPictureRequests: a picture's request with an altered or missing value is refused, or accepted according to
// the API's document; no answer is a 5xx.
func TestAlteredPictureRequests(t *testing.T) {
	l := start(t, seeing(t))
	l.says.text("a king")
	picture, random := pngOf(t, color.White), rand.New(rand.NewPCG(3, 4))
	for range 30 {
		for _, q := range pictureRequests {
			body := altered(t, random, strings.ReplaceAll(q.body, "{PNG}", picture))
			res := l.request(t.Context(), "POST", q.path, body)
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode >= http.StatusInternalServerError {
				t.Errorf("%s %.300s: status %d", q.path, body, res.StatusCode)
			}
		}
	}
}

// TestPicturesLeftOut: if a conversation is too long, the oldest messages are dropped with their pictures.
func TestPicturesLeftOut(t *testing.T) {
	l := start(t, func(o *choices) {
		seeing(t)(o)
		o.context = 512
	})
	picture := pngOf(t, color.White)
	for path, body := range map[string]string{
		"/api/chat":     `{"model":"tales","stream":false,"options":{"num_predict":20},"messages":[{"role":"user","content":"{LONG}","images":["{PNG}","{PNG}"]},{"role":"assistant","content":"Yes."},{"role":"user","content":"This?","images":["{PNG}"]}]}`,
		"/v1/responses": `{"truncation":"auto","max_output_tokens":20,"input":[{"role":"user","content":[{"type":"input_text","text":"{LONG}"},{"type":"input_image","image_url":"{PNG}"}]},{"role":"assistant","content":"Yes."},{"role":"user","content":[{"type":"input_image","image_url":"{PNG}"},{"type":"input_text","text":"This?"}]}]}`,
	} {
		var prompt string
		l.says.answer(func(p string) string { prompt = p; return "a king" })
		l.good(path, strings.NewReplacer("{PNG}", picture, "{LONG}", strings.Repeat("king ", 600)).Replace(body))
		if strings.Count(prompt, server.MediaMark) != 1 || !strings.Contains(prompt, "This?") || strings.Contains(prompt, "king king") {
			t.Errorf("%s: the prompt is %.300q", path, prompt)
		}
	}
}

// TestPictureLargerThanAStep: a picture that must be seen as a whole and is too large for a step is the request's
// error, with advice.
func TestPictureLargerThanAStep(t *testing.T) {
	l := start(t, func(o *choices) {
		seeing(t)(o)
		o.engine = func(e *engine.Options) { e.UBatch = pictureRows - 4 }
	})
	doc, status := l.ask("/v1/chat/completions", strings.ReplaceAll(pictureRequests[0].body, "{PNG}", pngOf(t, color.White)))
	if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, "-ub ") {
		t.Errorf("status %d: %v", status, doc)
	}
}
