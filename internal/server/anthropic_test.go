package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// anthropicTools are those of chat_test.go in Anthropic's form.
const anthropicTools = `"tools":[{"name":"get_weather","description":"Weather","cache_control":{"type":"ephemeral"},
	"input_schema":{"type":"object","properties":{"city":{"type":"string","enum":["Rome","Oslo"]}},"required":["city"],"additionalProperties":false}},
	{"type":"custom","name":"get_time","input_schema":{"type":"object","properties":{},"additionalProperties":false}}]`

// namedEvents reads a stream of events named by their documents' types.
func namedEvents(t *testing.T, res *http.Response) []map[string]any {
	t.Helper()
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("status %d, %s", res.StatusCode, kind)
	}
	var docs []map[string]any
	name := ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			name = n
		} else if data, ok := strings.CutPrefix(line, "data: "); ok {
			var doc map[string]any
			if err := json.Unmarshal([]byte(data), &doc); err != nil || doc["type"] != name {
				t.Errorf("the event %s has the data %s: %v", name, data, err)
			}
			docs = append(docs, doc)
		} else if line != "" {
			t.Errorf("the line %q is none of an event's", line)
		}
	}
	return docs
}

// joined joins a stream's message as Anthropic's clients do, and checks their rules: blocks are numbered, and begin and
// end one after the other.
func joined(t *testing.T, docs []map[string]any) map[string]any {
	t.Helper()
	var message map[string]any
	content := []any{}
	open, ended := false, false
	input := ""
	for i, d := range docs {
		if ended || (i == 0) != (d["type"] == "message_start") {
			t.Fatalf("event %d is %v", i, d)
		}
		if index, ok := d["index"].(float64); ok && int(index) != len(content)-1 && (open || int(index) != len(content)) {
			t.Fatalf("event %d of block %d: %v", i, len(content), d)
		}
		switch d["type"] {
		case "message_start":
			message = d["message"].(map[string]any)
		case "content_block_start":
			if open {
				t.Fatalf("a block begins within another: %v", d)
			}
			content, open, input = append(content, d["content_block"]), true, ""
		case "content_block_delta":
			block := content[len(content)-1].(map[string]any)
			delta := d["delta"].(map[string]any)
			switch delta["type"] {
			case "text_delta":
				block["text"] = block["text"].(string) + delta["text"].(string)
			case "thinking_delta":
				block["thinking"] = block["thinking"].(string) + delta["thinking"].(string)
			case "signature_delta":
				block["signature"] = delta["signature"]
			case "input_json_delta":
				input += delta["partial_json"].(string)
				block["input"] = json.RawMessage(input)
			default:
				t.Errorf("a delta of type %v", delta["type"])
			}
		case "content_block_stop":
			open = false
		case "message_delta":
			for name, value := range d["delta"].(map[string]any) {
				message[name] = value
			}
			message["usage"] = d["usage"]
		case "message_stop":
			ended = !open
		}
	}
	if !ended {
		t.Fatalf("the stream ends with %v", docs[len(docs)-1])
	}
	message["content"] = content
	return message
}

// sameMessage compares messages without their ids.
func sameMessage(t *testing.T, got, want map[string]any) {
	t.Helper()
	plain := func(doc map[string]any) string {
		text, _ := json.Marshal(doc)
		var copied map[string]any
		json.Unmarshal(text, &copied)
		delete(copied, "id")
		delete(copied, "usage")
		for _, b := range copied["content"].([]any) {
			delete(b.(map[string]any), "id")
		}
		text, _ = json.Marshal(copied)
		return string(text)
	}
	if g, w := plain(got), plain(want); g != w {
		t.Errorf("streamed: %s\nin one piece: %s", g, w)
	}
}

// startQwen starts a server with the template of Qwen 3.
func startQwen(t *testing.T) *live {
	qwen, err := os.ReadFile(testenv.Shared(t, "chat-templates/Qwen-Qwen3-0.6B.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(o *choices) {
		o.context = 2048
		if o.model.Template, err = chat.Parse(string(qwen), "", "<|im_end|>"); err != nil {
			t.Fatal(err)
		}
	})
}

