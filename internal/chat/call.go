package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat/jinja"
)

// A ToolCall is an assistant's call of a function.
type ToolCall struct {
	ID, Name string

	// JSON as a client sent it: usually an object, or a text that holds one. A text that holds none, such as an object
	// that was cut off, is shown to the model as it is, if the template can show it.
	Arguments json.RawMessage
}

// readArguments returns JSON for the arguments of a call: the JSON in a text, and an empty object for nothing.
func readArguments(raw json.RawMessage) json.RawMessage {
	var text string
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage("{}")
	case !json.Valid(raw):
		text = string(raw)
	case raw[0] != '"':
		return raw
	default:
		json.Unmarshal(raw, &text) // it is valid
	}
	switch inner := strings.TrimSpace(text); {
	case inner == "" || inner == "null":
		return json.RawMessage("{}")
	case json.Valid([]byte(inner)):
		return json.RawMessage(inner)
	}
	quoted, _ := plainJSON(text) // a text
	return json.RawMessage(quoted)
}

// value returns the call as templates take it.
func (c *ToolCall) value(asString bool) *jinja.Dict {
	arguments, err := jinja.FromJSON(c.Arguments)
	if _, isText := arguments.(string); err != nil || asString && !isText {
		arguments = string(c.Arguments)
	}
	d := dict("type", "function", "function", dict("name", c.Name, "arguments", arguments))
	if c.ID != "" {
		d.Set("id", c.ID)
	}
	return d
}

// eachCall returns messages after edit of their calls, which reports whether it changed one; nil if nothing changed.
func eachCall(messages []Message, edit func(*ToolCall) bool) []Message {
	return edited(messages, func(m *Message) bool {
		calls, changed := slices.Clone(m.ToolCalls), false
		for i := range calls {
			changed = edit(&calls[i]) || changed
		}
		m.ToolCalls = calls
		return changed
	})
}

// argumentsAsObjects makes all arguments objects: a cut-off object is completed, and anything else becomes the value of
// an object's only argument.
func argumentsAsObjects(messages []Message) []Message {
	return eachCall(messages, func(c *ToolCall) bool {
		if c.Arguments[0] == '{' {
			return false
		}
		var text string
		if json.Unmarshal(c.Arguments, &text) == nil {
			if whole := completed(text); whole != nil {
				c.Arguments = whole
				return true
			}
		}
		c.Arguments = slices.Concat([]byte(`{"arguments": `), c.Arguments, []byte("}"))
		return true
	})
}

// maxOpen bounds how many brackets of an object that was cut off are closed.
const maxOpen = 100

// maxEscape is the length of the longest escape in a text, \u12ab, which may also be cut off.
const maxEscape = 6

// completed returns an object that was cut off, without the parts that cannot be completed; nil if text does not begin
// an object.
func completed(text string) json.RawMessage {
	if text = strings.TrimSpace(text); !strings.HasPrefix(text, "{") {
		return nil
	}
	var closing []byte // of the open brackets, in order
	closed := func(text string, closing []byte) json.RawMessage {
		out := []byte(text)
		for _, c := range slices.Backward(closing) {
			out = append(out, c)
		}
		if !json.Valid(out) {
			return nil
		}
		return out
	}
	quoted, quote := false, 0          // whether a text is open, and where the last one began
	whole, wholeClosing := 0, []byte{} // end of the last complete element
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted, quote = !quoted, i
		case quoted:
		case c == '{' || c == '[':
			if closing = append(closing, c+2); len(closing) > maxOpen { // its closing bracket in ASCII
				return nil
			}
			whole, wholeClosing = i+1, slices.Clone(closing)
		case c == '}' || c == ']':
			if len(closing) == 0 || closing[len(closing)-1] != c {
				return nil
			}
			closing = closing[:len(closing)-1]
			whole, wholeClosing = i+1, slices.Clone(closing)
		case c == ',':
			whole, wholeClosing = i, slices.Clone(closing)
		}
	}
	if !quoted {
		if out := closed(text, closing); out != nil {
			return out
		}
	}
	for end := len(text); quoted && end > max(quote, len(text)-maxEscape); end-- {
		if out := closed(text[:end]+`"`, closing); out != nil {
			return out
		}
	}
	return closed(text[:whole], wholeClosing)
}

// withIDs gives ids to calls and results without one. A result gets that of the first call with its name that waits for
// one.
func withIDs(messages []Message) []Message {
	n := 0
	fresh := func() string {
		n++
		return fmt.Sprintf("call%05d", n)
	}
	var waiting []ToolCall
	return edited(messages, func(m *Message) bool {
		changed := false
		if len(m.ToolCalls) > 0 {
			m.ToolCalls, waiting = slices.Clone(m.ToolCalls), nil
			for i := range m.ToolCalls {
				if c := &m.ToolCalls[i]; c.ID == "" {
					c.ID, changed = fresh(), true
					waiting = append(waiting, *c)
				}
			}
		}
		if m.Role != "tool" || m.ToolCallID != "" {
			return changed
		}
		i := slices.IndexFunc(waiting, func(c ToolCall) bool { return m.Name == "" || c.Name == m.Name })
		if i < 0 {
			m.ToolCallID = fresh()
		} else {
			m.ToolCallID = waiting[i].ID
			waiting = slices.Delete(waiting, i, i+1)
		}
		return true
	})
}

// shortID is the length of the ids that Mistral's templates insist on.
const shortID = 9

