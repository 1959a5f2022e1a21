package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestFieldsNotKnown: on every route an unknown field is ignored and named in the log, once.
func TestFieldsNotKnown(t *testing.T) {
	l := start(t, nil)
	const message = `"messages":[{"role":"user","content":"A"}]`
	for path, body := range map[string]string{
		"/completion":                       `{"prompt":"A","n_predict":1`,
		"/v1/completions":                   `{"prompt":"A","max_tokens":1`,
		"/v1/chat/completions":              `{` + message + `,"max_tokens":1`,
		"/v1/chat/completions/input_tokens": `{` + message,
		"/apply-template":                   `{` + message,
		"/v1/responses":                     `{"input":"A","max_output_tokens":1`,
		"/v1/responses/input_tokens":        `{"input":"A"`,
		"/v1/messages":                      `{` + message + `,"max_tokens":1`,
		"/v1/messages/count_tokens":         `{` + message,
		"/api/generate":                     `{"prompt":"A","options":{"num_predict":1}`,
		"/api/chat":                         `{` + message + `,"options":{"num_predict":1,"odd /options":1}`,
		"/api/embed":                        `{"input":"A"`,
		"/api/show":                         `{"model":"tales"`,
		"/v1/embeddings":                    `{"input":"A"`,
		"/embedding":                        `{"content":"A"`,
		"/tokenize":                         `{"content":"A"`,
		"/detokenize":                       `{"tokens":[1]`,
	} {
		for range 2 {
			res := l.request(t.Context(), "POST", path, body+`,"odd `+path+`":{"a":[1]}}`)
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d", path, res.StatusCode)
			}
		}
		if n := strings.Count(l.logs.String(), `field="odd `+path+`"`); n != 1 {
			t.Errorf("%s: the log names the field %d times", path, n)
		}
	}
	if n := strings.Count(l.logs.String(), `field="odd /options"`); n != 1 {
		t.Errorf("the log names an option %d times", n)
	}
}

// TestManyFieldsNotKnown: the log does not grow with the names that clients invent.
func TestManyFieldsNotKnown(t *testing.T) {
	l := start(t, nil)
	var fields strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&fields, `,"field %d %s":1`, i, strings.Repeat("é", 200))
	}
	before := len(l.logs.String())
	l.good("/tokenize", `{"content":"A"`+fields.String()+"}")
	if grown := len(l.logs.String()) - before; grown < 1000 || grown > 100_000 {
		t.Errorf("the log has grown by %d bytes", grown)
	}
}

// TestWholeNumbers: 3.0 and 3e0 count as 3 in integer fields, and 3.5 is refused.
func TestWholeNumbers(t *testing.T) {
	l := start(t, nil)
	for number, status := range map[string]int{"3": 200, "3.0": 200, "3e0": 200, "0.3E1": 200, "3.5": 400, `"3"`: 400, "1e30": 400} {
		for path, body := range map[string]string{
			"/completion":          `{"prompt":"A","n_predict":%s}`,
			"/v1/completions":      `{"prompt":[300.0,%s],"max_tokens":3.0}`,
			"/v1/chat/completions": `{"messages":[{"role":"user","content":"A"}],"max_tokens":%s,"top_k":4e1}`,
			"/v1/messages":         `{"messages":[{"role":"user","content":"A"}],"max_tokens":%s}`,
			"/v1/responses":        `{"input":"A","max_output_tokens":%s}`,
			"/detokenize":          `{"tokens":[1,%s]}`,
			"/v1/embeddings":       `{"input":[1,%s]}`,
			"/api/generate":        `{"prompt":"A","stream":false,"options":{"num_predict":3},"context":[%s]}`,
		} {
			want := status
			if path == "/v1/completions" && number == `"3"` {
				want = 200 // a prompt may mix tokens and texts
			}
			if doc, got := l.ask(path, fmt.Sprintf(body, number)); got != want {
				t.Errorf("%s with %s: %d %v", path, number, got, doc)
			}
		}
	}
}

// TestWrongTypes: the error of a value of a wrong type says what the field takes, and an encoded body is refused.
func TestWrongTypes(t *testing.T) {
	l := start(t, nil)
	for body, want := range map[string]string{
		`{"prompt":"A","seed":1.5}`:          "it takes a whole number, not 1.5",
		`{"prompt":"A","temperature":"hot"}`: "it takes a number, not a text",
		`{"prompt":"A","stream":1}`:          "it takes true or false, not a number",
		`{"prompt":"A","grammar":["root"]}`:  "it takes a text, not a list",
		`{"prompt":"A","lora":[{"id":"x"}]}`: "id takes a whole number, not a text",
		`{"prompt":"A","top_p":2}`:           "top-p 2 is not in [0, 1]",
	} {
		doc, status := l.ask("/completion", body)
		if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.HasSuffix(message, want) && !strings.HasPrefix(message, want) {
			t.Errorf("%s: %d %v, want %q", body, status, message, want)
		}
	}
	res := l.request(t.Context(), "POST", "/completion", "\x1f\x8b", "Content-Encoding", "gzip")
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("an encoded body: status %d", res.StatusCode)
	}
}

