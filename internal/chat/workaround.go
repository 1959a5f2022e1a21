package chat

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// adapted returns the messages in a form that the template can show, according to its capabilities:
//   - developer messages become system messages;
//   - system messages are put before the first user message's text, if there is no system role;
//   - tools are described in a system message, if the template does not show them;
//   - calls and results of tools become JSON in assistants' and users' messages, if it does not show those;
//   - ids and arguments of calls get the form that it insists on, and each call gets a message if it shows only one;
//   - a user's empty message comes first, if it would not show calls or tools without one.
func (t *Template) adapted(messages []Message, tools []Tool) []Message {
	c := &t.can
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		if m.Role == "developer" && !c.developer {
			m.Role = "system"
		}
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for k := range m.ToolCalls {
			m.ToolCalls[k].Arguments = readArguments(m.ToolCalls[k].Arguments)
		}
	}
	use := func(needed bool, change func([]Message) []Message) {
		if needed {
			if next := change(messages); next != nil {
				messages = next
			}
		}
	}
	use(c.shortIDs, withShortIDs)
	use(c.ToolCalls && c.objectArguments, argumentsAsObjects)
	use(c.ToolCalls && c.singleCalls, oneCallEach)
	use(c.ToolCalls && c.callsAlone, textsApart)
	use(!c.ToolCalls, callsAsText)
	use(!c.ToolResults, resultsAsText)
	use(len(tools) > 0 && c.userFirst && leading(messages) < len(messages), userFirst)
	if len(tools) > 0 && !c.Tools {
		rest := messages
		var text Text
		text.Add(describe(tools))
		for ; len(rest) > 0 && rest[0].Role == "system"; rest = rest[1:] {
			text.Add("\n\n" + rest[0].text())
		}
		messages = append([]Message{{Role: "system", Content: text.String()}}, rest...)
	}
	use(!c.System, systemIntoUser)
	return messages
}

// describe tells a model with a template without tools which ones it can call, and in which form.
func describe(tools []Tool) string {
	var b strings.Builder
	b.WriteString("You can call these tools, each described by a JSON schema:\n")
	for _, t := range tools {
		var line bytes.Buffer
		if json.Compact(&line, t) == nil {
			b.Write(line.Bytes())
			b.WriteByte('\n')
		}
	}
	b.WriteString(`To call tools, answer with nothing but JSON of this form: ` +
		`{"tool_calls": [{"name": "the tool's name", "arguments": {"argument": "value"}}]}`)
	return b.String()
}

// plainJSON encodes v without escapes for HTML.
func plainJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// isSystem reports whether a message says how the model is to behave.
func isSystem(m *Message) bool { return m.Role == "system" || m.Role == "developer" }

// leading returns the number of system messages at the beginning.
func leading(messages []Message) int {
	n := slices.IndexFunc(messages, func(m Message) bool { return !isSystem(&m) })
	if n < 0 {
		n = len(messages)
	}
	return n
}

// laterSystemIntoUser joins the system messages at the beginning, and puts each later one before the text of the next
// user's message.
func laterSystemIntoUser(messages []Message) []Message {
	n := leading(messages)
	if n < 2 && !slices.ContainsFunc(messages[n:], func(m Message) bool { return isSystem(&m) }) {
		return nil
	}
	head := messages[:n]
	if n > 1 {
		var texts []string
		for i := range head {
			texts = append(texts, head[i].text())
		}
		head = []Message{{Role: head[0].Role, Content: strings.Join(texts, "\n\n")}}
	}
	rest := messages[n:]
	if moved := systemIntoUser(rest); moved != nil {
		rest = moved
	}
	return slices.Concat(head, rest)
}

