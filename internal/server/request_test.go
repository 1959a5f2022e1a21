package server_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestContextShift: a text continues beyond the context only on request.
func TestContextShift(t *testing.T) {
	const body = `{"prompt":"Once upon a time","n_predict":700,"ignore_eos":true,"n_keep":4,"n_discard":300}`
	l := start(t, func(o *choices) { o.model.Shift = true })
	if doc := l.good("/completion", body); doc["tokens_predicted"] != 700.0 || doc["truncated"] != true || doc["stop_type"] != "limit" {
		t.Errorf("with a shift: %v tokens, truncated %v, %v", doc["tokens_predicted"], doc["truncated"], doc["stop_type"])
	}
	l = start(t, nil)
	if doc := l.good("/completion", body); doc["tokens_predicted"].(float64) > 512 || doc["truncated"] != true {
		t.Errorf("without a shift: %v tokens, truncated %v", doc["tokens_predicted"], doc["truncated"])
	}
}

// TestLimits: too little indentation, and time, end a text, with the same result in a stream.
func TestLimits(t *testing.T) {
	l := start(t, nil)
	grammar, _ := json.Marshal("root ::= \"a\\n  b\\n\\tc d\\n\\n e\\n\"")
	for n, want := range map[int]string{0: "a\n  b\n\tc d\n\n e\n", 1: "a\n  b\n\tc d\n", 2: "a\n  b", 3: "a"} {
		if n == 1 {
			want = "a\n  b\n\tc d" // the empty line has no white space
		}
		body := fmt.Sprintf(`{"prompt":"Once","grammar":%s,"n_indent":%d`, grammar, n)
		if got := l.good("/completion", body+"}")["content"]; got != want {
			t.Errorf("indented by %d: %q, want %q", n, got, want)
		}
		res := l.request(t.Context(), "POST", "/completion", body+`,"stream":true}`)
		docs, _ := events(t, res.Body)
		res.Body.Close()
		text := ""
		for _, d := range docs {
			text += d["content"].(string)
		}
		if text != want {
			t.Errorf("indented by %d, streamed: %q, want %q", n, text, want)
		}
	}
	grammar, _ = json.Marshal(`root ::= ("a\n"){300}`)
	begin := time.Now()
	doc := l.good("/completion", fmt.Sprintf(`{"prompt":"Once","grammar":%s,"t_max_predict_ms":1}`, grammar))
	if text := doc["content"].(string); len(text) == 0 || len(text) > 500 || !strings.HasSuffix(text, "\n") || doc["stop_type"] != "limit" {
		t.Errorf("within 1 ms, after %v: %d bytes, %v", time.Since(begin), len(text), doc["stop_type"])
	}
}

// TestLongLists: lists are limited if every token would take time for each element.
func TestLongLists(t *testing.T) {
	l := start(t, nil)
	for field, value := range map[string]string{
		"samplers":              strings.Repeat(`"top_k",`, 100) + `"top_k"`,
		"dry_sequence_breakers": strings.Repeat(`"a",`, 2000) + `"a"`,
	} {
		doc, status := l.ask("/completion", `{"prompt":"A","n_predict":1,"dry_multiplier":1,"`+field+`":[`+value+`]}`)
		if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, field) {
			t.Errorf("%s: status %d: %.300v", field, status, doc)
		}
	}
}

// TestBiasOfNumbers: a token may be any JSON number that is an integer.
func TestBiasOfNumbers(t *testing.T) {
	l := start(t, nil)
	const rest = `,"prompt":"Once upon a","n_predict":1,"temperature":0,"return_tokens":true}`
	for token, status := range map[string]int{"300": 200, "3e2": 200, "300.0": 200, "300.5": 400, "3000000000": 400, "-1": 400} {
		doc, got := l.ask("/completion", `{"logit_bias":[[`+token+`,1000]]`+rest)
		if got != status || status == 200 && at(t, doc, "tokens", 0) != 300.0 {
			t.Errorf("token %s: status %d, tokens %v", token, got, doc["tokens"])
		}
	}
}

// TestSeveralPrompts: each prompt is answered as alone, in both forms of the API, and echo begins with the prompt.
func TestSeveralPrompts(t *testing.T) {
	l := start(t, nil)
	const rest = `,"n_predict":6,"temperature":0,"cache_prompt":false`
	texts := []string{"Once upon a time", "The old king", "A fox"}
	prompts := []string{`"` + texts[0] + `"`, `"` + texts[1] + `"`, `{"prompt_string":"` + texts[2] + `"}`}
	var alone []string
	for _, p := range prompts {
		alone = append(alone, l.good("/completion", `{"prompt":`+p+rest+"}")["content"].(string))
	}
	list := `{"prompt":[` + strings.Join(prompts, ",") + "]" + rest
	res := l.request(t.Context(), "POST", "/completion", list+`,"response_fields":["content","generation_settings/n_predict","prompt","nothing/there"]}`)
	var all []map[string]any
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil || len(all) != len(prompts) {
		t.Fatalf("%d answers: %v", len(all), err)
	}
	res.Body.Close()
	for i, doc := range all {
		if doc["content"] != alone[i] || doc["generation_settings/n_predict"] != 6.0 || len(doc) != 3 {
			t.Errorf("prompt %d: %v, alone %q", i, doc, alone[i])
		}
	}
	doc := l.good("/v1/completions", list+`,"echo":true,"n":2}`)
	for i := range 2 * len(prompts) {
		want := texts[i/2] + alone[i/2]
		if got := at(t, doc, "choices", i, "text"); got != want {
			t.Errorf("choice %d: %q, want %q", i, got, want)
		}
	}
	if n := at(t, doc, "usage", "completion_tokens"); n != 36.0 {
		t.Errorf("%v tokens for 6 texts of 6", n)
	}
	for _, body := range []string{`{"prompt":[]}`, `{"prompt":[1,[2]]}`, `{"prompt":{"prompt_string":"A","multimodal_data":"aaaa"}}`, `{"prompt":["A"` + strings.Repeat(`,"A"`, 50) + "]}"} {
		if doc, status := l.ask("/completion", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", body, status, doc)
		}
	}
}

