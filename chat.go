package powerinfer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// Role says who wrote a message.
type Role string

// The roles.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // the result of a call
)

// Message is a message of a conversation.
type Message struct {
	Role     Role       `json:"role"`
	Content  string     `json:"content"`
	Thoughts string     `json:"thoughts,omitempty"` // what an assistant thought before it answered
	Calls    []ToolCall `json:"calls,omitempty"`    // calls of tools, by an assistant
	CallID   string     `json:"call_id,omitempty"`  // in a tool's message: the call that it answers
	Pictures []*Picture `json:"pictures,omitempty"` // before Content; for models that see: see Model.Sees
}

// Tool is a function that a model may call. The program that asked runs it and answers with a message of RoleTool.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema of the arguments, an object; nil: there are none
}

// ToolCall is a call of a tool.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object that fits Tool.Parameters
}

// The values of Conversation.ToolChoice that are not the name of a tool.
const (
	ToolAuto     = ""         // the model decides whether it calls tools
	ToolNone     = "none"     // the model calls no tool
	ToolRequired = "required" // the model calls at least one
)

// A Conversation holds messages, and the tools and template with which Chat answers them.
type Conversation struct {
	Messages []Message // if the last is an assistant's, the answer continues it
	Tools    []Tool    // that the answer may call; of two with one name the first counts

	ToolChoice string // ToolAuto, ToolNone, ToolRequired, or the name of the tool that the answer calls
	OneCall    bool   // the answer has at most one call

	NoThoughts bool           // the model answers at once, if it was trained to do both
	Template   string         // the chat template: the name of a built-in one, or a template in Jinja; empty: the model's own
	Variables  map[string]any // more variables of the template, such as reasoning_effort
}

// Part is a piece of an answer: a Text, a Thought or a ToolCall, as the model writes it, and at last the whole Answer.
type Part interface{ part() }

// Text is a piece of an answer's content.
type Text string

// Thought is a piece of what a model thinks before it answers.
type Thought string

// Answer is a whole answer. Message can be appended to the conversation's messages.
type Answer struct {
	Message
	Result Result
}

func (Text) part()     {}
func (Thought) part()  {}
func (ToolCall) part() {}
func (Answer) part()   {}

// Chat returns the answer to a conversation in parts, as the model writes it. Leaving the loop ends the generation; an
// error is the last element. g.Special and g.Logprobs have no effect. A schema or a grammar applies to what comes after
// the model's thoughts; a call of a tool is exempt from the schema.
func (m *Model) Chat(ctx context.Context, c Conversation, g Generation) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		q, err := m.question(&c)
		if err != nil {
			yield(nil, tell(err))
			return
		}
		s, err := m.ask(ctx, q, g)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.Close()
		w := written{parser: q.format.NewParser(answer.Options{Tools: q.told, Prompt: q.prompt}), yield: yield}
		defer w.finish()
		for token, ok := s.Next(); ok; token, ok = s.Next() {
			if !w.tell(w.parser.Feed(token.Text)) {
				return
			}
		}
		if !w.tell(w.finish()) {
			return
		}
		if err := s.Err(); err != nil {
			yield(nil, err)
			return
		}
		yield(Answer{Message: w.message(), Result: s.Result()}, nil)
	}
}

// Answer returns the whole answer to a conversation: see Chat.
func (m *Model) Answer(ctx context.Context, c Conversation, g Generation) (Answer, error) {
	var last Answer
	for part, err := range m.Chat(ctx, c, g) {
		if err != nil {
			return Answer{}, err
		}
		last, _ = part.(Answer)
	}
	return last, nil
}

// Prompt returns the text that Chat makes the model continue. TokenizeTemplate turns it into tokens. Marks stand for
// the pictures; they differ each time.
func (m *Model) Prompt(c Conversation) (string, error) {
	q, err := m.question(&c)
	if err != nil {
		return "", tell(err)
	}
	return q.prompt, nil
}

// written is an answer while it is written.
type written struct {
	parser   *answer.Parser
	finished bool
	sum      answer.Message
	yield    func(Part, error) bool
}

// finish ends the text and returns the events of its rest. Further calls return none.
func (w *written) finish() []answer.Event {
	if w.finished {
		return nil
	}
	w.finished = true
	return w.parser.Finish()
}