// TestOnlyValues: a field with a single accepted value may be a number with a point, and a body may begin with a byte
// order mark.
func TestOnlyValues(t *testing.T) {
	l := start(t, nil)
	for body, status := range map[string]int{
		`{"prompt":"A","max_tokens":1,"best_of":1.0}`:   200,
		`{"prompt":"A","max_tokens":1,"best_of":2.0}`:   400,
		`{"prompt":"A","max_tokens":1,"best_of":"1.0"}`: 400,
	} {
		if doc, got := l.ask("/v1/completions", body); got != status {
			t.Errorf("%s: %d %v", body, got, doc)
		}
	}
	for body, status := range map[string]int{`{"prompt":"A","max_tokens":1}`: 200, "": 400, `["A"]`: 400} {
		res := l.request(t.Context(), "POST", "/v1/completions", "\ufeff"+body)
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("a byte order mark and %q: %d", body, res.StatusCode)
		}
	}
}

// TestNamesOfModels: on every route a model's name may have the tag latest or the hub's address.
func TestNamesOfModels(t *testing.T) {
	l := start(t, nil)
	for _, name := range []string{"tales", "tales:latest", "hf.co/tales", "Tales:latest"} {
		res := l.request(t.Context(), "GET", "/v1/models/"+name, "")
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("/v1/models/%s: %d", name, res.StatusCode)
		}
		if _, status := l.ask("/api/show", `{"model":"`+name+`"}`); status != http.StatusOK {
			t.Errorf("/api/show %s: %d", name, status)
		}
	}
	res := l.request(t.Context(), "GET", "/v1/models/other:latest", "")
	res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("a model that is none: %d", res.StatusCode)
	}
}

// TestLooseSchemas: a partly supported schema constrains by its supported part, and the log names the rest. A strict
// one is refused with the keyword's name.
func TestLooseSchemas(t *testing.T) {
	l := start(t, nil)
	const schema = `{"type":"object","properties":{"kind":{"const":"fox"},"mail":{"type":"string","pattern":"^(?!x)[a-z]+$","maxLength":5}},"required":["kind","mail"],"if":{}}`
	const form = `{"messages":[{"role":"user","content":"A"}],"max_tokens":60,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":%t,"schema":%s}}}`
	doc := l.good("/v1/chat/completions", fmt.Sprintf(form, false, schema))
	if text, _ := at(t, doc, "choices", 0, "message", "content").(string); !strings.HasPrefix(strings.ReplaceAll(text, " ", ""), `{"kind":"fox","mail":"`) {
		t.Errorf("the answer is %q", text)
	}
	for _, keyword := range []string{"pattern", "keyword if"} {
		if !strings.Contains(l.logs.String(), keyword) {
			t.Errorf("the log does not name %s", keyword)
		}
	}
	doc, status := l.ask("/v1/chat/completions", fmt.Sprintf(form, true, schema))
	if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, "keyword if") {
		t.Errorf("a strict schema: %d %v", status, doc)
	}
	for path, form := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"A"}],"max_tokens":1,"tools":[{"type":"function","function":{"name":"f","strict":%t,"parameters":%s}}]}`,
		"/v1/responses":        `{"input":"A","max_output_tokens":1,"tools":[{"type":"function","name":"f","strict":%t,"parameters":%s}]}`,
	} {
		l.good(path, fmt.Sprintf(form, false, schema))
		doc, status := l.ask(path, fmt.Sprintf(form, true, schema))
		if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, "keyword if") {
			t.Errorf("%s: a strict tool: %d %v", path, status, doc)
		}
	}
}

// TestUnloadOfTheOnlyModel: Ollama's request to unload gets Ollama's answer.
func TestUnloadOfTheOnlyModel(t *testing.T) {
	l := start(t, nil)
	for _, path := range []string{"/api/generate", "/api/chat"} {
		if doc := l.good(path, `{"model":"tales","keep_alive":0}`); doc["done_reason"] != "unload" || doc["done"] != true {
			t.Errorf("%s: %v", path, doc)
		}
	}
}
