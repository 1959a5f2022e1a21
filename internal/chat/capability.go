package chat

import (
	"encoding/json"
	"slices"
	"strings"
)

// Capabilities say what a template shows of a conversation. They are found by rendering short conversations and
// searching the text.
type Capabilities struct {
	System        bool // messages of the role system
	Tools         bool // definitions of tools
	ToolCalls     bool // calls in assistants' messages
	ToolResults   bool // messages of the role tool
	Reasoning     bool // an assistant's thoughts, at least in the current turn
	Thinking      bool // the variable enable_thinking changes the prompt
	ContentString bool // content as a string
	ContentParts  bool // content as a list of parts

	developer        bool     // messages of the role developer
	stringArguments  bool     // arguments of calls must be JSON in a string
	objectArguments  bool     // arguments of calls must be objects
	shortIDs         bool     // ids of calls must be as short as Mistral's
	singleCalls      bool     // a message shows only one call
	resultsWithCalls bool     // results are shown in the message of their calls, as tool_responses
	callsAlone       bool     // a call after a text is not shown
	userFirst        bool     // with tools, calls or tools are shown only if a user spoke first
	reasoningFields  []string // the template's names for an assistant's thoughts
}

const (
	needle     = "c0ffee"
	needleTool = "look_up"
)

// shows reports whether the template renders a conversation and the result contains want.
func (t *Template) shows(want string, q Request) bool {
	out, err := t.render(q.Messages, q)
	return err == nil && strings.Contains(out, want)
}

// probe finds out what the template can do.
func (t *Template) probe() {
	c := &t.can
	user, answer := Message{Role: "user", Content: "Hi"}, Message{Role: "assistant", Content: "Hello"}
	c.ContentString = true
	c.ContentString = t.shows(needle, Request{Messages: []Message{{Role: "user", Content: needle}}})
	c.ContentParts = true
	c.ContentParts = t.shows(needle, Request{Messages: []Message{{Role: "user", Parts: []Part{{Type: "text", Text: needle}}}}}) &&
		!t.shows("'text': '"+needle, Request{Messages: []Message{{Role: "user", Parts: []Part{{Type: "text", Text: needle}}}}})
	if !c.ContentString && !c.ContentParts {
		c.ContentString = true // it shows nothing that is known: let the rendering say why
	}
	c.System = t.shows(needle, Request{Messages: []Message{{Role: "system", Content: needle}, user}})
	c.developer = t.shows(needle, Request{Messages: []Message{{Role: "developer", Content: needle}, user}})

	tool := Tool(`{"type":"function","function":{"name":"` + needleTool + `","description":"Looks up.","parameters":` +
		`{"type":"object","properties":{"word":{"type":"string","description":"What."}},"required":["word"]}}}`)
	c.Tools = true
	c.Tools = t.shows(needleTool, Request{Messages: []Message{user}, Tools: []Tool{tool}, AddGenerationPrompt: true})

	call := Message{Role: "assistant", ToolCalls: []ToolCall{{"call00001", needleTool, json.RawMessage(`{"` + needle + `": "x"}`)}}}
	result := Message{Role: "tool", Name: needleTool, ToolCallID: "call00001", Content: "res" + needle}
	t.probeCalls([]Message{user, call}, []Message{user, call, result, answer, user})
	c.ToolResults = t.shows("res"+needle, Request{Messages: []Message{user, call, result}, AddGenerationPrompt: true})

	t.probeForm(user, tool)

	thoughtful := answer
	thoughtful.Reasoning = needle
	thoughtfulCall := call
	thoughtfulCall.Reasoning = "think" + needle
	for _, field := range []string{"reasoning_content", "thinking", "reasoning"} {
		c.reasoningFields = []string{field}
		if t.shows(needle, Request{Messages: []Message{user, thoughtful}}) ||
			t.shows(needle, Request{Messages: []Message{user, thoughtful, user}}) ||
			t.shows("think"+needle, Request{Messages: []Message{user, thoughtfulCall, result}, AddGenerationPrompt: true}) {
			c.Reasoning = true
			break
		}
		c.reasoningFields = nil
	}
	c.Thinking = t.probeThinking(user)
}