// TestMessages: a stream and a single answer have the same content, in the right blocks, and say why the answer ended.
func TestMessages(t *testing.T) {
	l := startQwen(t)
	const call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
	for _, k := range []struct{ name, says, fields, blocks, reason string }{
		{"text", "Once upon a time.", "", "text=Once upon a time.", "end_turn"},
		{"nothing", "", "", "", "end_turn"},
		{"thought", "<think>\nHm.\n</think>\n\nYes.", `"thinking":{"type":"enabled","budget_tokens":1024},`, "thinking=Hm. text=Yes.", "end_turn"},
		{"call", "I look." + call, anthropicTools + ",", `text=I look. get_weather={"city":"Rome"}`, "tool_use"},
		{"calls", "<think>\nHm.\n</think>\n\n" + call + "\n" + call, anthropicTools + ",", `thinking=Hm. get_weather={"city":"Rome"} get_weather={"city":"Rome"}`, "tool_use"},
		{"no call", "<tool_call>\nnone", "", "text=<tool_call>\nnone", "end_turn"},
		{"stop", "One. Two. Three.", `"stop_sequences":["Two","Three"],`, "text=One. ", "stop_sequence"},
		{"length", "Once upon a time there was a king.", `"max_tokens":3,`, "text=", "max_tokens"},
	} {
		t.Run(k.name, func(t *testing.T) {
			l.says.text(k.says)
			if !strings.Contains(k.fields, "max_tokens") {
				k.fields += `"max_tokens":400,`
			}
			body := "{" + k.fields + `"messages":[{"role":"user","content":"Hi"}]`
			doc := l.good("/v1/messages", body+"}")
			var blocks []string
			for _, b := range doc["content"].([]any) {
				switch kind := at(t, b, "type").(string); kind {
				case "tool_use":
					input, _ := json.Marshal(at(t, b, "input"))
					blocks = append(blocks, at(t, b, "name").(string)+"="+string(input))
				default:
					blocks = append(blocks, kind+"="+at(t, b, kind).(string))
				}
			}
			if got := strings.Join(blocks, " "); doc["stop_reason"] != k.reason || got != k.blocks && (k.name != "length" || !strings.HasPrefix(got, k.blocks)) {
				t.Errorf("stop_reason %v, content %q, want %q", doc["stop_reason"], got, k.blocks)
			}
			if sequence := doc["stop_sequence"]; k.name == "stop" && sequence != "Two" || k.name != "stop" && sequence != nil {
				t.Errorf("stop_sequence %v", sequence)
			}
			sameMessage(t, joined(t, namedEvents(t, l.request(t.Context(), "POST", "/v1/messages", body+`,"stream":true}`))), doc)
		})
	}
}

// TestThinkingBudget: a thought that is too long is ended, and the answer follows.
func TestThinkingBudget(t *testing.T) {
	qwen, err := os.ReadFile(testenv.Shared(t, "chat-templates/Qwen-Qwen3-0.6B.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	l := start(t, func(o *choices) {
		if o.model.Template, err = chat.Parse(string(qwen), "", "<|im_end|>"); err != nil {
			t.Fatal(err)
		}
	})
	for budget, want := range map[string]string{"0": "", "5": "some"} {
		doc := l.good("/v1/messages", `{"max_tokens":60,"ignore_eos":true,"thinking":{"type":"enabled","budget_tokens":`+budget+`},"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"<think>"}]}`)
		first := at(t, doc, "content", 0)
		if want == "" && at(t, first, "type") != "text" || want != "" && (at(t, first, "type") != "thinking" || at(t, doc, "content", 1, "type") != "text") {
			t.Errorf("a budget of %s: %v", budget, doc)
		}
	}
}