// tell yields the parts that events complete, and reports whether the caller wants more.
func (w *written) tell(events []answer.Event) bool {
	for _, e := range events {
		w.sum.Add(e)
		var p Part
		switch {
		case e.Kind == answer.CallEnd:
			last := &w.sum.Calls[len(w.sum.Calls)-1]
			if last.ID == "" {
				last.ID = "call_" + rand.Text()
			}
			p = ToolCall{last.ID, last.Name, last.Arguments}
		case e.Text == "" || e.Kind == answer.CallArguments:
			continue
		case e.Kind == answer.Reasoning:
			p = Thought(e.Text)
		default:
			p = Text(e.Text)
		}
		if !w.yield(p, nil) {
			return false
		}
	}
	return true
}

func (w *written) message() Message {
	m := Message{Role: RoleAssistant, Content: w.sum.Content, Thoughts: w.sum.Reasoning}
	for _, c := range w.sum.Calls {
		m.Calls = append(m.Calls, ToolCall{c.ID, c.Name, c.Arguments})
	}
	return m
}

// question is a conversation as the model reads it.
type question struct {
	prompt  string
	mark    string         // stands for a picture in prompt
	shown   []*Picture     // in the order of their marks
	format  *answer.Format // format of the answer
	told    []answer.Tool  // tools that the prompt describes
	allowed []answer.Tool  // tools of these that it may call
	choice  *Conversation
	goesOn  bool // the answer continues the last message
}

// question writes a conversation by its template.
func (m *Model) question(c *Conversation) (*question, error) {
	t, err := m.template.of(c.Template, func() (*chat.Template, error) {
		if c.Template != "" {
			return chat.Named(c.Template, m.session.File)
		}
		return chat.FromGGUF(m.session.File, "")
	})
	if err != nil {
		return nil, err
	}
	r := chat.Request{AddGenerationPrompt: true, Adapted: m.note}
	if r.Messages, err = messagesOf(c.Messages); err != nil {
		return nil, err
	}
	if n := len(c.Messages); n > 0 {
		if last := &c.Messages[n-1]; last.Role == RoleAssistant && len(last.Calls) == 0 && strings.TrimSpace(last.Content) != "" {
			r.ContinueFinalMessage, r.AddGenerationPrompt = true, false
		}
	}
	q := &question{choice: c, goesOn: r.ContinueFinalMessage}
	if c.ToolChoice != ToolNone {
		if r.Tools, err = definitionsOf(c.Tools); err != nil {
			return nil, err
		}
		if err := q.choose(r.Tools); err != nil {
			return nil, err
		}
	}
	if r.Kwargs, err = variablesOf(c); err != nil {
		return nil, err
	}
	marked, err := t.RenderMarked(r)
	if err != nil {
		return nil, err
	}
	q.prompt, q.mark, q.shown = marked.Text, marked.Mark, marked.Pictures
	can := t.Can(len(q.told) > 0)
	q.format = answer.FormatOf(t.Source(), can.Tools, can.ToolCalls)
	if c.NoThoughts && !q.goesOn {
		q.prompt += q.format.Closing(q.prompt)
	}
	return q, nil
}

// note tells the user once about each change that a conversation needs.
func (m *Model) note(line string) {
	if _, told := m.noted.LoadOrStore(line, true); !told {
		m.notice(line)
	}
}

// messagesOf returns messages as templates take them.
func messagesOf(messages []Message) ([]chat.Message, error) {
	names := map[string]string{} // names of tools by call ID
	all := make([]chat.Message, len(messages))
	for i, m := range messages {
		switch m.Role {
		case RoleSystem, RoleUser, RoleAssistant, RoleTool:
		default:
			return nil, fmt.Errorf("message %d has the role %q; there are system, user, assistant and tool", i, m.Role)
		}
		all[i] = chat.Message{Role: string(m.Role), Content: m.Content, Reasoning: m.Thoughts, ToolCallID: m.CallID, Name: names[m.CallID]}
		if len(m.Pictures) > 0 {
			for _, p := range m.Pictures {
				all[i].Parts = append(all[i].Parts, chat.Part{Type: "image", Picture: p})
			}
			all[i].Parts = append(all[i].Parts, chat.Part{Type: "text", Text: m.Content})
		}
		for _, c := range m.Calls {
			names[c.ID] = c.Name
			if len(c.Arguments) == 0 {
				c.Arguments = json.RawMessage("{}")
			}
			all[i].ToolCalls = append(all[i].ToolCalls, chat.ToolCall(c))
		}
	}
	return all, nil
}