// probeCalls tries arguments of calls as objects, and then as strings, in several conversations, because the template
// may refuse some.
func (t *Template) probeCalls(conversations ...[]Message) {
	for _, asString := range []bool{false, true} {
		t.can.stringArguments = asString
		for _, messages := range conversations {
			out, err := t.render(messages, Request{})
			if err == nil && strings.Contains(out, needleTool) && strings.Contains(out, needle+`"`) && !strings.Contains(out, needle+`\"`) ||
				err == nil && !asString && strings.Contains(out, needleTool) && strings.Contains(out, needle) &&
					!strings.Contains(out, "'"+needle) && !strings.Contains(out, needle+`\"`) {
				t.can.ToolCalls = true
				return
			}
		}
	}
	t.can.stringArguments = false
}

// probeForm finds the form that calls must have, with a conversation that the template shows and others that differ
// from it in one point.
func (t *Template) probeForm(user Message, tool Tool) {
	c := &t.can
	call := func(id, arguments string) ToolCall { return ToolCall{id, needleTool, json.RawMessage(arguments)} }
	asking := func(calls ...ToolCall) Message { return Message{Role: "assistant", ToolCalls: calls} }
	result := func(id string) Message { return Message{Role: "tool", Name: needleTool, ToolCallID: id, Content: "42"} }
	shows := func(want string, tools []Tool, messages ...Message) bool {
		return t.shows(want, Request{Messages: messages, Tools: tools, AddGenerationPrompt: true})
	}
	first, answered := call("call00001", `{"word": "`+needle+`"}`), result("call00001")
	if !c.ToolCalls || !shows(needle, nil, user, asking(first), answered) {
		return
	}
	const long = "call_of_another_form"
	c.shortIDs = !shows(needle, nil, user, asking(call(long, string(first.Arguments))), result(long))
	c.objectArguments = !shows(needle, nil, user, asking(call("call00001", `"`+needle+` text"`)), answered)
	c.singleCalls = !shows(needle+"2", nil, user, asking(first, call("call00002", `{"word": "`+needle+`2"}`)), answered, result("call00002"))

	c.resultsWithCalls = t.probeResults([]Message{user, asking(first), answered})

	told := asking(first)
	told.Content = "Let me see."
	c.callsAlone = !shows(needle, nil, user, told, answered)

	late := Request{Messages: []Message{asking(first), answered}, Tools: []Tool{tool}, AddGenerationPrompt: true}
	whole := func(text string) bool { return strings.Contains(text, needle) && strings.Contains(text, "Looks up.") }
	text, err := t.render(late.Messages, late)
	if err != nil || whole(text) {
		return
	}
	late.Messages = slices.Insert(late.Messages, 0, user)
	text, err = t.render(late.Messages, late)
	c.userFirst = err == nil && whole(text)
}

// probeResults reports whether the template shows a call's result in Gemma 4's form only in the message of the call.
// The first templates of that family show a message of the role tool as a turn of that name, which its models do not
// know.
func (t *Template) probeResults(messages []Message) bool {
	const mark = "<|tool_response>"
	apart, err := t.render(messages, Request{})
	if err != nil || strings.Contains(apart, mark) {
		return false
	}
	t.can.resultsWithCalls = true
	together, err := t.render(messages, Request{})
	t.can.resultsWithCalls = false
	return err == nil && strings.Contains(together, mark) && strings.Contains(together, "42")
}

func (t *Template) probeThinking(user Message) bool {
	var out [2]string
	for i, value := range []string{"false", "true"} {
		q := Request{
			Messages: []Message{user}, AddGenerationPrompt: true,
			Kwargs: map[string]json.RawMessage{"enable_thinking": json.RawMessage(value)},
		}
		var err error
		if out[i], err = t.render(q.Messages, q); err != nil {
			return false
		}
	}
	return out[0] != out[1]
}