// TestChances: probabilities after the samplers add up to 1 if all remaining tokens are listed; those before do not.
func TestChances(t *testing.T) {
	l := start(t, nil)
	doc := l.good("/completion", `{"prompt":"Once upon a","n_predict":4,"n_probs":9,"top_k":3,"top_p":0.2,"min_p":0,"min_keep":2,"temperature":1,"post_sampling_probs":true}`)
	for _, p := range doc["completion_probabilities"].([]any) {
		top := at(t, p, "top_probs").([]any)
		sum, own := 0.0, false
		for _, c := range top {
			sum += at(t, c, "prob").(float64)
			own = own || at(t, c, "id") == at(t, p, "id") && at(t, c, "prob") == at(t, p, "prob")
		}
		if len(top) != 2 || math.Abs(sum-1) > 1e-6 || !own { // top_p alone would usually leave one
			t.Errorf("of the two tokens kept: %v", p)
		}
	}
}

// TestTimingsPerToken: timings come with each token and each report of a prompt's progress, and grow.
func TestTimingsPerToken(t *testing.T) {
	l := start(t, nil)
	for path, body := range map[string]string{
		"/completion":          `{"prompt":"Once","n_predict":5`,
		"/v1/completions":      `{"prompt":"Once","max_tokens":5`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"Once"}],"max_tokens":5`,
		"/v1/responses":        `{"input":"Once","max_output_tokens":5`,
	} {
		res := l.request(t.Context(), "POST", path, body+`,"ignore_eos":true,"stream":true,"timings_per_token":true,"return_progress":true}`)
		docs, _ := events(t, res.Body)
		res.Body.Close()
		var counts []float64
		for i, d := range docs {
			timings, ok := d["timings"].(map[string]any)
			if ok {
				counts = append(counts, timings["predicted_n"].(float64))
			}
			if d["prompt_progress"] != nil && !ok {
				t.Errorf("%s, event %d: progress without timings", path, i)
			}
		}
		if len(counts) < 6 || counts[0] != 0 || counts[len(counts)-1] != 5 {
			t.Errorf("%s: timings after %v tokens", path, counts)
		}
	}
}

// compileBound is the most processor time that a large request may take until its first token, the grammar's
// compilation included.
const compileBound = time.Second

// TestLargeSchemas: a schema of 100 kB and forty tools are accepted within a second, and the second time faster than
// they compile.
func TestLargeSchemas(t *testing.T) {
	l := start(t, nil)
	var properties, tools []string
	for i := range 700 {
		properties = append(properties, fmt.Sprintf(`"property_%d":{"type":"object","description":%q,"properties":{"value":{"type":["string","null"]},"kind":{"enum":["a","b%d"]}}}`, i, strings.Repeat("x", 60), i))
	}
	schema := `{"type":"object","properties":{` + strings.Join(properties, ",") + "}}"
	if len(schema) < 100_000 {
		t.Fatalf("the schema has %d bytes", len(schema))
	}
	for i := range 40 {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","parameters":{"type":"object","properties":{%s}}}}`, i, strings.Join(properties[:5], ",")))
	}
	for name, body := range map[string]string{
		"a schema": `{"prompt":"A","n_predict":1,"json_schema":` + schema + "}",
	} {
		if took := l.least(3, "/completion", body); took > compileBound {
			t.Errorf("%s took %v", name, took)
		}
	}
	// forty tools do not fit into the embedded model's context, which is an error after the compilation
	body := `{"messages":[{"role":"user","content":"A"}],"max_tokens":1,"tool_choice":"required","tools":[` + strings.Join(tools, ",") + "]}"
	if took := l.least(3, "/v1/chat/completions", body); took > compileBound {
		t.Errorf("forty tools took %v", took)
	}
}

// least returns the least processor time of n requests.
func (l *live) least(n int, path, body string) time.Duration {
	best := time.Hour
	for range n {
		begin := testenv.ProcessorTime(l.t)
		res := l.request(l.t.Context(), "POST", path, body)
		res.Body.Close()
		best = min(best, testenv.ProcessorTime(l.t)-begin)
	}
	return best
}
