package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/anthropic"
	"github.com/powerinfer-go/powerinfer/internal/server/llamacpp"
	"github.com/powerinfer-go/powerinfer/internal/server/ollama"
	"github.com/powerinfer-go/powerinfer/internal/server/openai"
	"github.com/powerinfer-go/powerinfer/internal/server/openapi"
	"github.com/powerinfer-go/powerinfer/internal/server/responses"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// A live server with the embedded model.
type live struct {
	t    testing.TB
	url  string
	logs *logged
	says script
	s    *server.Server
	m    *server.Model
}

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// choices are those of a test.
type choices struct {
	server.Options
	model   server.ModelOptions
	file    *gguf.File            // nil: the embedded model
	context int                   // 0: the model's own
	hub     *hub.Hub              // nil: Ollama's routes neither fetch nor remove
	engine  func(*engine.Options) // changes them; nil: nothing does
	notice  func(string)          // nil: nobody listens
}

// start starts a server; change may change its options.
func start(t testing.TB, change func(*choices)) *live {
	t.Helper()
	l := &live{t: t, logs: &logged{}}
	log := slog.New(slog.NewTextHandler(l.logs, nil))
	sampling := sample.DefaultOptions()
	sampling.Seed = 1 // what the model says is the same each time
	o := choices{Options: server.Options{Timeout: time.Hour, Log: log}, model: server.ModelOptions{
		Name: "tales", Slots: 2, Queue: 4, Predict: -1, Sampling: sampling, Norm: 2, Stop: []string{"<|im_end|>"}, Log: log, Pooling: engine.PoolMean,
	}}
	if change != nil {
		change(&o)
	}
	f, err := o.file, error(nil)
	if f == nil {
		if f, err = gguf.Parse(demo.Name, demo.Model()); err != nil {
			t.Fatal(err)
		}
	}
	if o.model.Template == nil {
		if o.model.Template, err = chat.Named("chatml", f); err != nil {
			t.Fatal(err)
		}
	}
	eo := engine.Options{Limits: engine.Limits{Sequences: o.model.Slots, Context: o.context}, Work: o.Meter != nil}
	if o.engine != nil {
		o.engine(&eo)
	}
	if o.notice == nil {
		o.notice = func(string) {}
	}
	e, err := session.Open(t.Context(), f, session.Options{
		Engine:  eo,
		Planner: planner.Options{GPUs: planner.GPUs{Devices: "none"}, Processor: planner.Processor{Threads: 1, Kernels: planner.KernelsAuto}, Notice: o.notice},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.says.tok = e.Tokenizer()
	o.model.Restrict = l.says.hold
	l.m = server.NewModel(e.Engine, o.model)
	l.says.m = l.m
	single := &server.Single{}
	single.Set(server.Listed{Name: o.model.Name, Aliases: o.model.Aliases, Tags: o.model.Tags, Model: l.m})
	l.s = server.New(single, o.Options)
	llamacpp.Register(l.s, o.hub)
	openai.Register(l.s)
	responses.Register(l.s)
	anthropic.Register(l.s)
	ollama.Register(l.s, o.hub)
	openapi.Register(l.s)
	h := httptest.NewServer(heldToDocument(t, l.s.Handler()))
	l.url = h.URL
	t.Cleanup(func() {
		h.Close()
		e.Close()
	})
	return l
}

// request sends a request and returns the answer.
func (l *live) request(ctx context.Context, method, path, body string, header ...string) *http.Response {
	l.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res
}

// get returns the document and the status that a path is answered with.
func (l *live) get(path string) (map[string]any, int) {
	l.t.Helper()
	res := l.request(l.t.Context(), "GET", path, "")
	defer res.Body.Close()
	var doc map[string]any
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		l.t.Fatalf("GET %s: %v", path, err)
	}
	return doc, res.StatusCode
}

// ask posts body and returns the answer's document and status.
func (l *live) ask(path, body string) (map[string]any, int) {
	l.t.Helper()
	res := l.request(context.Background(), "POST", path, body)
	defer res.Body.Close()
	var doc map[string]any
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		l.t.Fatalf("%s: %v", path, err)
	}
	return doc, res.StatusCode
}

// good posts body, which must be answered by 200.
func (l *live) good(path, body string) map[string]any {
	l.t.Helper()
	doc, status := l.ask(path, body)
	if status != http.StatusOK {
		l.t.Fatalf("%s %s: status %d: %v", path, body, status, doc)
	}
	return doc
}

// at returns the value in doc at a path of keys and indices.
func at(t testing.TB, doc any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := doc.(map[string]any)
			doc = m[p]
		case int:
			a, _ := doc.([]any)
			if p >= len(a) {
				t.Fatalf("%v has no element %d", path, p)
			}
			doc = a[p]
		}
	}
	return doc
}

// events reads a stream to its end: the documents of its events, and the last line of data.
func events(t testing.TB, body io.Reader) (docs []map[string]any, last string) {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok && line != "" && line != ":" && !strings.HasPrefix(line, "event: ") {
			t.Errorf("the line %q is none of an event's", line)
		}
		if !ok {
			continue
		}
		last = data
		var doc map[string]any
		if data != "[DONE]" {
			if err := json.Unmarshal([]byte(data), &doc); err != nil {
				t.Errorf("%q: %v", data, err)
			}
			docs = append(docs, doc)
		}
	}
	return docs, last
}

// eventually waits until is returns true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	testenv.Eventually(t, what, is)
}

func (l *live) idle() bool { return !slices.Contains(l.m.Busy(), true) }

