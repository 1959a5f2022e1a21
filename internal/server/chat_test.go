package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat"
)

const tools = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string","enum":["Rome","Oslo"]}},"required":["city"],"additionalProperties":false}}},
	{"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{},"additionalProperties":false}}}]`

func TestChatStream(t *testing.T) {
	l := start(t, nil)
	const fields = `"messages":[{"role":"system","content":"You tell tales."},{"role":"user","content":[{"type":"text","text":"Begin."}]}],"max_completion_tokens":10,"temperature":0`
	doc := l.good("/v1/chat/completions", "{"+fields+`,"logprobs":true,"top_logprobs":2}`)
	want := at(t, doc, "choices", 0, "message", "content")
	if at(t, doc, "choices", 0, "finish_reason") != "length" || at(t, doc, "usage", "completion_tokens") != 10.0 {
		t.Errorf("an answer: %v", doc)
	}
	if logs := at(t, doc, "choices", 0, "logprobs", "content").([]any); len(logs) != 10 {
		t.Errorf("%d log probabilities for 10 tokens", len(logs))
	}
	res := l.request(t.Context(), "POST", "/chat/completions", "{"+fields+`,"stream":true,"stream_options":{"include_usage":true}}`)
	defer res.Body.Close()
	docs, last := events(t, res.Body)
	text := ""
	for _, d := range docs[:len(docs)-1] {
		if piece, ok := at(t, d, "choices", 0, "delta", "content").(string); ok {
			text += piece
		}
	}
	if text != want || last != "[DONE]" || at(t, docs[0], "choices", 0, "delta", "role") != "assistant" {
		t.Errorf("streamed %q, in one piece %q, ending in %q", text, want, last)
	}
	end := docs[len(docs)-1]
	if len(end["choices"].([]any)) != 0 || at(t, end, "usage", "completion_tokens") != 10.0 {
		t.Errorf("the chunk of usage: %v", end)
	}
}

// TestVerbose: __verbose is the text in /completion's form, with the template's prompt, in a single answer or at a
// stream's end, and only on request.
func TestVerbose(t *testing.T) {
	l := start(t, nil)
	for _, k := range []struct{ path, asked, prompt string }{
		{"/v1/completions", `"prompt":"Begin."`, "Begin."},
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"Begin."}]`, "<|im_start|>user\nBegin.<|im_end|>\n<|im_start|>assistant\n"},
	} {
		fields := "{" + k.asked + `,"max_tokens":5,"temperature":0`
		if doc := l.good(k.path, fields+"}"); doc["__verbose"] != nil {
			t.Errorf("%s tells what nobody asked for: %v", k.path, doc)
		}
		told := at(t, l.good(k.path, fields+`,"verbose":true}`), "__verbose")
		prompt, _ := at(t, told, "prompt").(string)
		if !strings.HasSuffix(prompt, k.prompt) || at(t, told, "tokens_predicted") != 5.0 || at(t, told, "generation_settings", "temperature") != 0.0 {
			t.Errorf("%s: %v", k.path, told)
		}
		res := l.request(t.Context(), "POST", k.path, fields+`,"stream":true,"verbose":true}`)
		docs, _ := events(t, res.Body)
		res.Body.Close()
		end := at(t, docs[len(docs)-1], "__verbose")
		if at(t, end, "prompt") != prompt || at(t, end, "content") != at(t, told, "content") {
			t.Errorf("%s: the stream ends with %v, in one piece it is %v", k.path, end, told)
		}
	}
}

func TestForcedCalls(t *testing.T) {
	l := start(t, nil)
	for choice, names := range map[string]string{
		`"required"`: "get_weather get_time",
		`{"type":"function","function":{"name":"get_weather"}}`:                                                                     "get_weather",
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"get_time"}}]}}`: "get_time",
	} {
		body := `{"messages":[{"role":"user","content":"Weather?"}],"max_tokens":200,"parallel_tool_calls":false,"tool_choice":` + choice + "," + tools
		doc := l.good("/v1/chat/completions", body+"}")
		if at(t, doc, "choices", 0, "finish_reason") != "tool_calls" {
			t.Fatalf("no call: %v", doc)
		}
		f := at(t, doc, "choices", 0, "message", "tool_calls", 0, "function")
		checkCall(t, names, at(t, f, "name").(string), at(t, f, "arguments").(string))
		res := l.request(t.Context(), "POST", "/v1/chat/completions", body+`,"stream":true}`)
		docs, _ := events(t, res.Body)
		res.Body.Close()
		name, arguments := "", ""
		for _, d := range docs {
			if calls, ok := at(t, d, "choices", 0, "delta", "tool_calls").([]any); ok {
				if n, ok := at(t, calls, 0, "function", "name").(string); ok {
					name += n
				}
				arguments += at(t, calls, 0, "function", "arguments").(string)
			}
		}
		checkCall(t, names, name, arguments)
	}
	// a conversation with what a model once wrote, which is not JSON
	l.good("/v1/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"get_time","arguments":"{broken"}}]},{"role":"tool","tool_call_id":"a","content":"late"}],`+tools+"}")
	// arguments of any kind, calls and results as older clients send them, and parts that are no text
	var prompt string
	l.says.answer(func(p string) string { prompt = p; return "Yes." })
	l.good("/v1/chat/completions", `{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"file","file":{"filename":"a","file_data":"data:text/plain;base64,aGVsbG8="}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"web_search","query":"kings"}],"tool_calls":[{"id":"a","function":{"name":"get_time","arguments":[1]}},{"id":"b","type":"custom","custom":{"name":"note","input":"so"}}]},
		{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"data:x"}}]},{"role":"tool","tool_call_id":"b","content":null},
		{"role":"assistant","function_call":{"name":"old","arguments":"{}"}},{"role":"function","name":"old","content":"gone"}]}`)
	for _, part := range []string{"Hi\n\nhello", "[web_search: query: kings]", `"arguments":[1]`, `{"name":"note","arguments":{"input":"so"}`, "[image_url that cannot be shown]", `"name":"old"`, "gone"} {
		if !strings.Contains(prompt, part) {
			t.Errorf("the prompt %q lacks %q", prompt, part)
		}
	}
	l.says.answer(nil)
	// none: the answer is text
	doc := l.good("/v1/chat/completions", `{"max_tokens":4,"messages":[{"role":"user","content":"Hi"}],"tool_choice":"none",`+tools+"}")
	if at(t, doc, "choices", 0, "message", "tool_calls") != nil {
		t.Errorf("a call in spite of tool_choice none: %v", doc)
	}
}

