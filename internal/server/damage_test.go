package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// damageable are requests that are granted, with nearly all fields of each route that reads a body.
var damageable = []struct{ path, body string }{
	{"/completion", `{"prompt":["A",3],"n_predict":2,"temperature":0.3,"stop":["x"],"stream":false,"n_probs":1,"return_tokens":true,"cache_prompt":true,"id_slot":-1,
		"response_fields":["content"],"verbose":true,"samplers":["top_k","temperature"],"logit_bias":[[3,0.5],["A",false]],"t_max_predict_ms":1000,"n_indent":0,"n_keep":0,"n_discard":0,
		"json_schema":{"type":"string","maxLength":2},"ignore_eos":false,"return_progress":false,"timings_per_token":true,"post_sampling_probs":true,"n_cmpl":1,"lora":[]}`},
	{"/completion", `{"prompt":"A","n_predict":2,"dynatemp_range":0.1,"dynatemp_exponent":1,"top_k":40,"top_p":0.9,"min_p":0.1,"top_n_sigma":1,"typical_p":1,"min_keep":1,
		"xtc_probability":0.1,"xtc_threshold":0.1,"repeat_last_n":64,"repeat_penalty":1.1,"presence_penalty":0.1,"frequency_penalty":0.1,"dry_multiplier":0.1,"dry_base":1.5,
		"dry_allowed_length":2,"dry_penalty_last_n":64,"dry_sequence_breakers":["x"],"mirostat":0,"mirostat_tau":5,"mirostat_eta":0.1,"adaptive_target":0.5,"adaptive_decay":0.5,
		"seed":3,"grammar":"root ::= [a-z]+","speculative.n_max":4,"speculative.n_min":1,"speculative.p_min":0.5,"n_cache_reuse":0,"sse_ping_interval":30,"model":"tales","user":"A"}`},
	{"/v1/completions", `{"model":"tales","prompt":"A","max_tokens":2,"echo":false,"n":1,"logprobs":1,"stream_options":{"include_usage":true},"stop":"x","suffix":"","best_of":1,
		"user":"A","verbose":true,"logit_bias":{"3":1},"metadata":{"a":"b"},"store":false}`},
	{"/v1/chat/completions", `{"model":"tales","messages":[{"role":"system","content":"A"},{"role":"user","content":[{"type":"text","text":"A"}],"name":"A"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"A"},
		{"role":"assistant","content":"A","reasoning_content":"A"},{"role":"user","content":"A"}],"max_completion_tokens":2,
		"tools":[{"type":"function","function":{"name":"f","description":"A","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}],"tool_choice":"auto",
		"parallel_tool_calls":false,"reasoning_effort":"low","reasoning_format":"auto","reasoning_budget_tokens":3,"chat_template_kwargs":{"enable_thinking":true},
		"stream_options":{"include_usage":true},"metadata":{"a":"b"},"store":false,"service_tier":"auto","safety_identifier":"A","prompt_cache_key":"A","verbosity":"low"}`},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"A"}],"max_tokens":2,"logprobs":true,"top_logprobs":1,"n":1,"modalities":["text"],
		"response_format":{"type":"json_schema","json_schema":{"name":"A","strict":true,"schema":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}}},
		"add_generation_prompt":true,"continue_final_message":false,"parse_tool_calls":true,"prompt_cache_retention":"24h","verbose":true,"top_p":0.9,"seed":3,"stop":["x","y"]}`},
	{"/v1/chat/completions", `{"messages":[{"role":"user","content":"A"}],"max_tokens":2,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto",
		"tools":[{"type":"function","function":{"name":"f"}}]}},"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`},
	{"/v1/chat/completions/input_tokens", `{"messages":[{"role":"user","content":"A"}],"top_k":3}`},
	{"/apply-template", `{"messages":[{"role":"user","content":"A"}],"chat_template_kwargs":{"a":3},"add_generation_prompt":true}`},
	{"/v1/responses", `{"model":"tales","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"A"}]},
		{"type":"reasoning","summary":[{"type":"summary_text","text":"A"}],"encrypted_content":null},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c","output":"A"},{"role":"user","content":"A"}],"instructions":"A","max_output_tokens":2,
		"tools":[{"type":"function","name":"f","description":"A","strict":true,"parameters":{"type":"object"}},
			{"type":"custom","name":"g","format":{"type":"grammar","syntax":"lark","definition":"A"}}],
		"tool_choice":"auto","parallel_tool_calls":true,"text":{"format":{"type":"text"},"verbosity":"low"},"reasoning":{"effort":"low","summary":"auto"},
		"include":["reasoning.encrypted_content"],"truncation":"auto","metadata":{"a":"b"},"store":false,"stream":false,"top_logprobs":1,"user":"A","prompt_cache_key":"A",
		"safety_identifier":"A","background":false,"service_tier":"auto","max_tool_calls":3,"temperature":0.5,"top_p":0.5}`},
	{"/v1/responses", `{"input":"A","max_output_tokens":2,"text":{"format":{"type":"json_schema","name":"A","strict":true,"schema":{"type":"object","properties":{"a":{"type":"integer"}},
		"required":["a"],"additionalProperties":false}}},"prompt_cache_retention":"24h","stream_options":{"include_obfuscation":false}}`},
	{"/v1/responses/input_tokens", `{"input":"A","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"}}`},
	{"/v1/messages", `{"model":"tales","max_tokens":2,"system":[{"type":"text","text":"A","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"A"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"A","signature":"A"},{"type":"text","text":"A"},{"type":"tool_use","id":"c","name":"f","input":{"a":3}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"A"}],"is_error":false},{"type":"text","text":"A"}]}],
		"tools":[{"name":"f","description":"A","input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},
		"stop_sequences":["x"],"temperature":0.5,"top_k":3,"top_p":0.5,"stream":false,"metadata":{"user_id":"A"},"thinking":{"type":"enabled","budget_tokens":3},"service_tier":"auto"}`},
	{"/v1/messages", `{"max_tokens":2,"system":"A","messages":[{"role":"user","content":[{"type":"text","text":"A"}]}],"output_config":{"effort":"low",
		"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}}}}`},
	{"/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"A"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"}}`},
	{"/v1/embeddings", `{"model":"tales","input":["A",[3,4]],"encoding_format":"float","dimensions":3,"user":"A"}`},
	{"/embedding", `{"content":"A","embd_normalize":2}`},
	{"/tokenize", `{"content":"A","add_special":true,"parse_special":true,"with_pieces":true}`},
	{"/tokenize", `{"content":"\\ud800 \ud83d\ude00","add_special":false}`},
	{"/detokenize", `{"tokens":[3,4]}`},
	{"/api/generate", `{"model":"tales","prompt":"A","system":"A","stream":false,"raw":false,"format":"json","keep_alive":"5m","context":[3],"think":false,"logprobs":true,"top_logprobs":1,
		"truncate":true,"shift":true,"suffix":"","template":"","images":[],"options":{"num_predict":2,"temperature":0.5,"top_k":3,"seed":3,"stop":["x"],"num_ctx":256,"num_gpu":1,
		"use_mmap":true,"mirostat":0,"penalize_newline":true,"num_thread":2,"num_keep":3,"min_p":0.1,"repeat_last_n":64,"repeat_penalty":1.1}}`},
	{"/api/chat", `{"model":"tales","messages":[{"role":"user","content":"A","images":[]},{"role":"assistant","content":"","thinking":"A","tool_calls":[{"id":"c","function":{"index":0,
		"name":"f","arguments":{"a":3}}}]},{"role":"tool","content":"A","tool_name":"f","tool_call_id":"c"}],"stream":false,"keep_alive":300,"think":false,"truncate":true,"shift":true,
		"tools":[{"type":"function","function":{"name":"f","description":"A","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}],"options":{"num_predict":2}}`},
	{"/api/chat", `{"messages":[{"role":"user","content":"A"}],"stream":false,"options":{"num_predict":2},"format":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}}`},
	{"/api/embed", `{"model":"tales","input":["A","B"],"truncate":true,"dimensions":3,"keep_alive":"5m","options":{"num_ctx":256}}`},
	{"/api/embeddings", `{"model":"tales","prompt":"A","keep_alive":"5m","options":{}}`},
	{"/api/show", `{"model":"tales","verbose":false,"system":"","template":"","options":{}}`},
}

// broken returns a body that is no longer JSON in UTF-8, or too deeply nested.
func broken(r *rand.Rand, body string) string {
	texts := regexp.MustCompile(`"A"`).FindAllStringIndex(body, -1)
	numbers := regexp.MustCompile(`:[0-9.]+`).FindAllStringIndex(body, -1)
	put := func(at []int, s string) string { return body[:at[0]] + s + body[at[1]:] }
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	switch k := r.IntN(6); {
	case k == 0:
		return strings.TrimSpace(body[:r.IntN(len(body))])
	case k == 1:
		return body + pick("]", "}", "{}", ",", "null", "x", "\x00", "//")
	case k == 2 && len(texts) > 0: // a text that is none
		return put(texts[r.IntN(len(texts))], pick("\"\xff\xfe\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\n\"", "\"\x01\"", `"\x"`, `"\u12"`,
			`"\ud800"`, `"\udc00 x"`, `"\ud800\ud800"`, `"A`, `'A'`, "A"))
	case k == 3 && len(numbers) > 0: // a number that is none, or that nothing holds
		return put(numbers[r.IntN(len(numbers))], ":"+pick("01", "+1", ".5", "1.", "1e", "NaN", "Infinity", "-", "0x10", "1_000", "--1"))
	case k == 4:
		return strings.Repeat(pick(`[`, `{"a":`, `{"messages":[`, `{"prompt":[`), 300+r.IntN(30000))
	}
	at := r.IntN(len(body))
	deep := strings.Repeat("[", 300+r.IntN(30000))
	if len(texts) > 0 {
		return put(texts[r.IntN(len(texts))], deep+strings.Repeat("]", len(deep)))
	}
	return body[:at] + "\xff" + body[at:]
}

// odd are values that few fields accept.
var odd = []string{
	`true`, `false`, `-1`, `0`, `3`, `-3000000000`, `1000000000000000`, `123456789012345678901234567890`, `0.5`, `-0.5`, `1e300`, `1e400`, `-1e39`, `""`, `"x"`, `"\u0000"`, `"3"`, `[]`,
	`[1]`, `["x"]`, `[null]`, `[[[]]]`, `{}`, `{"a":1}`, `{"type":"x"}`,
}

// altered returns a body in which one value, at any depth, is another or gone. The document of the API says whether it
// may be.
func altered(t testing.TB, r *rand.Rand, body string) string {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var places []func(v any, gone bool)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				places = append(places, func(to any, gone bool) {
					if v[name] = to; gone {
						delete(v, name)
					}
				})
				walk(v[name])
			}
		case []any:
			for i := range v {
				places = append(places, func(to any, _ bool) { v[i] = to })
				walk(v[i])
			}
		}
	}
	walk(doc)
	places[r.IntN(len(places))](json.RawMessage(odd[r.IntN(len(odd))]), r.IntN(10) == 0)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// damages returns how many requests are damaged: few, or POWERINFER_DAMAGED.
func damages(t *testing.T) int {
	v := os.Getenv("POWERINFER_DAMAGED")
	if v == "" {
		if testenv.Quick(t) {
			return 4 * len(damageable)
		}
		return 16 * len(damageable)
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("POWERINFER_DAMAGED=%q is no number of requests", v)
	}
	return n
}

// stall begins a request, and disconnects when gone is closed.
func (l *live) stall(t *testing.T, gone <-chan struct{}) {
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"mess")
	<-gone
}