func TestState(t *testing.T) {
	l := start(t, nil)
	for path, want := range map[string]string{
		"/health": `"ok"`, "/v1/health": `"ok"`, "/props": `"total_slots":2`, "/slots": `"is_processing":false`,
		"/v1/models": `"id":"tales"`, "/models": `"object":"list"`,
	} {
		res := l.request(t.Context(), "GET", path, "")
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || !json.Valid(text) || !strings.Contains(string(text), want) {
			t.Errorf("GET %s: status %d: %s", path, res.StatusCode, text)
		}
	}
	ids := at(t, l.good("/tokenize", `{"content":"The old king"}`), "tokens")
	body, _ := json.Marshal(map[string]any{"tokens": ids})
	if text := at(t, l.good("/detokenize", string(body)), "content"); strings.TrimSpace(text.(string)) != "The old king" {
		t.Errorf("tokenize and detokenize give %q", text)
	}
	doc, status := l.ask("/nowhere", `{}`)
	if status != http.StatusNotFound || at(t, doc, "error", "type") != "not_found_error" {
		t.Errorf("an unknown route: %d %v", status, doc)
	}
}

func TestKeysAndOrigins(t *testing.T) {
	l := start(t, func(o *choices) {
		o.Keys, o.Origins = []string{"first", "second"}, []string{"https://page.example"}
	})
	for _, k := range []struct {
		path   string
		header []string
		status int
	}{
		{"/health", nil, 200},
		{"/props", nil, 401},
		{"/v1/models", []string{"Authorization", "Bearer wrong"}, 401},
		{"/props", []string{"Authorization", "Bearer second"}, 200},
		{"/props", []string{"X-Api-Key", "first"}, 200},
		{"/health", []string{"Origin", "https://other.example"}, 403},
		{"/health", []string{"Origin", "https://page.example"}, 200},
		{"/health", []string{"Origin", l.url}, 200}, // the server's own page
	} {
		res := l.request(t.Context(), "GET", k.path, "", k.header...)
		res.Body.Close()
		if res.StatusCode != k.status {
			t.Errorf("GET %s with %v: status %d, want %d", k.path, k.header, res.StatusCode, k.status)
		}
		if allowed := res.Header.Get("Access-Control-Allow-Origin"); k.status == 403 && allowed != "" {
			t.Errorf("an origin that is not on the list was allowed: %s", allowed)
		}
	}
	res := l.request(t.Context(), "OPTIONS", "/v1/chat/completions", "", "Origin", "https://page.example", "Access-Control-Request-Headers", "authorization")
	res.Body.Close()
	methods := res.Header.Get("Access-Control-Allow-Methods")
	for _, route := range l.s.Routes() {
		if method, _, ok := strings.Cut(route, " "); ok && !strings.Contains(methods, method) {
			t.Errorf("a preflight allows %s, and there is %s", methods, route)
		}
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("a preflight: status %d, headers %v", res.StatusCode, res.Header)
	}
}

const long = `{"prompt":"Once upon a time","n_predict":-1,"ignore_eos":true,"stream":true}`

// endless is a context that a text fills only long after a test has ended it, however late a busy machine lets the test
// do so.
const endless = 16384

func TestFullQueue(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Slots, o.model.Queue, o.context = 1, 0, endless })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res := l.request(ctx, "POST", "/completion", long)
	defer res.Body.Close()
	refused := l.request(t.Context(), "POST", "/completion", `{"prompt":"A","n_predict":1}`)
	defer refused.Body.Close()
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("with a full queue: status %d, Retry-After %q", refused.StatusCode, refused.Header.Get("Retry-After"))
	}
	cancel()
	eventually(t, "the slot is free again", l.idle)
	eventually(t, "a request is taken again", func() bool {
		_, status := l.ask("/completion", `{"prompt":"A","n_predict":1}`)
		return status == http.StatusOK
	})
}

// TestClientsThatGo: requests of clients that disconnect end, and one that needs the whole cache finds it free. No
// goroutine remains.
func TestClientsThatGo(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("server", func(t *testing.T) {
		l := start(t, nil)
		for _, path := range []string{"/completion", "/v1/completions"} {
			ctx, cancel := context.WithCancel(t.Context())
			res := l.request(ctx, "POST", path, long)
			if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			cancel()
			res.Body.Close()
			eventually(t, "the request ended", l.idle)
		}
		ctx, cancel := context.WithCancel(t.Context())
		res := l.request(ctx, "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"Tell"}],"stream":true,"ignore_eos":true}`)
		cancel()
		res.Body.Close()
		eventually(t, "the chat ended", l.idle)
		whole := `{"prompt":"` + strings.Repeat("king ", 400) + `","n_predict":1,"cache_prompt":false}`
		if n := at(t, l.good("/completion", whole), "timings", "prompt_n").(float64); n < 400 {
			t.Errorf("the prompt has %v tokens, fewer than meant", n)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	eventually(t, "the goroutines ended", func() bool { return runtime.NumGoroutine() <= before })
}

// TestGracefulStop: the running answer is completed, and the log has no prompt.
func TestGracefulStop(t *testing.T) {
	l := start(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- l.s.Serve(ctx, listener) }()
	l.url = "http://" + listener.Addr().String()
	res := l.request(t.Context(), "POST", "/completion", `{"prompt":"secret words","n_predict":200,"ignore_eos":true,"stream":true}`)
	defer res.Body.Close()
	stop()
	docs, _ := events(t, res.Body)
	if end := docs[len(docs)-1]; end["tokens_predicted"] != 200.0 {
		t.Errorf("the answer ended early: %v", end)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := http.Get(l.url + "/health"); err == nil {
		t.Error("a stopped server answers")
	}
	if log := l.logs.String(); strings.Contains(log, "secret") || !strings.Contains(log, "path=/completion") {
		t.Errorf("the log: %s", log)
	}
}