// TestMessagesPrompt: the tokens of prompts show what they contain.
func TestMessagesPrompt(t *testing.T) {
	l := start(t, nil)
	var prompt string
	l.says.answer(func(p string) string { prompt = p; return "Yes." })
	for body, want := range map[string]string{
		`"system":"Be brief.","messages":[{"role":"user","content":[{"type":"text","text":"Say "},{"type":"text","text":"hi"}]}]`: "system\nBe brief.|user\nSay hi|assistant\n",
		`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.101.e51; cch=a5145;"},{"type":"text","text":"Be brief."}],
			"messages":[{"role":"user","content":"Hi"}]`: "system\nBe brief.|user\nHi|assistant\n",
		`"system":"x-anthropic-billing-header: cc_version=2.1.101; cch=a5145;\nBe brief; x=1;","messages":[{"role":"user","content":"Hi"}]`: "system\nBe brief; x=1;|user\nHi|assistant\n",
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"The old"}]`:                                              "user\nHi|assistant\nThe old",
		`"messages":[{"role":"user","content":"Hi"},{"role":"system","content":"Now in French."},{"role":"user","content":"Go"}]`:           "user\nHi|system\nNow in French.|user\nGo|assistant\n",
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"Well."},
			{"type":"tool_use","id":"a","name":"look","input":{"at":1}}]},{"role":"user","content":[{"type":"text","text":"Look."},
			{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"text","text":"nothing"},{"type":"text","text":" there"}]}]}]`: "look|Error: nothing there|Look.",
		`"messages":[{"role":"user","content":[{"type":"document","title":"Tales","source":{"type":"text","media_type":"text/plain","data":"Once."}},{"type":"text","text":"Sum up."},
			{"type":"document","source":{"type":"content","content":[{"type":"text","text":"Twice."}]}},{"type":"search_result","source":"http://a.b","title":"A","content":[{"type":"text","text":"Found."}]}]}]`: "user\nTales\n\nOnce.|Sum up.\n\nTwice.|[search_result: source: http://a.b; title: A; Found.]",
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"kings"}},
			{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"http://a.b","title":"Kings","encrypted_content":"xx","page_age":"1 day"}]},{"type":"text","text":"Here."}]},
			{"role":"user","content":[{"type":"container_upload","file_id":"f"},{"type":"text","text":"Go"}]}]`: "I look.\n\n[server_tool_use: name: web_search; query: kings]\n\n[web_search_tool_result: url: http://a.b; title: Kings; page_age: 1 day]Here.|user\nGo",
		`"tools":[{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"}],"messages":[{"role":"user","content":"Hi"}]`: "user\nHi",
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"find","input":"{\"at\": "}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a",
			"content":[{"type":"tool_reference","tool_name":"fly"},{"type":"image","source":{"type":"base64","data":"QUJD"}}]}]}]`: `"arguments":"{\"at\": "|[tool_reference: tool_name: fly]|[image that cannot be shown]`,
	} {
		doc := l.good("/v1/messages", `{"max_tokens":5,`+body+"}")
		for _, part := range strings.Split(want, "|") {
			if !strings.Contains(prompt, part) {
				t.Errorf("%s: the prompt %q lacks %q", body, prompt, part)
			}
		}
		usage := doc["usage"].(map[string]any)
		counted := l.good("/v1/messages/count_tokens", `{"model":"x",`+body+"}")
		if all := usage["input_tokens"].(float64) + usage["cache_read_input_tokens"].(float64); counted["input_tokens"] != all || len(counted) != 1 {
			t.Errorf("%s: counted %v, answered with %v", body, counted, usage)
		}
	}
}

// TestClaudeCodesHeaderLine: although the line changes with each request, the second one finds the conversation's
// beginning in the cache.
func TestClaudeCodesHeaderLine(t *testing.T) {
	l := start(t, nil)
	ask := func(version string) (fresh, cached float64) {
		doc := l.good("/v1/messages", `{"max_tokens":1,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.101.e51; cc_entrypoint=cli; cch=`+version+`;"},
			{"type":"text","text":"`+strings.Repeat("You know the old tales. ", 20)+`"}],"messages":[{"role":"user","content":"Hi"}]}`)
		return at(t, doc, "usage", "input_tokens").(float64), at(t, doc, "usage", "cache_read_input_tokens").(float64)
	}
	all, _ := ask("a5145")
	if fresh, cached := ask("77ffe"); cached < 100 || fresh+cached != all || fresh > 20 {
		t.Errorf("of %v tokens %v were in the cache", all, cached)
	}
}

func TestMessagesRefused(t *testing.T) {
	l := start(t, func(o *choices) { o.Keys = []string{"secret"} })
	const hi = `"messages":[{"role":"user","content":"Hi"}]`
	for _, k := range []struct {
		body   string
		status int
		kind   string
		name   string
	}{
		{`{"max_tokens":1,"messages":[]}`, 400, "invalid_request_error", "messages"},
		{`{"max_tokens":1,"messages":[]}`, 400, "invalid_request_error", "messages"},
		{`[]`, 400, "invalid_request_error", "object"},
		{`{` + hi + `,"top_k":"many"}`, 400, "invalid_request_error", "top_k"},
		{`{` + hi + `,"mcp_servers":[{}]}`, 400, "invalid_request_error", "mcp_servers"},
		{`{` + hi + `,"tool_choice":{"type":"any"}}`, 400, "invalid_request_error", "tool_choice"},
		{`{` + hi + `,"tool_choice":{"type":"tool","name":"fly"},` + anthropicTools + `}`, 400, "invalid_request_error", "fly"},
		{`{` + hi + `,"tools":[{"type":"rocket_20250124","name":"rocket"}]}`, 400, "invalid_request_error", "rocket_20250124"},
		{`{` + hi + `,"thinking":{"type":"deep"}}`, 400, "invalid_request_error", "deep"},
		{`{"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`, 400, "invalid_request_error", "image input is not supported"},
		{`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"QUJD"}}]}]}`, 400, "invalid_request_error", "document"},
		{`{"messages":[{"role":"wizard","content":"Hi"}]}`, 400, "invalid_request_error", "wizard"},
		{`{"messages":[{"role":"user","content":"` + strings.Repeat("king ", 2000) + `"}]}`, 400, "invalid_request_error", "tokens > 512 maximum"},
		{`{"messages":[{"role":"user","content":"` + strings.Repeat("king ", 7<<20) + `"}]}`, 413, "request_too_large", "32 MiB"},
		{"no key", 401, "authentication_error", "key"},
	} {
		key := "secret"
		if k.body == "no key" {
			key = "wrong"
		}
		res := l.request(t.Context(), "POST", "/v1/messages?beta=true", k.body, "X-Api-Key", key, "Anthropic-Version", "2023-06-01")
		var doc map[string]any
		err := json.NewDecoder(res.Body).Decode(&doc)
		res.Body.Close()
		message, _ := at(t, doc, "error", "message").(string)
		id := res.Header.Get("Request-Id")
		if err != nil || res.StatusCode != k.status || doc["type"] != "error" || at(t, doc, "error", "type") != k.kind || !strings.Contains(message, k.name) || id == "" || doc["request_id"] != id {
			t.Errorf("%.100s: status %d, id %q: %v", k.body, res.StatusCode, id, doc)
		}
	}
}

