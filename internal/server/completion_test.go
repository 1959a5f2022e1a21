package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// TestCompletion: a single answer, events and OpenAI's form give the same text.
func TestCompletion(t *testing.T) {
	l := start(t, nil)
	const fields = `"prompt":"Once upon a time","n_predict":12,"temperature":0`
	doc := l.good("/completion", "{"+fields+`,"n_probs":3,"return_tokens":true}`)
	want := doc["content"].(string)
	if want == "" || doc["stop_type"] != "limit" || len(doc["tokens"].([]any)) != 12 {
		t.Errorf("a completion: %v", doc)
	}
	first := at(t, doc, "completion_probabilities", 0)
	if top := at(t, first, "top_logprobs").([]any); len(top) != 3 || at(t, top[0], "id") != at(t, first, "id") {
		t.Errorf("greedy decoding did not choose the likeliest token: %v", first)
	}
	timings := doc["timings"].(map[string]any)
	if timings["predicted_n"] != 12.0 || timings["cache_n"].(float64)+timings["prompt_n"].(float64) != doc["tokens_evaluated"] {
		t.Errorf("timings %v of %v prompt tokens", timings, doc["tokens_evaluated"])
	}
	res := l.request(t.Context(), "POST", "/completions", "{"+fields+`,"stream":true,"return_progress":true}`)
	defer res.Body.Close()
	docs, _ := events(t, res.Body)
	text, progress := "", 0
	for i, d := range docs {
		text += d["content"].(string)
		if d["prompt_progress"] != nil {
			progress++
		}
		if last := i == len(docs)-1; d["stop"] != last {
			t.Errorf("event %d of %d: stop is %v", i, len(docs), d["stop"])
		}
	}
	if text != want || progress == 0 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("streamed %q, in one piece %q, %d reports of progress", text, want, progress)
	}
	doc = l.good("/v1/completions", "{"+fields+`,"n":2}`)
	for i := range 2 {
		if got := at(t, doc, "choices", i, "text"); got != want {
			t.Errorf("/v1/completions, choice %d: %q, want %q", i, got, want)
		}
	}
	doc = l.good("/completion", "{"+fields+`,"stop":["`+strings.Fields(want)[2]+`"]}`)
	if doc["stop_type"] != "word" || doc["stopping_word"] != strings.Fields(want)[2] || !strings.HasPrefix(want, doc["content"].(string)) {
		t.Errorf("with a stop text: %v", doc)
	}
}

// TestTooManyTexts: more texts than slots and queue together can never succeed, so the client is told not to retry.
func TestTooManyTexts(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Slots, o.model.Queue = 2, 1 })
	for _, path := range []string{"/completion", "/v1/completions"} {
		for _, body := range []string{`{"prompt":["A","B"],"n":2,"n_predict":1}`, `{"prompt":["A","B","C","D"],"n_predict":1}`} {
			doc, status := l.ask(path, body)
			if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, "4 texts") {
				t.Errorf("%s %s: status %d: %v", path, body, status, doc)
			}
		}
	}
}

// TestManyPrompts: too many prompts are refused before they take memory.
func TestManyPrompts(t *testing.T) {
	const most = 64 << 20 // bytes; 100,000 texts that were made ready took ten times as much
	l := start(t, nil)
	body := `{"prompt":["A"` + strings.Repeat(`,""`, 100_000) + `],"n_predict":1}`
	for _, path := range []string{"/completion", "/v1/completions"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, status := l.ask(path, body)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; status != http.StatusBadRequest || took > most {
			t.Errorf("%s: status %d, %d MiB of memory", path, status, took>>20)
		}
	}
}

// TestManyProbabilities: the number of probabilities in a single answer is limited.
func TestManyProbabilities(t *testing.T) {
	l := start(t, func(o *choices) { o.context = 4096 })
	vocabulary := l.m.Engine.Config().Vocab
	doc, status := l.ask("/completion", fmt.Sprintf(`{"prompt":"A","ignore_eos":true,"n_probs":%d}`, vocabulary))
	if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, "n_probs") {
		t.Errorf("in one piece: status %d: %.300v", status, doc)
	}
}

func TestConstraints(t *testing.T) {
	l := start(t, nil)
	text := at(t, l.good("/completion", `{"prompt":"A","grammar":"root ::= \"yes\" | \"no\""}`), "content")
	if text != "yes" && text != "no" {
		t.Errorf("the grammar gave %q", text)
	}
	text = at(t, l.good("/completion", `{"prompt":"A","n_predict":300,"json_schema":{"type":"object","properties":{"n":{"type":"integer","minimum":3,"maximum":5}},"required":["n"],"additionalProperties":false}}`), "content")
	var v struct{ N int }
	if err := json.Unmarshal([]byte(text.(string)), &v); err != nil || v.N < 3 || v.N > 5 {
		t.Errorf("the schema gave %q: %v", text, err)
	}
}

func TestLongPromptsNameBothNumbers(t *testing.T) {
	l := start(t, nil)
	content := strings.Repeat("king ", 2000)
	for path, body := range map[string]string{
		"/completion":          `{"prompt":"` + content + `"}`,
		"/v1/completions":      `{"prompt":"` + content + `","stream":true}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"` + content + `"}],"stream":true}`,
	} {
		doc, status := l.ask(path, body)
		e := at(t, doc, "error")
		if status != http.StatusBadRequest || at(t, e, "type") != "exceed_context_size_error" || at(t, e, "n_ctx") != 512.0 || at(t, e, "n_prompt_tokens").(float64) < 2000 {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
}