// systemIntoUser puts each system message before the text of the user's message that follows it.
func systemIntoUser(messages []Message) []Message {
	if !slices.ContainsFunc(messages, func(m Message) bool { return isSystem(&m) }) {
		return nil
	}
	var out []Message
	var pending []string
	for _, m := range messages {
		if isSystem(&m) {
			pending = append(pending, m.text())
			continue
		}
		if len(pending) > 0 {
			text := strings.Join(pending, "\n\n")
			pending = nil
			if m.Role == "user" {
				m = Message{Role: "user", Content: Paragraphs(text, m.text())}
			} else {
				out = append(out, Message{Role: "user", Content: text})
			}
		}
		out = append(out, m)
	}
	if len(pending) > 0 {
		out = append(out, Message{Role: "user", Content: strings.Join(pending, "\n\n")})
	}
	return out
}

// userFirst puts a user's empty message first if the conversation begins without a user.
func userFirst(messages []Message) []Message {
	n := leading(messages)
	if n < len(messages) && messages[n].Role == "user" {
		return nil
	}
	return slices.Insert(slices.Clone(messages), n, Message{Role: "user"})
}

// plain reports whether a message is of a role that takes turns. Calls and results of tools are not.
func plain(m *Message) bool {
	return m.Role == "user" || m.Role == "assistant" && len(m.ToolCalls) == 0
}

// alternating makes users and assistants take turns: consecutive messages of one role are joined, and if calls or
// results of tools are between them, a silent turn comes before the second.
func alternating(messages []Message) []Message {
	var out []Message
	changed := false
	last := "assistant"         // of plain messages
	var content, thoughts *Text // of out's last message, after another was joined to it; else nil
	for _, m := range messages {
		if plain(&m) && m.Role == last {
			changed = true
			if n := len(out); n > 0 && out[n-1].Role == m.Role && plain(&out[n-1]) {
				before := &out[n-1]
				if before.silent {
					*before = m
				} else if !m.silent {
					if content == nil {
						content, thoughts = new(Text), new(Text)
						content.Add(before.text())
						thoughts.Add(before.Reasoning)
					}
					content.Paragraph(m.text())
					thoughts.Add(m.Reasoning)
					*before = Message{Role: m.Role, Content: content.String(), Reasoning: thoughts.String()}
				}
				continue
			}
			other := "user"
			if m.Role == other {
				other = "assistant"
			}
			out = append(out, Message{Role: other, silent: true})
		}
		if plain(&m) {
			last = m.Role
		}
		out = append(out, m)
		content, thoughts = nil, nil
	}
	if !changed {
		return nil
	}
	return out
}

// emptyLeftOut makes answers without text and calls silent.
func emptyLeftOut(messages []Message) []Message {
	return edited(messages, func(m *Message) bool {
		if m.Role != "assistant" || m.silent || len(m.ToolCalls) > 0 || strings.TrimSpace(m.text()) != "" {
			return false
		}
		*m = Message{Role: m.Role, silent: true}
		return true
	})
}

// channelsApart splits gpt-oss' channels in answers that a client kept as the model wrote them: the analysis becomes
// the thought, and the rest the text.
func channelsApart(messages []Message) []Message {
	const begin, content = "<|channel|>", "<|message|>"
	return edited(messages, func(m *Message) bool {
		parts := strings.Split(m.Reasoning+m.text(), begin)
		if m.Role != "assistant" || len(parts) < 2 {
			return false
		}
		var thought, text Text
		text.Add(parts[0])
		for _, part := range parts[1:] {
			channel, said, ok := strings.Cut(part, content)
			if !ok {
				channel, said = "", part
			}
			for _, end := range []string{"<|end|>", "<|return|>", "<|call|>", "<|start|>"} {
				said, _, _ = strings.Cut(said, end)
			}
			if strings.HasPrefix(channel, "analysis") {
				thought.Paragraph(said)
			} else {
				text.Paragraph(said)
			}
		}
		m.Reasoning, m.Content, m.Parts = thought.String(), text.String(), nil
		return true
	})
}

// edited returns messages after edit, which reports whether it changed one; nil if nothing changed.
func edited(messages []Message, edit func(*Message) bool) []Message {
	out, changed := slices.Clone(messages), false
	for i := range out {
		changed = edit(&out[i]) || changed
	}
	if !changed {
		return nil
	}
	return out
}