// TestMessagesWithServersTools: tools that Anthropic's servers run are dropped, and the log names them.
func TestMessagesWithServersTools(t *testing.T) {
	l := start(t, nil)
	const body = `{"max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5}%s]%s}`
	l.good("/v1/messages", fmt.Sprintf(body, "", ""))
	l.good("/v1/messages", fmt.Sprintf(body, `,{"name":"fly","input_schema":{"type":"object"}}`, ""))
	if !strings.Contains(l.logs.String(), "web_search_20250305") {
		t.Errorf("the log does not name the tool: %s", l.logs)
	}
	if doc, status := l.ask("/v1/messages", fmt.Sprintf(body, "", `,"tool_choice":{"type":"tool","name":"web_search"}`)); status != 400 {
		t.Errorf("a tool that is left out is asked for: %d %v", status, doc)
	}
}

// TestMessagesWithClientsTools: tools that Anthropic defines and the client runs have no schema in the request. The
// model gets a description, and its calls have Anthropic's form.
func TestMessagesWithClientsTools(t *testing.T) {
	l := startQwen(t)
	const body = `{"max_tokens":400,"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":%q,"name":"tool"%s}],"tool_choice":{"type":"tool","name":"tool"}}`
	for _, test := range []struct {
		kind, more string
		told       []string // parts of the prompt
		untold     string
		call       string // an input that Claude gives
	}{
		{"bash_20250124", "", []string{"bash session", "restart"}, "path", `{"command":"ls -la"}`},
		{"text_editor_20250124", "", []string{"undo_edit", "Of insert: the text to insert"}, "insert_text", `{"command":"insert","path":"/a.go","insert_line":2,"new_str":"x\n"}`},
		{"text_editor_20250728", `,"max_characters":100`, []string{"str_replace", "insert_text"}, "undo_edit", `{"command":"view","path":"/a.go","view_range":[1,-1]}`},
		{"memory_20250818", "", []string{"/memories", "old_path"}, "undo_edit", `{"command":"rename","old_path":"/memories/a","new_path":"/memories/b"}`},
		{"computer_20250124", `,"display_width_px":1024,"display_height_px":768`, []string{"1024 pixels wide and 768 high", "triple_click"}, "zoom", `{"action":"left_click","coordinate":[10,20]}`},
		{"computer_20251124", `,"display_width_px":1024,"display_height_px":768,"enable_zoom":true`, []string{"zoom"}, "undo_edit", `{"action":"zoom","region":[0,0,9,9]}`},
	} {
		var prompt string
		l.says.answer(func(p string) string {
			prompt = p
			return "<tool_call>{\"name\":\"tool\",\"arguments\":" + test.call + "}</tool_call>"
		})
		doc := l.good("/v1/messages", fmt.Sprintf(body, test.kind, test.more))
		for _, part := range test.told {
			if !strings.Contains(prompt, part) {
				t.Errorf("%s: the prompt lacks %q: %s", test.kind, part, prompt)
			}
		}
		if strings.Contains(prompt, test.untold) {
			t.Errorf("%s: the prompt has %q: %s", test.kind, test.untold, prompt)
		}
		content := doc["content"].([]any)
		block := content[len(content)-1].(map[string]any)
		var input any
		if err := json.Unmarshal([]byte(test.call), &input); err != nil {
			t.Fatal(err)
		}
		if block["type"] != "tool_use" || !reflect.DeepEqual(block["input"], input) {
			t.Errorf("%s: answered %v, not a call with %s", test.kind, doc, test.call)
		}
	}
}