// definitionsOf returns tools in the form in which templates show them.
func definitionsOf(tools []Tool) ([]chat.Tool, error) {
	var all []chat.Tool
	for _, t := range tools {
		if t.Parameters == nil {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		d, err := json.Marshal(map[string]any{"type": "function", "function": t})
		if err != nil {
			return nil, fmt.Errorf("the parameters of the tool %s are no JSON Schema: %w", t.Name, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// choose sets which tools may be called.
func (q *question) choose(tools []chat.Tool) error {
	var err error
	if q.told, err = answer.Tools(tools); err != nil {
		return err
	}
	q.allowed = q.told
	name := q.choice.ToolChoice
	if name == ToolAuto || name == ToolRequired && len(q.told) > 0 {
		return nil
	}
	for i := range q.told {
		if q.told[i].Name == name {
			q.allowed = q.told[i : i+1]
			return nil
		}
	}
	return fmt.Errorf("Conversation.ToolChoice is %q, and there is no such tool", name)
}

// variablesOf returns the template's variables.
func variablesOf(c *Conversation) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if c.NoThoughts {
		maps.Copy(all, map[string]json.RawMessage{"enable_thinking": json.RawMessage("false"), "thinking": json.RawMessage("false")})
	}
	for name, value := range c.Variables {
		v, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("the template's variable %s has no form in JSON: %w", name, err)
		}
		all[name] = v
	}
	return chat.WithThinking(all), nil
}

// ask begins to answer q.
func (m *Model) ask(ctx context.Context, q *question, g Generation) (*Stream, error) {
	g.Special = true // forms of calls are made of special tokens, too
	g.Logprobs, g.TopLogprobs = false, 0
	constraint, err := m.held(ctx, q, &g)
	if err != nil {
		return nil, err
	}
	tokens, places, err := m.TokenizeMarked(q.prompt, q.mark, q.shown, true)
	if err != nil {
		return nil, err
	}
	g.Pictures = places
	return m.start(ctx, tokens, g, constraint)
}

// heldCalls is a compiled grammar of calls.
type heldCalls struct {
	constraint *answer.Constraint
	grammar    *grammar.Compiled
}

// held returns the constraint on the answer to q, or nil if there is none.
func (m *Model) held(ctx context.Context, q *question, g *Generation) (sample.Constraint, error) {
	if len(q.told) > 0 && g.Grammar != "" {
		return nil, errors.New("Generation.Grammar cannot be combined with tools; give Generation.Schema, or leave the tools out")
	}
	form, err := g.form()
	if err != nil {
		return nil, err
	}
	o := answer.ConstraintOptions{Plain: q.choice.NoThoughts || q.goesOn, Thinks: q.choice.Variables["enable_thinking"] == true, Prompt: q.prompt, Text: form}
	switch {
	case len(q.told) > 0:
		o.Tools, o.Required, o.Parallel = q.allowed, q.choice.ToolChoice != ToolAuto, !q.choice.OneCall
	case o.Text.Any():
		return nil, nil
	}
	key, err := json.Marshal([]any{q.choice.Template, q.format.Name(), o.Tools, o.Required, o.Parallel, o.Plain, o.Thinks, g.Grammar, g.Schema, q.format.Place(o.Prompt)})
	if err != nil {
		return nil, err
	}
	h, err := m.calls.of(string(key), func() (*heldCalls, error) {
		c, err := q.format.Constraint(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("the schemas cannot be used: %w", err)
		}
		for _, reason := range c.Loose {
			m.notice("arguments are not held to a schema: " + reason.Error())
		}
		compiled, err := m.compile(c.Grammar)
		return &heldCalls{c, compiled}, err
	})
	if err != nil {
		return nil, err
	}
	return h.constraint.NewState(ctx, h.grammar), nil
}

// compile joins a grammar with the model's vocabulary.
func (m *Model) compile(g *grammar.Grammar) (*grammar.Compiled, error) {
	v, err := m.vocabulary()
	if err != nil {
		return nil, err
	}
	return g.Compile(v)
}
