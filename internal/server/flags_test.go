package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// TestContextOfSlots: a prompt and its text have only their slot's part of the context.
func TestContextOfSlots(t *testing.T) {
	l := start(t, func(o *choices) { o.model.SlotContext = 40 })
	doc, _ := l.get("/props")
	if n := at(t, doc, "default_generation_settings", "n_ctx"); n != 40.0 {
		t.Errorf("/props tells a context of %v", n)
	}
	doc = l.good("/completion", `{"prompt":"Once upon a time","n_predict":-1,"ignore_eos":true}`)
	if n := at(t, doc, "tokens_evaluated").(float64) + at(t, doc, "tokens_predicted").(float64); n < 39 || n > 41 || at(t, doc, "truncated") != true {
		t.Errorf("%v tokens in a slot of 40, truncated %v", n, at(t, doc, "truncated"))
	}
	doc, status := l.ask("/completion", `{"prompt":"`+strings.Repeat("Once upon a time ", 20)+`"}`)
	if status != http.StatusBadRequest || at(t, doc, "error", "n_ctx") != 40.0 {
		t.Errorf("a prompt longer than its slot: %d %v", status, doc)
	}
	l = start(t, func(o *choices) { o.model.SlotContext, o.model.Shift = 40, true })
	doc = l.good("/completion", `{"prompt":"Once upon a time","n_predict":60,"ignore_eos":true}`)
	if n := at(t, doc, "tokens_predicted"); n != 60.0 || at(t, doc, "truncated") != true {
		t.Errorf("%v tokens with shifts, truncated %v", n, at(t, doc, "truncated"))
	}
}

// TestHiddenSlots: with the option, /slots shows nothing.
func TestHiddenSlots(t *testing.T) {
	l := start(t, func(o *choices) { o.model.HideSlots = true })
	if doc, status := l.get("/slots"); status != http.StatusNotImplemented || !strings.Contains(at(t, doc, "error", "message").(string), "--no-slots") {
		t.Errorf("status %d, %v", status, doc)
	}
}

// TestUsualReuse: with the option, prompts are read from their beginning unless a request wants reuse.
func TestUsualReuse(t *testing.T) {
	l := start(t, func(o *choices) { o.model.NoReuse = true })
	const body = `{"prompt":"Once upon a time there was an old king","n_predict":1`
	l.good("/completion", body+"}")
	if n := at(t, l.good("/completion", body+"}"), "timings", "cache_n"); n != 0.0 {
		t.Errorf("%v tokens of the cache", n)
	}
	if n := at(t, l.good("/completion", body+`,"cache_prompt":true}`), "timings", "cache_n"); n == 0.0 {
		t.Error("a request that asks for the cache has nothing of it")
	}
}

// TestUsualThoughts: the server's option decides where thoughts go, unless a request does.
func TestUsualThoughts(t *testing.T) {
	thinker, err := chat.Parse(`{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}{% endif %}<|a|>{# <think></think> #}`, "", "")
	if err != nil {
		t.Fatal(err)
	}
	l := start(t, func(o *choices) {
		o.model.Thoughts = answer.ReasoningNone
		o.model.Template = thinker
	})
	l.says.text("<think>A fox.</think>Yes.")
	doc := l.good("/v1/chat/completions", `{"messages":[{"role":"user","content":"A"}]}`)
	if text := at(t, doc, "choices", 0, "message", "content").(string); !strings.Contains(text, "A fox.") {
		t.Errorf("the content is %q", text)
	}
	l.says.text("<think>A fox.</think>Yes.")
	doc = l.good("/v1/chat/completions", `{"messages":[{"role":"user","content":"A"}],"reasoning_format":"deepseek"}`)
	if text := at(t, doc, "choices", 0, "message", "content"); text != "Yes." {
		t.Errorf("the content is %q", text)
	}
}

// TestRankingWithoutAHead: documents are ranked by their similarity to the query, so the query itself is first.
func TestRankingWithoutAHead(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Similar, o.model.Pooling = true, engine.PoolMean })
	doc := l.good("/rerank", `{"query":"The old king","documents":["A ship at sea","The old king","Apples and pears"]}`)
	if first := at(t, doc, "results", 0, "index"); first != 1.0 {
		t.Errorf("the nearest is %v: %v", first, doc)
	}
	if score := at(t, doc, "results", 0, "relevance_score").(float64); score < 0.999 || score > 1.001 {
		t.Errorf("the query's own score is %v", score)
	}
}

// TestNamesInLists: lists show aliases and tags of a model, and an alias selects it.
func TestNamesInLists(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Aliases, o.model.Tags = []string{"tales", "stories"}, []string{"small"} })
	doc, _ := l.get("/v1/models")
	if a, g := at(t, doc, "data", 0, "aliases", 1), at(t, doc, "data", 0, "tags", 0); a != "stories" || g != "small" {
		t.Errorf("the list is %v", doc)
	}
	if doc, status := l.get("/v1/models/stories:latest"); status != http.StatusOK || at(t, doc, "id") != "tales" {
		t.Errorf("an alias: %d %v", status, doc)
	}
}