// TestMessagesWithFullQueue: the client is told to retry, in the way that Anthropic's clients support.
func TestMessagesWithFullQueue(t *testing.T) {
	l := start(t, func(o *choices) { o.model.Slots, o.model.Queue = 1, 0 })
	res := l.request(t.Context(), "POST", "/completion", long)
	defer res.Body.Close()
	for _, stream := range []string{"true", "false"} {
		refused := l.request(t.Context(), "POST", "/v1/messages", `{"max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"stream":`+stream+`}`)
		var doc map[string]any
		json.NewDecoder(refused.Body).Decode(&doc)
		refused.Body.Close()
		if refused.StatusCode != 529 || at(t, doc, "error", "type") != "overloaded_error" || refused.Header.Get("Retry-After") == "" {
			t.Errorf("with a full queue: %d %v", refused.StatusCode, doc)
		}
	}
}

// TestAnthropicModels: the list of models has Anthropic's form if the client's header asks for it, and OpenAI's
// otherwise.
func TestAnthropicModels(t *testing.T) {
	l := start(t, nil)
	get := func(path string, header ...string) (map[string]any, int) {
		res := l.request(t.Context(), "GET", path, "", header...)
		defer res.Body.Close()
		var doc map[string]any
		if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return doc, res.StatusCode
	}
	version := []string{"anthropic-version", "2023-06-01"}
	doc, status := get("/v1/models?limit=5", version...)
	if status != 200 || doc["has_more"] != false || doc["first_id"] != "tales" || at(t, doc, "data", 0, "type") != "model" || at(t, doc, "data", 0, "display_name") != "tales" {
		t.Errorf("the models: %d %v", status, doc)
	}
	if doc, status = get("/v1/models?after_id=tales", version...); status != 200 || len(doc["data"].([]any)) != 0 || doc["last_id"] != nil {
		t.Errorf("behind the last: %d %v", status, doc)
	}
	if doc, status = get("/v1/models/tales", version...); status != 200 || doc["id"] != "tales" || doc["type"] != "model" {
		t.Errorf("the model: %d %v", status, doc)
	}
	if doc, status = get("/v1/models/tales"); status != 200 || doc["object"] != "model" {
		t.Errorf("the model in OpenAI's form: %d %v", status, doc)
	}
	for path, want := range map[string]int{"/v1/models?limit=0": 400, "/v1/models?limit=x": 400, "/v1/models?before_id=nobody": 400, "/v1/models/no/body": 404} {
		if doc, status = get(path, version...); status != want || doc["type"] != "error" {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
	if doc, status = get("/v1/models/no/body"); status != 404 || at(t, doc, "error", "type") != "not_found_error" {
		t.Errorf("no model in OpenAI's form: %d %v", status, doc)
	}
}