// withShortIDs gives all ids the length that Mistral's templates require. Others become nine letters and digits
// computed from them, so that a call and its result still match.
func withShortIDs(messages []Message) []Message {
	all := withIDs(messages)
	if all != nil {
		messages = all
	}
	short := func(id *string) bool {
		if *id == "" || len(*id) == shortID {
			return false
		}
		sum := sha256.Sum256([]byte(*id))
		*id = strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:shortID])
		return true
	}
	if out := eachCall(messages, func(c *ToolCall) bool { return short(&c.ID) }); out != nil {
		all, messages = out, out
	}
	if out := edited(messages, func(m *Message) bool { return short(&m.ToolCallID) }); out != nil {
		all = out
	}
	return all
}

// oneCallEach makes a message of each call, with its result.
func oneCallEach(messages []Message) []Message {
	if !slices.ContainsFunc(messages, func(m Message) bool { return len(m.ToolCalls) > 1 }) {
		return nil
	}
	var out []Message
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if len(m.ToolCalls) < 2 {
			out = append(out, m)
			continue
		}
		results := messages[i+1:]
		if n := slices.IndexFunc(results, func(m Message) bool { return m.Role != "tool" }); n >= 0 {
			results = results[:n]
		}
		i += len(results)
		results = slices.Clone(results)
		for k, call := range m.ToolCalls {
			one := Message{Role: m.Role, ToolCalls: []ToolCall{call}}
			if k == 0 {
				one.Content, one.Parts, one.Reasoning = m.Content, m.Parts, m.Reasoning
			}
			out = append(out, one)
			n := slices.IndexFunc(results, func(m Message) bool {
				return m.ToolCallID == call.ID && (call.ID != "" || m.Name == "" || m.Name == call.Name)
			})
			if n >= 0 {
				out = append(out, results[n])
				results = slices.Delete(results, n, n+1)
			}
		}
		out = append(out, results...)
	}
	return out
}

// withResults moves results into the messages of their calls, under the calls' names.
func withResults(messages []Message) []Message {
	var out []Message
	for _, m := range messages {
		n := len(out) - 1
		if m.Role != "tool" || n < 0 || len(out[n].ToolCalls) == 0 {
			out = append(out, m)
			continue
		}
		call := &out[n]
		i := slices.IndexFunc(call.ToolCalls, func(c ToolCall) bool { return c.ID == m.ToolCallID && c.ID != "" })
		if i < 0 {
			i = min(len(call.results), len(call.ToolCalls)-1)
		}
		if m.Name == "" {
			m.Name = call.ToolCalls[i].Name
		}
		call.results = append(call.results, m)
	}
	return out
}

// thoughtsWithTexts appends the text before a call to the thought before it, for templates that show only one of them.
func thoughtsWithTexts(messages []Message) []Message {
	return edited(messages, func(m *Message) bool {
		text := m.text()
		if len(m.ToolCalls) == 0 || m.Reasoning == "" || text == "" {
			return false
		}
		m.Reasoning, m.Content, m.Parts = m.Reasoning+"\n\n"+text, "", nil
		return true
	})
}

// textsApart moves the text before a call into a separate message, for templates that show no call after one.
func textsApart(messages []Message) []Message {
	var out []Message
	for _, m := range messages {
		if text := m.text(); len(m.ToolCalls) > 0 && text != "" {
			out = append(out, Message{Role: m.Role, Content: text, Reasoning: m.Reasoning})
			m = Message{Role: m.Role, ToolCalls: m.ToolCalls}
		}
		out = append(out, m)
	}
	if len(out) == len(messages) {
		return nil
	}
	return out
}

// orphansIntoUser turns results of tools without a preceding call into users' messages.
func orphansIntoUser(messages []Message) []Message {
	called := false
	return edited(messages, func(m *Message) bool {
		switch {
		case len(m.ToolCalls) > 0:
			called = true
		case m.Role != "tool":
			called = false
		case !called:
			*m = resultAsText(m)
			return true
		}
		return false
	})
}

// callsIntoText makes all calls and results texts.
func callsIntoText(messages []Message) []Message {
	out := callsAsText(messages)
	if out == nil {
		return resultsAsText(messages)
	}
	if all := resultsAsText(out); all != nil {
		return all
	}
	return out
}

// callsAsText puts calls into the text of their messages, as JSON.
func callsAsText(messages []Message) []Message {
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		ID        string          `json:"id,omitempty"`
	}
	return edited(messages, func(m *Message) bool {
		if len(m.ToolCalls) == 0 {
			return false
		}
		var list []call
		for _, c := range m.ToolCalls {
			list = append(list, call{c.Name, c.Arguments, c.ID})
		}
		text, _ := plainJSON(map[string]any{"tool_calls": list}) // the arguments are JSON
		*m = Message{Role: m.Role, Content: strings.TrimPrefix(m.text()+"\n"+text, "\n"), Reasoning: m.Reasoning}
		return true
	})
}

// resultsAsText turns results into users' messages, as JSON.
func resultsAsText(messages []Message) []Message {
	return edited(messages, func(m *Message) bool {
		if m.Role != "tool" {
			return false
		}
		*m = resultAsText(m)
		return true
	})
}

func resultAsText(m *Message) Message {
	type response struct {
		Tool    string `json:"tool,omitempty"`
		ID      string `json:"tool_call_id,omitempty"`
		Content string `json:"content"`
	}
	text, _ := plainJSON(map[string]any{"tool_response": response{m.Name, m.ToolCallID, m.text()}}) // texts
	return Message{Role: "user", Content: text}
}