// TestDamagedRequests: bodies that are not JSON, or that violate the API's document, are refused, while concurrent
// streams give their usual text. No answer is a 5xx.
func TestDamagedRequests(t *testing.T) {
	l := start(t, func(o *choices) { o.context = 512 })
	const stream = `{"prompt":"Once upon a time","n_predict":200,"temperature":0,"ignore_eos":true,"cache_prompt":false,"stream":true}`
	read := func() string {
		res := l.request(t.Context(), "POST", "/completion", stream)
		defer res.Body.Close()
		docs, _ := events(t, res.Body)
		text := ""
		for _, d := range docs {
			text += d["content"].(string)
		}
		return text
	}
	want := read()
	var others sync.WaitGroup
	gone := make(chan struct{})
	for range 20 { // clients that stop within their request
		others.Go(func() { l.stall(t, gone) })
	}
	var ended atomic.Bool
	others.Go(func() {
		for first := true; first || !ended.Load(); first = false {
			if got := read(); got != want || got == "" {
				t.Errorf("a stream was disturbed: %q, want %q", got, want)
				return
			}
		}
	})
	n := damages(t)
	t.Logf("%d requests", n)
	r := testenv.Rand(t)
	statuses := map[int]int{}
	for i := range n {
		if i == n/2 {
			close(gone)
		}
		k := damageable[i%len(damageable)]
		body, granted := altered(t, r, k.body), true // perhaps: the document knows
		if r.IntN(3) == 0 {
			body, granted = broken(r, k.body), false
		}
		res := l.request(t.Context(), "POST", k.path, body)
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		statuses[res.StatusCode]++
		if refused := res.StatusCode/100 == 4 && strings.Contains(string(text), `"error"`); !refused && (!granted || res.StatusCode != http.StatusOK) {
			t.Errorf("%s %.1000q: status %d: %.200s", k.path, body, res.StatusCode, text)
		}
	}
	t.Logf("answers by status: %v", statuses)
	ended.Store(true)
	others.Wait()
}

