package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/hub/hubtest"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/ollama"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// lines reads a stream of JSON documents on lines.
func lines(t *testing.T, res *http.Response) []map[string]any {
	t.Helper()
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "application/x-ndjson" {
		t.Fatalf("status %d, %s", res.StatusCode, kind)
	}
	var docs []map[string]any
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		var doc map[string]any
		if err := json.Unmarshal(in.Bytes(), &doc); err != nil {
			t.Fatalf("the line %q: %v", in.Text(), err)
		}
		docs = append(docs, doc)
	}
	for i, d := range docs {
		if last := i == len(docs)-1; d["done"] != last || (d["done_reason"] != nil) != last {
			t.Errorf("line %d of %d: %v", i, len(docs), d)
		}
	}
	return docs
}

func TestOllamaGenerate(t *testing.T) {
	l := start(t, nil)
	const body = `{"model":"tales:latest","prompt":"Begin.","system":"You tell tales.","keep_alive":"5m","options":{"num_predict":8.0,"temperature":0,"num_ctx":1000000,"frobnicate":1}`
	doc := l.good("/api/generate", body+`,"stream":false}`)
	if doc["done"] != true || doc["done_reason"] != "length" || doc["eval_count"] != 8.0 || doc["prompt_eval_count"].(float64) < 10 ||
		doc["total_duration"].(float64) <= 0 || doc["model"] != "tales:latest" {
		t.Errorf("an answer: %v", doc)
	}
	text := ""
	docs := lines(t, l.request(t.Context(), "POST", "/api/generate", body+`,"logprobs":true,"top_logprobs":2}`))
	logs := 0
	for _, d := range docs {
		text += d["response"].(string)
		if all, ok := d["logprobs"].([]any); ok {
			logs += len(all)
		}
	}
	if text != doc["response"] || text == "" || logs != 8 {
		t.Errorf("streamed %q with %d log probabilities, in one piece %q", text, logs, doc["response"])
	}
	// the context of an answer continues in the next
	context, _ := json.Marshal(doc["context"])
	next := l.good("/api/generate", `{"prompt":"And then?","stream":false,"options":{"num_predict":1},"context":`+string(context)+`}`)
	if got, had := next["prompt_eval_count"].(float64), float64(len(doc["context"].([]any))); got <= had {
		t.Errorf("a prompt of %v tokens behind %v", got, had)
	}
	for body, want := range map[string]string{
		`{"prompt":"A","raw":true,"options":{"num_predict":1}`: "",
		`{"prompt":""`: "load",
		`{"prompt":"A","format":"json","options":{"num_predict":2}`: "",
	} {
		if doc := l.good("/api/generate", body+`,"stream":false}`); want != "" && doc["done_reason"] != want {
			t.Errorf("%s: %v", body, doc)
		}
	}
	doc = l.good("/api/generate", `{"prompt":"A","stream":false,"format":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}}`)
	var v map[string]bool
	if err := json.Unmarshal([]byte(doc["response"].(string)), &v); err != nil || len(v) != 1 || doc["done_reason"] != "stop" {
		t.Errorf("by a schema: %v: %v", doc, err)
	}
}

func TestOllamaChat(t *testing.T) {
	qwen, err := os.ReadFile(testenv.Shared(t, "chat-templates/Qwen-Qwen3-0.6B.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	l := start(t, func(o *choices) {
		o.context = 2048
		if o.model.Template, err = chat.Parse(string(qwen), "", "<|im_end|>"); err != nil {
			t.Fatal(err)
		}
	})
	var prompt string
	l.says.answer(func(p string) string {
		prompt = p
		return "<think>\nHm.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
	})
	body := `{"model":"tales","think":true,"messages":[{"role":"user","content":"Weather?"}],` + tools
	check := func(content, thinking string, calls []any) {
		t.Helper()
		if content != "" || thinking != "Hm." || len(calls) != 1 || at(t, calls[0], "function", "name") != "get_weather" || at(t, calls[0], "function", "arguments", "city") != "Rome" {
			t.Errorf("content %q, thinking %q, calls %v", content, thinking, calls)
		}
	}
	m := l.good("/api/chat", body+`,"stream":false}`)["message"].(map[string]any)
	check(m["content"].(string), m["thinking"].(string), m["tool_calls"].([]any))
	content, thinking := "", ""
	var calls []any
	for _, d := range lines(t, l.request(t.Context(), "POST", "/api/chat", body+"}")) {
		m := d["message"].(map[string]any)
		content += m["content"].(string)
		if s, ok := m["thinking"].(string); ok {
			thinking += s
		}
		if all, ok := m["tool_calls"].([]any); ok {
			calls = append(calls, all...)
		}
	}
	check(content, thinking, calls)
	l.says.answer(func(p string) string { prompt = p; return "Sunny." })
	l.good("/api/chat", `{"model":"tales","stream":false,"think":false,"messages":[{"role":"user","content":"Weather?"},
		{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_weather","arguments":{"city":"Rome"}}}]},
		{"role":"tool","tool_name":"get_weather","content":"22 degrees"}],`+tools+"}")
	for _, part := range []string{`"city": "Rome"`, "22 degrees", "<think>\n\n</think>"} {
		if !strings.Contains(prompt, part) {
			t.Errorf("the prompt lacks %q: %q", part, prompt)
		}
	}
	// the oldest turns of a long conversation are left out, unless the client says otherwise
	turns := strings.Repeat(`{"role":"user","content":"`+strings.Repeat("king ", 200)+`"},{"role":"assistant","content":"Yes."},`, 20)
	long := `{"model":"tales","stream":false,"messages":[` + turns + `{"role":"user","content":"Last"}]`
	if l.good("/api/chat", long+"}"); !strings.Contains(prompt, "Last") || strings.Count(prompt, "Yes.") >= 20 {
		t.Errorf("the prompt has %d of 20 turns", strings.Count(prompt, "Yes."))
	}
	if doc, status := l.ask("/api/chat", long+`,"truncate":false}`); status != http.StatusBadRequest || !strings.Contains(doc["error"].(string), "2048") {
		t.Errorf("without truncation: %d %v", status, doc)
	}
	// an agent's turn is shortened from its beginning; what the user asked stays
	loop := strings.Repeat(`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_time","arguments":{}}}]},{"role":"tool","content":"`+strings.Repeat("king ", 200)+`"},`, 20)
	l.good("/api/chat", `{"model":"tales","stream":false,"messages":[{"role":"user","content":"First"},{"role":"assistant","content":"Yes."},{"role":"user","content":"Asked"},`+loop+`{"role":"assistant","content":"Last"}]}`)
	if !strings.Contains(prompt, "user\nAsked") || strings.Contains(prompt, "First") || !strings.Contains(prompt, "Last") {
		t.Errorf("a turn that was shortened: %.200q", prompt)
	}
	if doc := l.good("/api/chat", `{"messages":[]}`); doc["done_reason"] != "load" {
		t.Errorf("an empty chat: %v", doc)
	}
}