func checkCall(t *testing.T, names, name, arguments string) {
	t.Helper()
	var v struct{ City string }
	if err := json.Unmarshal([]byte(arguments), &v); err != nil || !strings.Contains(names, name) || name == "get_weather" && v.City != "Rome" && v.City != "Oslo" {
		t.Errorf("the call %s(%s) is not one of %s by their schemas: %v", name, arguments, names, err)
	}
}

func TestResponseFormat(t *testing.T) {
	l := start(t, nil)
	doc := l.good("/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":200,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}}}}`)
	var v map[string]bool
	if err := json.Unmarshal([]byte(at(t, doc, "choices", 0, "message", "content").(string)), &v); err != nil || len(v) != 1 {
		t.Errorf("%v: %v", doc, err)
	}
}

func TestAssistantIsContinued(t *testing.T) {
	l := start(t, nil)
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"The old"}]}`:                              "<|im_start|>assistant\nThe old",
		`{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"The old"}],"add_generation_prompt":true}`: "The old<|im_end|>\n<|im_start|>assistant\n",
		`{"messages":[{"role":"user","content":"Hi"}]}`:                                                                       "<|im_start|>assistant\n",
	} {
		if prompt := at(t, l.good("/apply-template", body), "prompt").(string); !strings.HasSuffix(prompt, want) {
			t.Errorf("%s: the prompt %q does not end in %q", body, prompt, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	l := start(t, nil)
	const messages = `"messages":[{"role":"user","content":"Hi"}]`
	for body, name := range map[string]string{
		`{` + messages + `,"n":"many"}`:                                   "n",
		`{` + messages + `,"n":99}`:                                       "n",
		`{` + messages + `,"top_p":2}`:                                    "top-p",
		`{` + messages + `,"temperature":"hot"}`:                          "temperature",
		`{` + messages + `,"temperature":1e999}`:                          "temperature",
		`{` + messages + `,"max_tokens":-7}`:                              "max_tokens",
		`{` + messages + `,"top_logprobs":3}`:                             "top_logprobs",
		`{` + messages + `,"tool_choice":"required"}`:                     "tool_choice",
		`{` + messages + `,"grammar":"root ::= x"}`:                       "grammar",
		`{` + messages + `,"response_format":{"type":"xml"}}`:             "response_format",
		`{` + messages + `,"logit_bias":{"999999":1}}`:                    "logit bias",
		`{"messages":[]}`:                                                 "messages",
		`{"messages":[{"role":"wizard","content":"Hi"}]}`:                 "wizard",
		`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`: "image_url",
		`{` + messages + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}},` + tools + `}`: "allows none",
		`[]`: "of the type array",
		`{` + messages + `,"logprobs":true,"stream":true,` + tools + `}`: "logprobs",
	} {
		doc, status := l.ask("/v1/chat/completions", body)
		if message, _ := at(t, doc, "error", "message").(string); status != http.StatusBadRequest || at(t, doc, "error", "type") != "invalid_request_error" || !strings.Contains(message, name) {
			t.Errorf("%s: status %d: %v", body, status, doc)
		}
	}
}

// TestReasoningOff: a template with a choice is told to leave thoughts out; a thought that a template opens is closed
// at once.
func TestReasoningOff(t *testing.T) {
	for source, want := range map[string]string{
		`{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %}<none>{% endif %}`: "Hi<none>",
		`{{ messages[0].content }}{% if add_generation_prompt %}<think>` + "\n" + `{% endif %}`:                 "Hi<think>\n</think>",
	} {
		template, err := chat.Parse(source, "", "")
		if err != nil {
			t.Fatal(err)
		}
		l := start(t, func(o *choices) {
			o.model.Template, o.model.Kwargs = template, map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")}
		})
		if prompt := at(t, l.good("/apply-template", `{"messages":[{"role":"user","content":"Hi"}]}`), "prompt"); prompt != want {
			t.Errorf("the prompt is %q, want %q", prompt, want)
		}
	}
}
