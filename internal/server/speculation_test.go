package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/server/metrics"
)

// guessing makes the engine draft at most 8 tokens at a time. All its steps take the same time, so drafts always pay
// off.
func guessing(o *engine.Options) {
	var now atomic.Int64 // ms
	o.Drafts.Most, o.Clock = 8, func() time.Duration { return time.Duration(now.Add(1)) * time.Millisecond }
}

// TestDraftFields: a request limits the drafted tokens, up to the server's limit, and its text stays the same.
func TestDraftFields(t *testing.T) {
	grammar, _ := json.Marshal(`root ::= ("the cat and the dog saw the old fox. "){20}`) // what comes next stood before
	prompt := fmt.Sprintf(`{"prompt":"Once","n_predict":120,"temperature":0,"grammar":%s`, grammar)
	want := start(t, nil).good("/completion", prompt+"}")["content"]
	for _, c := range []struct {
		fields string
		// Least and most drafts that a step checks; 0: nothing is drafted.
		fewest, most int
		told         int // of the settings: n_min
	}{
		{``, 1, 8, 0},
		{`,"speculative.n_max":null`, 1, 8, 0},
		{`,"speculative.n_max":0`, 0, 0, 0},
		{`,"speculative.n_max":0,"speculative.n_min":3`, 0, 0, 0},
		{`,"speculative.n_max":1`, 1, 1, 0},
		{`,"speculative.n_max":3,"speculative.n_min":3`, 3, 3, 3},
		{`,"speculative.n_max":2,"speculative.n_min":2147483647`, 2, 2, 2},
		{`,"speculative.n_max":2147483647,"speculative.n_min":4`, 4, 8, 4},
	} {
		meter := metrics.New(false)
		l := start(t, func(o *choices) { o.engine, o.Meter, o.model.Meter = guessing, meter, meter })
		meter.Register(l.s)
		doc := l.good("/completion", prompt+c.fields+"}")
		if doc["content"] != want {
			t.Errorf("%s: the text is %q, without guesses %q", c.fields, doc["content"], want)
		}
		settings := doc["generation_settings"].(map[string]any)
		if settings["speculative.n_max"] != float64(c.most) || settings["speculative.n_min"] != float64(c.told) {
			t.Errorf("%s: the settings have n_max %v and n_min %v, want %d and %d", c.fields, settings["speculative.n_max"], settings["speculative.n_min"], c.most, c.told)
		}
		timings := doc["timings"].(map[string]any)
		guessed, _ := timings["draft_n"].(float64)
		steps := value(l.scrape(), "llamacpp:spec_decode_num_drafts_total")
		if guessed < float64(c.fewest)*steps || guessed > float64(c.most)*steps || (guessed > 0) != (c.most > 0) {
			t.Errorf("%s: %v guesses in %v steps, want from %d to %d a step", c.fields, guessed, steps, c.fewest, c.most)
		}
	}
}

// TestDraftChance: a request sets the least probability of drafts by the model itself.
func TestDraftChance(t *testing.T) {
	l := start(t, func(o *choices) {
		o.engine = func(o *engine.Options) {
			guessing(o)
			o.Drafts.Hot, o.Drafts.NoLookup, o.Sparse, o.Drafts.Least = engine.HotAlways, true, model.Exact, 0.3
		}
	})
	guessed := map[string]float64{}
	for least, told := range map[string]float64{"1": 1, "null": 0.3, "0": 0} {
		doc := l.good("/completion", `{"prompt":"Once upon a time","n_predict":200,"ignore_eos":true,"speculative.p_min":`+least+`}`)
		guessed[least], _ = doc["timings"].(map[string]any)["draft_hot_n"].(float64)
		if got := doc["generation_settings"].(map[string]any)["speculative.p_min"].(float64); float32(got) != float32(told) {
			t.Errorf("%s: the settings have p_min %v, want %v", least, got, told)
		}
	}
	if guessed["1"] > 0 || guessed["0"] == 0 {
		t.Errorf("guesses by the probability from which on they are checked: %v", guessed)
	}
}

func TestDraftFieldsRefused(t *testing.T) {
	l := start(t, nil)
	for _, c := range []struct{ field, value string }{
		{"n_max", "-1"},
		{"n_max", "2147483648"},
		{"n_max", "1.5"},
		{"n_max", `"3"`},
		{"n_min", "-1"},
		{"n_min", "2147483648"},
		{"n_min", "true"},
		{"p_min", "-0.1"},
		{"p_min", "1.1"},
		{"p_min", "[]"},
	} {
		doc, status := l.ask("/completion", fmt.Sprintf(`{"prompt":"A","n_predict":1,"speculative.%s":%s}`, c.field, c.value))
		text, _ := at(t, doc, "error", "message").(string)
		if status != http.StatusBadRequest || !strings.Contains(text, "speculative."+c.field) {
			t.Errorf("speculative.%s %s: %d %v", c.field, c.value, status, doc)
		}
	}
}