func TestOllamaModels(t *testing.T) {
	l := start(t, nil)
	for path, want := range map[string]string{
		"/": "Ollama is running", "/api/version": `"version":"`, "/api/tags": `"name":"tales"`, "/api/ps": `"context_length":512`,
	} {
		res := l.request(t.Context(), "GET", path, "")
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("GET %s: %d %s", path, res.StatusCode, text)
		}
	}
	res := l.request(t.Context(), "HEAD", "/", "")
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("HEAD /: %d", res.StatusCode)
	}
	doc := l.good("/api/show", `{"model":"tales"}`)
	if at(t, doc, "details", "family") != "llama" || doc["template"] == "" || !strings.Contains(doc["parameters"].(string), "num_ctx 512") {
		t.Errorf("the model: %v", doc)
	}
	doc = l.good("/api/embed", `{"model":"tales","input":["The king","The queen"]}`)
	if all := doc["embeddings"].([]any); len(all) != 2 || len(all[0].([]any)) < 8 {
		t.Errorf("embeddings: %v", doc)
	}
	if doc = l.good("/api/embeddings", `{"model":"tales","prompt":"The king"}`); len(doc["embedding"].([]any)) < 8 {
		t.Errorf("an embedding: %v", doc)
	}
}

func TestOllamaRefused(t *testing.T) {
	l := start(t, nil)
	for _, k := range []struct {
		path, body string
		status     int
		name       string
	}{
		{"/api/chat", `{"messages":[{"role":"user","content":"Hi","images":["aGk="]}]}`, 400, "image input"},
		{"/api/chat", `{"messages":[{"role":"wizard","content":"Hi"}]}`, 400, "wizard"},
		{"/api/chat", `{"model":"tales","messages":[{"role":"user","content":"Hi"}],"think":true}`, 400, `"tales" does not support thinking`},
		{"/api/chat", `{"messages":[{"role":"user","content":"Hi"}],"think":"much"}`, 400, "think"},
		{"/api/generate", `{"prompt":"A","suffix":"B"}`, 400, "insert"},
		{"/api/generate", `{"prompt":"A","template":"{{ .Prompt }}"}`, 400, "template"},
		{"/api/generate", `{"prompt":"A","format":"xml"}`, 400, "format"},
		{"/api/generate", `{"prompt":"A","context":[-1]}`, 400, "context"},
		{"/api/generate", `{"prompt":"A","options":{"top_p":7}}`, 400, "top-p"},
		{"/api/generate", `{"prompt":"A","keep_alive":"soon"}`, 400, "keep_alive"},
		{"/api/generate", `{"prompt":"` + strings.Repeat("king ", 2000) + `"}`, 400, "512"},
		{"/api/pull", `{"model":"a/b"}`, 501, "powerinfer pull"},
		{"/api/create", `{"model":"a"}`, 501, "create"},
		{"/api/show", `{"model":"nobody"}`, 404, "nobody"},
		{"/api/nothing", `{}`, 404, "/api/nothing"},
	} {
		doc, status := l.ask(k.path, k.body)
		message, _ := doc["error"].(string)
		if status != k.status || !strings.Contains(message, k.name) {
			t.Errorf("%s %.80s: %d %v", k.path, k.body, status, doc)
		}
	}
}

