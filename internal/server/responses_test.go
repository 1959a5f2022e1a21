package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// responseTools are those of a coding agent: a function, a tool with a text as input, and kinds that only OpenAI's
// servers have.
const responseTools = `"tools":[
	{"type":"function","name":"get_weather","strict":true,"parameters":{"type":"object","properties":{"city":{"type":"string","enum":["Rome","Oslo"]}},"required":["city"],"additionalProperties":false}},
	{"type":"custom","name":"apply_patch","description":"Patches.","format":{"type":"grammar","syntax":"lark","definition":"start: LINE"}},
	{"type":"web_search"},{"type":"namespace","name":"x","tools":[]},{"type":"local_shell"}]`

// streamResponse streams a response and checks its events for consistency. It returns the last one's response and the
// types in order, repeated ones once.
func (l *live) streamResponse(body string) (map[string]any, string) {
	t := l.t
	t.Helper()
	res := l.request(t.Context(), "POST", "/v1/responses", strings.TrimSuffix(body, "}")+`,"stream":true}`)
	defer res.Body.Close()
	docs, _ := events(t, res.Body)
	var types []string
	var last map[string]any
	texts := map[string]string{} // by item and part
	items := []any{}
	for i, d := range docs {
		kind, _ := d["type"].(string)
		if d["sequence_number"] != float64(i) {
			t.Errorf("event %d, %s, has the sequence number %v", i, kind, d["sequence_number"])
		}
		if short := strings.TrimPrefix(kind, "response."); len(types) == 0 || types[len(types)-1] != short {
			types = append(types, short)
		}
		at := fmt.Sprint(d["output_index"], d["item_id"], d["content_index"])
		switch {
		case kind == "response.output_item.added":
			if d["output_index"] != float64(len(items)) || d["item"].(map[string]any)["status"] != "in_progress" {
				t.Errorf("item %d begins as %v", len(items), d)
			}
			items = append(items, d["item"])
		case strings.HasSuffix(kind, ".delta"):
			texts[at] += d["delta"].(string)
		case kind == "response.output_text.done", kind == "response.reasoning_text.done":
			checkSame(t, kind, texts[at], d["text"])
		case kind == "response.function_call_arguments.done":
			checkSame(t, kind, texts[at], d["arguments"])
		case kind == "response.custom_tool_call_input.done":
			checkSame(t, kind, texts[at], d["input"])
		case kind == "response.output_item.done":
			n := int(d["output_index"].(float64))
			if n != len(items)-1 || items[n].(map[string]any)["id"] != d["item"].(map[string]any)["id"] {
				t.Errorf("item %d ends as %v", n, d)
				continue
			}
			items[n] = d["item"]
		}
		if r, ok := d["response"].(map[string]any); ok {
			last = r
		}
		if id, ok := d["item_id"]; ok && items[int(d["output_index"].(float64))].(map[string]any)["id"] != id {
			t.Errorf("%v is not of the item it names", d)
		}
	}
	checkSame(t, "the output", fmt.Sprint(items), fmt.Sprint(last["output"]))
	return last, strings.Join(types, " ")
}

func checkSame(t testing.TB, what, got string, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, not %q", what, want, got)
	}
}

const (
	begins     = "created in_progress "
	aMessage   = "output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done "
	aThought   = "output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done "
	aCall      = "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done "
	aTextInput = "output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done "
)

func TestResponses(t *testing.T) {
	l := start(t, nil)
	for _, k := range []struct{ name, body, types, status string }{
		{"a text", `{"input":"Tell","max_output_tokens":9,"temperature":0}`, begins + aMessage + "incomplete", "incomplete"},
		{
			"thoughts", `{"input":"Tell","instructions":"Be brief.","grammar":"root ::= \"<think>hm</think>so\"","include":["reasoning.encrypted_content"]}`,
			begins + aThought + aMessage + "completed", "completed",
		},
		{
			"a call", `{"input":"Tell","tool_choice":{"type":"function","name":"get_weather"},` + responseTools + "}",
			begins + aCall + "completed", "completed",
		},
		{
			"a custom tool's call", `{"input":"Tell","max_output_tokens":60,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"apply_patch"}]},` + responseTools + "}",
			begins + aTextInput + "incomplete", "incomplete",
		},
		{
			"a schema", `{"input":"Tell","text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":{"enum":["yes"]}}}}`,
			begins + aMessage + "completed", "completed",
		},
		{"a probe", `{"input":[],"max_output_tokens":1}`, begins + aMessage + "incomplete", "incomplete"},
	} {
		t.Run(k.name, func(t *testing.T) {
			body := strings.Replace(k.body, "{", `{"seed":5,"model":"tales","store":true,`, 1)
			streamed, types := l.streamResponse(body)
			if types != k.types || streamed["status"] != k.status {
				t.Errorf("the events %s end as %v", types, streamed["status"])
			}
			whole := l.good("/responses", body)
			if a, b := withoutIDs(streamed["output"]), withoutIDs(whole["output"]); a != b {
				t.Errorf("streamed %s\nat once %s", a, b)
			}
			if in, out := at(t, whole, "usage", "input_tokens"), at(t, whole, "usage", "output_tokens"); in.(float64)+out.(float64) != at(t, whole, "usage", "total_tokens") || in != at(t, streamed, "usage", "input_tokens") {
				t.Errorf("the usage %v, streamed %v", whole["usage"], streamed["usage"])
			}
		})
	}
}