// TestDamageable: the undamaged requests succeed.
func TestDamageable(t *testing.T) {
	l := start(t, func(o *choices) { o.context = 512 })
	for _, k := range damageable {
		res := l.request(t.Context(), "POST", k.path, k.body)
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s %s: status %d: %s", k.path, k.body, res.StatusCode, text)
		}
	}
}

// TestLargeBodies: a body above the limit is refused and not stored.
func TestLargeBodies(t *testing.T) {
	l := start(t, nil)
	res, err := http.Post(l.url+"/tokenize", "application/json", io.MultiReader(strings.NewReader(`{"content":"`), strings.NewReader(strings.Repeat("a", 33<<20))))
	if err != nil {
		return // the server may close the connection while the client still sends
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestSlowBodies: a body that is too late is refused.
func TestSlowBodies(t *testing.T) {
	l := start(t, func(o *choices) { o.Timeout = time.Second }) // a busy machine takes part of it to read the header
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	line, err := bufio.NewReader(c).ReadString('\n')
	if !strings.Contains(line, "408") {
		t.Errorf("a slow body is answered by %q: %v", line, err)
	}
}

// TestBrokenBodies: a body with broken chunks is the client's error, and a retry does not help.
func TestBrokenBodies(t *testing.T) {
	l := start(t, nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST /completion HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	if !strings.Contains(line, "400") {
		t.Errorf("a body of broken chunks is answered by %q: %v", line, err)
	}
}