// keeping is a Single that notes for how long its model is to be kept.
type keeping struct {
	server.Single
	kept []time.Duration
}

func (k *keeping) Keep(_ string, d time.Duration) error {
	k.kept = append(k.kept, d)
	return nil
}

// TestOllamaKeepAlive: an invalid time refuses the request, and changes nothing.
func TestOllamaKeepAlive(t *testing.T) {
	l := start(t, nil)
	k := &keeping{}
	k.Set(server.Listed{Name: "tales", Model: l.m})
	s := server.New(k, *l.s.Options())
	ollama.Register(s, nil)
	for path, rest := range map[string]string{
		"/api/generate": `"prompt":"A","options":{"num_predict":1}`, "/api/embed": `"input":"A"`, "/api/embeddings": `"prompt":"A"`,
	} {
		for said, want := range map[string][]time.Duration{`"soon"`: nil, `[]`: nil, `"5m"`: {5 * time.Minute}, `90`: {90 * time.Second}, `-1`: {-1}} {
			k.kept = nil
			status := http.StatusOK
			if want == nil {
				status = http.StatusBadRequest
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(`{"keep_alive":`+said+","+rest+"}")))
			if w.Code != status || !slices.Equal(k.kept, want) {
				t.Errorf("%s with keep_alive %s: status %d, kept for %v, want %d and %v", path, said, w.Code, k.kept, status, want)
			}
		}
	}
}

// TestOllamaPullAndDelete: a model of the hub is downloaded to the cache with progress for Ollama's clients, and
// removed again.
func TestOllamaPullAndDelete(t *testing.T) {
	model := demo.Model()
	published := hubtest.New()
	defer published.Close()
	published.Repos["tales/small"] = &hubtest.Repo{Files: map[string][]byte{"small-Q8_0.gguf": model}}
	h, err := hub.New(hub.Options{Endpoint: published.URL, Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l := start(t, func(o *choices) { o.hub = h })
	const file = "models--tales--small/snapshots/*/small-Q8_0.gguf"
	cached := func() bool {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(h.Folder(), filepath.FromSlash(file)))
		if err != nil || len(found) == 0 {
			return false
		}
		data, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Equal(data, model)
	}

	res := l.request(t.Context(), "POST", "/api/pull", `{"model":"hf.co/tales/small:Q8_0"}`)
	defer res.Body.Close()
	digest := "sha256:" + hubtest.SHA256(model)
	var first, last map[string]any
	whole := false // the file's last line has all of its bytes
	for in := json.NewDecoder(res.Body); in.More(); {
		last = nil
		if err := in.Decode(&last); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = last
		}
		if last["digest"] == digest {
			whole = last["completed"] == float64(len(model)) && last["total"] == last["completed"]
		}
	}
	if first["status"] != "pulling manifest" || !whole || last["status"] != "success" || !cached() {
		t.Errorf("first %v, last %v, the file's last line whole: %t, in the cache: %t", first, last, whole, cached())
	}
	remove := func(want int) {
		t.Helper()
		res := l.request(t.Context(), "DELETE", "/api/delete", `{"model":"hf.co/tales/small:Q8_0"}`)
		defer res.Body.Close()
		if res.StatusCode != want || cached() {
			t.Errorf("removing: status %d, in the cache: %t", res.StatusCode, cached())
		}
	}
	remove(http.StatusOK)
	remove(http.StatusNotFound)
	if doc := l.good("/api/pull", `{"model":"tales/small","stream":false}`); doc["status"] != "success" || !cached() {
		t.Errorf("in one piece: %v, in the cache: %t", doc, cached())
	}
	if doc, status := l.ask("/api/pull", `{"model":"tales/nothing","stream":false}`); status != http.StatusNotFound || !strings.Contains(doc["error"].(string), "tales/nothing") {
		t.Errorf("what is not there: status %d: %v", status, doc)
	}
}

// TestPullsEndWithTheServer: a stopping server tells clients that pull, before or during its answer, and logs no
// failure.
func TestPullsEndWithTheServer(t *testing.T) {
	asked := make(chan bool, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- true:
		default:
		}
		<-r.Context().Done()
	}))
	defer silent.Close()
	for stream, status := range map[string]int{"true": http.StatusOK, "false": http.StatusServiceUnavailable} {
		h, err := hub.New(hub.Options{Endpoint: silent.URL, Folder: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		s := server.New(&server.Single{}, server.Options{Local: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		ollama.Register(s, h)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, listener) }()
		go func() {
			<-asked
			stop()
		}()
		res, err := http.Post("http://"+listener.Addr().String()+"/api/pull", "application/json", strings.NewReader(`{"model":"u/r","stream":`+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err = errors.Join(err, <-ended); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != status || !strings.Contains(string(text), "the server is stopping") || strings.Contains(string(text)+log.String(), "canceled") || strings.Contains(log.String(), "failed") {
			t.Errorf("stream %s: status %d: %s\nthe log: %s", stream, res.StatusCode, text, &log)
		}
	}
}