// withoutIDs returns an output without what differs from request to request.
func withoutIDs(output any) string {
	for _, i := range output.([]any) {
		item := i.(map[string]any)
		delete(item, "id")
		delete(item, "call_id")
	}
	text, _ := json.Marshal(output)
	return string(text)
}

// TestResponsesConversation: a response's output can be sent back with a tool's result, complete or as far as clients
// keep it.
func TestResponsesConversation(t *testing.T) {
	l := start(t, nil)
	thought := at(t, l.good("/v1/responses", `{"input":"Tell","grammar":"root ::= \"<think>hm</think>so\"","include":["reasoning.encrypted_content"]}`), "output", 0).(map[string]any)
	delete(thought, "content")
	call := at(t, l.good("/v1/responses", `{"input":"Tell","tool_choice":{"type":"function","name":"get_weather"},`+responseTools+`}`), "output", 0)
	history, _ := json.Marshal([]any{
		map[string]any{"role": "developer", "content": "Mind the rules."},
		map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": "The weather?"}}},
		thought, call,
		map[string]any{"type": "function_call_output", "call_id": at(t, call, "call_id"), "output": []any{map[string]any{"type": "input_text", "text": "sunny"}}},
		map[string]any{"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** patch"},
		map[string]any{"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
	})
	body := `{"input":` + string(history) + `,"instructions":"You are terse."`
	n := at(t, l.good("/v1/responses/input_tokens", body+"}"), "input_tokens").(float64)
	doc := l.good("/v1/responses", body+`,"max_output_tokens":2}`)
	if n < 60 || at(t, doc, "usage", "input_tokens") != n {
		t.Errorf("%v tokens were counted, %v read", n, at(t, doc, "usage", "input_tokens"))
	}
	chat := `{"messages":[{"role":"user","content":"Tell"}]}`
	a, b := l.good("/v1/chat/completions/input_tokens", chat), l.good("/responses/input_tokens", `{"input":"Tell"}`)
	if fmt.Sprint(a) != fmt.Sprint(b) || at(t, a, "object") != "response.input_tokens" {
		t.Errorf("a chat's prompt has %v, a response's %v", a, b)
	}
}

// TestResponsesHistory: the model gets a description of what other servers' and the client's own tools did.
func TestResponsesHistory(t *testing.T) {
	l := start(t, nil)
	var prompt string
	l.says.answer(func(p string) string { prompt = p; return "Yes." })
	const asked = `{"role":"user","content":"Find it."}`
	for items, want := range map[string]string{
		`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"old kings"}}`:                                                                          "assistant\n[web_search_call: query: old kings]",
		`{"type":"file_search_call","id":"fs_1","queries":["crown"],"results":[{"file_id":"f","filename":"a.txt","score":0.5,"text":"gold"}]}`:                                                "[file_search_call: queries: crown; filename: a.txt; gold]",
		`{"type":"code_interpreter_call","id":"ci_1","code":"print(1)","container_id":"c","outputs":[{"type":"logs","logs":"1"}]}`:                                                            "[code_interpreter_call: code: print(1); logs: 1]",
		`{"type":"mcp_call","id":"m","server_label":"s","name":"look","arguments":"{}","output":"seen"}`:                                                                                      "[mcp_call: server_label: s; name: look; arguments: {}; output: seen]",
		`{"type":"image_generation_call","id":"ig_1","status":"completed","revised_prompt":"a crown","result":"` + strings.Repeat("QUJD", 900) + `"}`:                                         "[image_generation_call: revised_prompt: a crown]",
		`{"type":"compaction","id":"c","encrypted_content":"gAAAA"},{"type":"mcp_list_tools","id":"l","server_label":"s","tools":[{"name":"x"}]}`:                                             "user\nFind it.",
		`{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gAAAA"},{"role":"assistant","content":"Well."}`:                                   "assistant\nWell.",
		`{"type":"something_new","name":{"odd":"thing"},"tools":5}`:                                                                                                                           "[something_new: odd: thing]",
		`{"type":"local_shell_call","call_id":"s1","action":{"type":"exec","command":["ls","-l"]}},{"type":"local_shell_call_output","id":"s1","output":"a.txt"}`:                             `{"tool_calls":[{"name":"local_shell","arguments":{"type":"exec","command":["ls","-l"]},"id":"s1"}]}|"content":"a.txt"`,
		`{"type":"shell_call","call_id":"s2","action":{"commands":["ls"]}},{"type":"shell_call_output","call_id":"s2","output":[{"stdout":"b.txt","outcome":{"type":"exit","exit_code":1}}]}`: `"name":"shell"|[stdout: b.txt; exit_code: 1]`,
		`{"type":"custom_tool_call","call_id":"p","name":"patch","input":"*** a"},{"type":"custom_tool_call_output","call_id":"p","output":[{"type":"input_image","image_url":"data:x"}]}`:    `{"name":"patch","arguments":{"input":"*** a"}|[input_image that cannot be shown]`,
		`{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,aGVsbG8="}]}`:                                                                  "user\nhello",
		`{"type":"function_call","call_id":"n","namespace":"mcp__w__","name":"now","arguments":"{\"a\": "},{"type":"function_call_output","call_id":"n","output":""}`:                         `{"name":"mcp__w__now","arguments":"{\"a\": "`,
	} {
		l.good("/v1/responses", `{"max_output_tokens":5,"input":[`+asked+","+items+`]}`)
		for _, part := range strings.Split(want, "|") {
			if !strings.Contains(prompt, part) {
				t.Errorf("%s: the prompt %q lacks %q", items, prompt, part)
			}
		}
	}
	l.good("/v1/responses", `{"max_output_tokens":5,"input":[{"type":"compaction","id":"c","encrypted_content":"gAAAA"}]}`)
}

// TestNamespaces: the model sees tools of namespaces and those that an item defines, and can call them by both names.
func TestNamespaces(t *testing.T) {
	l := start(t, nil)
	const space = `{"type":"namespace","name":"mcp__weather","tools":[{"type":"function","name":"get_forecast","parameters":{"type":"object","properties":{"town":{"enum":["Graz"]}},"required":["town"]}}]}`
	notes := strings.Replace(space, `"tools":[`, `"tools":[{"type":"custom","name":"note"},`, 1)
	l.says.answer(func(prompt string) string {
		if strings.Contains(prompt, "mcp__weather__note") {
			return `{"tool_calls": [{"name": "mcp__weather__note", "arguments": {"input": "so"}}]}`
		}
		return `{"tool_calls": [{"name": "mcp__weather__get_forecast", "arguments": {"town": "Graz"}}]}`
	})
	for name, body := range map[string]string{
		"tools":                 `{"input":"Tell","tool_choice":{"type":"function","name":"get_forecast"},"tools":[` + space + `]}`,
		"with the namespace":    `{"input":"Tell","tool_choice":{"type":"function","namespace":"mcp__weather","name":"get_forecast"},"tools":[` + space + `]}`,
		"additional_tools":      `{"input":[{"role":"user","content":"Tell"},{"type":"additional_tools","role":"developer","id":"at_1","tools":[` + space + `]}],"tool_choice":{"type":"function","name":"get_forecast"}}`,
		"in both":               `{"input":[{"role":"user","content":"Tell"},{"type":"additional_tools","tools":[` + space + `]}],"tools":[` + space + `],"tool_choice":{"type":"function","name":"get_forecast"}}`,
		"found by a search":     `{"input":[{"role":"user","content":"Tell"},{"type":"tool_search_call","call_id":"t","execution":"client","arguments":{"query":"weather"}},{"type":"tool_search_output","call_id":"t","tools":[` + space + `]}],"tool_choice":{"type":"function","name":"get_forecast"}}`,
		"a custom tool's":       `{"input":"Tell","tool_choice":{"type":"custom","name":"note"},"tools":[` + notes + `]}`,
		"the whole namespace's": `{"input":"Tell","tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"namespace","name":"mcp__weather"}]},"tools":[` + notes + `]}`,
	} {
		item := at(t, l.good("/v1/responses", body), "output", 0).(map[string]any)
		switch item["name"] {
		case "get_forecast":
			if item["type"] != "function_call" || item["arguments"] != `{"town": "Graz"}` {
				t.Errorf("%s: got %v", name, item)
			}
		case "note":
			if item["type"] != "custom_tool_call" || item["input"] != "so" {
				t.Errorf("%s: got %v", name, item)
			}
		}
		if item["namespace"] != "mcp__weather" {
			t.Errorf("%s: got %v", name, item)
		}
	}
}

// TestResponsesTruncation: the oldest turns are left out on request, and the instructions and the last turn stay.
func TestResponsesTruncation(t *testing.T) {
	l := start(t, nil)
	var turns []string
	for i := range 60 {
		turns = append(turns, fmt.Sprintf(`{"role":"user","content":"Tell the tale of king %d and his sons."},{"role":"assistant","content":"No."}`, i))
	}
	body := `{"instructions":"Be kind.","max_output_tokens":1,"input":[` + strings.Join(turns, ",") + `,{"role":"user","content":"And now?"}]`
	doc, status := l.ask("/v1/responses", body+"}")
	if status != http.StatusBadRequest || at(t, doc, "error", "type") != "exceed_context_size_error" {
		t.Errorf("without truncation: %d %v", status, doc)
	}
	doc = l.good("/v1/responses", body+`,"truncation":"auto"}`)
	if n := at(t, doc, "usage", "input_tokens").(float64); n < 450 || n > 511 {
		t.Errorf("%v tokens of a context of 512 are used", n)
	}
}

func TestResponsesRefusals(t *testing.T) {
	l := start(t, nil)
	for body, name := range map[string]string{
		`{"input":"x","previous_response_id":"resp_1"}`:                                       "previous_response_id",
		`{"input":"x","conversation":"conv_1"}`:                                               "conversation",
		`{"input":"x","background":true}`:                                                     "background",
		`{"input":"x","max_output_tokens":2.5}`:                                               "max_output_tokens",
		`{"input":5}`:                                                                         "input",
		`{"input":[{"type":"item_reference","id":"a"}]}`:                                      "referred",
		`{"input":[5]}`:                                                                       "item 0",
		`{"input":[{"type":"function_call","name":5}]}`:                                       "item 0",
		`{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`:                      "input_image",
		`{"input":"x","include":["everything"]}`:                                              "everything",
		`{"input":"x","truncation":"some"}`:                                                   "truncation",
		`{"input":"x","max_output_tokens":0}`:                                                 "max_output_tokens",
		`{"input":"x","top_logprobs":21}`:                                                     "top_logprobs",
		`{"input":"x","tool_choice":"required"}`:                                              "tool_choice",
		`{"input":"x","tool_choice":{"type":"web_search"}}`:                                   "web_search",
		`{"input":"x","tool_choice":{"type":"function","name":"fly"},` + responseTools + `}`:  "fly",
		`{"input":"x","text":{"format":{"type":"yaml"}}}`:                                     "yaml",
		`{"input":[{"type":"function_call_output","output":"x"}]}`:                            "call_id",
		`{"input":[{"type":"reasoning","summary":[],"encrypted_content":"powerinfer:%%%%"}]}`: "encrypted_content",
	} {
		doc, status := l.ask("/v1/responses", body)
		if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || at(t, doc, "error", "type") != "invalid_request_error" || !strings.Contains(message, name) {
			t.Errorf("%s: status %d: %v", body, status, doc)
		}
	}
}

// TestResponsesFormatWithTools: with tools and a schema for texts, an answer is either a call or a text of the schema.
func TestResponsesFormatWithTools(t *testing.T) {
	l := start(t, nil)
	const format = `"text":{"format":{"type":"json_schema","name":"sum","schema":{"type":"object","properties":{"sum":{"type":"integer","minimum":0,"maximum":99}},"required":["sum"],"additionalProperties":false}}}`
	for seed := range 6 {
		doc := l.good("/v1/responses", fmt.Sprintf(`{"input":"Add 2 and 3.","max_output_tokens":64,"temperature":1.5,"seed":%d,%s,%s}`, seed, format, responseTools))
		if doc["status"] != "completed" {
			continue // by the limit of tokens
		}
		switch item := at(t, doc, "output", 0).(map[string]any); item["type"] {
		case "message":
			var sum map[string]int
			text := at(t, item, "content", 0, "text").(string)
			if err := json.Unmarshal([]byte(text), &sum); err != nil || len(sum) != 1 {
				t.Errorf("seed %d: the text is %q: %v", seed, text, err)
			}
		case "function_call", "custom_tool_call":
		default:
			t.Errorf("seed %d: %v", seed, item)
		}
	}
	if doc, status := l.ask("/v1/responses", `{"input":"Hi","grammar":"root ::= \"a\"",`+responseTools+`}`); status != 400 {
		t.Errorf("a grammar beside tools: %d %v", status, doc)
	}
}
