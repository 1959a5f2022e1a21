package server

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// Conversation is a conversation that asks for an answer.
type Conversation struct {
	chat.Request
	Choice         *ToolChoice // nil: no tool may be called
	Reasoning      answer.ReasoningFormat
	ThinkingBudget *int // tokens after which a thought is ended; nil: no limit

	views vision.Views // the messages' pictures
	taken int64        // bytes that were reserved for them
}

// Think says whether the model thinks before it answers, by the variables of templates that leave the choice.
func (c *Conversation) Think(on bool) {
	for _, name := range []string{"enable_thinking", "thinking"} {
		c.Kwargs[name] = strconv.AppendBool(nil, on)
	}
}

// EndsInAnswer reports whether the last message is an assistant's that can be continued: it has a text and calls
// nothing.
func (c *Conversation) EndsInAnswer() bool {
	if len(c.Messages) == 0 {
		return false
	}
	last := &c.Messages[len(c.Messages)-1]
	return last.Role == "assistant" && len(last.ToolCalls) == 0 && strings.TrimSpace(last.Content) != ""
}

// Continue makes the model continue the last message, if that is possible.
func (c *Conversation) Continue() {
	if c.EndsInAnswer() {
		c.ContinueFinalMessage, c.AddGenerationPrompt = true, false
	}
}

// A ToolChoice says which tools an answer may or must call.
type ToolChoice struct {
	Tools    []answer.Tool // all that the model sees
	Allowed  []answer.Tool // those that it may call
	Required bool
	Parallel bool
}

// Excludes reports whether g has a grammar, which cannot be combined with calls of tools. With a JSON Schema an answer
// is either a text of the schema or a call.
func (c *ToolChoice) Excludes(g *Generation) bool {
	return c != nil && g.Constrain != nil && g.Form.Schema == nil
}

// Only requires one call of the tool of that name, and no other. It reports whether there is such a tool.
func (c *ToolChoice) Only(name string) bool {
	i := slices.IndexFunc(c.Tools, func(t answer.Tool) bool { return t.Name == name })
	if i >= 0 {
		c.Allowed, c.Required, c.Parallel = c.Tools[i:i+1], true, false
	}
	return i >= 0
}

// Among leaves the tools of the given names to be called, and reports whether there are any.
func (c *ToolChoice) Among(names []string) bool {
	c.Allowed = slices.DeleteFunc(slices.Clone(c.Tools), func(t answer.Tool) bool { return !slices.Contains(names, t.Name) })
	return len(c.Allowed) > 0
}

// A Reading says how the answers in a conversation are read.
type Reading struct {
	format  *answer.Format
	options answer.Options
}

// NewParser returns a parser of one answer.
func (r *Reading) NewParser() *answer.Parser { return r.format.NewParser(r.options) }

// Read returns what a whole answer means.
func (r *Reading) Read(text string) answer.Message {
	p := r.NewParser()
	var m answer.Message
	m.Add(p.Feed(text)...)
	m.Add(p.Finish()...)
	return m
}

// NewConversation returns a conversation without messages, with the template's variables that the server was started
// with.
func (m *Model) NewConversation() *Conversation {
	c := &Conversation{Request: chat.Request{Kwargs: Kwargs{}, AddGenerationPrompt: true}, views: vision.Views{}, ThinkingBudget: m.ThinkingBudget, Reasoning: m.Thoughts}
	maps.Copy(c.Kwargs, m.Kwargs)
	return c
}

// Prepare sets g's prompt to c, constrains g's calls by the tools' schemas, and returns how to read its answers.
// Constraints on the text begin after the model's thoughts.
func (m *Model) Prepare(c *Conversation, g *Generation) (*Reading, error) {
	g.Special = true // calls are made of special tokens, too
	g.StopStrings = append(g.StopStrings, m.Stop...)
	shown, laid, err := m.lay(g.context(), c)
	if err != nil {
		return nil, err
	}
	prompt := shown.Text
	g.Ask(laid)
	plain, withTools := m.formats()
	r := &Reading{plain, answer.Options{Prompt: prompt, Reasoning: c.Reasoning}}
	if c.Choice != nil {
		r.format, r.options.Tools, r.options.Single = withTools, c.Choice.Tools, !c.Choice.Parallel
	}
	if c.Choice != nil || !g.Form.Any() {
		err = m.holdAnswer(g, c, r)
	}
	if err == nil && c.ThinkingBudget != nil {
		m.limitThought(g, r, *c.ThinkingBudget)
	}
	return r, err
}

// Render returns a conversation's text, in which MediaMark stands for pictures, and its tokens. It computes no picture.
func (m *Model) Render(ctx context.Context, c *Conversation) (string, []int32, error) {
	shown, laid, err := m.lay(ctx, c)
	if err != nil {
		return "", nil, err
	}
	if len(shown.Pictures) > 0 {
		shown.Text = strings.ReplaceAll(shown.Text, shown.Mark, MediaMark)
	}
	return shown.Text, laid.IDs, nil
}

// lay returns a conversation's text, and its tokens with places for pictures. If a template opens a thought although
// the model is not to think, it closes the thought.
func (m *Model) lay(ctx context.Context, c *Conversation) (*picture.Marked, *Prompt, error) {
	q := c.Request
	q.Kwargs = chat.WithThinking(q.Kwargs)
	q.Adapted, q.Context = m.noteAdapted, ctx
	shown, err := m.Template.RenderMarked(q)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, Invalid("%s", err)
	}
	if c.plain() && !c.ContinueFinalMessage {
		format, _ := m.formats()
		shown.Text += format.Closing(shown.Text)
	}
	laid, err := m.layMarked(ctx, shown, c.views, &c.taken, m.Engine.Tokenizer().EncodeTemplateWithin)
	return &shown, laid, err
}

// layMarked returns the tokens of a marked text. It reserves the memory that the rows of its pictures take, as far as
// that is more than taken. begin splits the beginning of the text into tokens.
func (m *Model) layMarked(ctx context.Context, marked picture.Marked, views vision.Views, taken *int64, begin func(text string, more func(int64) error) ([]int32, error)) (*Prompt, error) {
	laid, err := m.Tower.Tokenize(&marked, views, func(text string, first bool) ([]int32, error) {
		if first {
			return begin(text, reserving(ctx))
		}
		return m.Encode(ctx, text, false, true)
	})
	if err != nil {
		return nil, err
	}
	if len(marked.Pictures) > 0 {
		if n := int64(laid.Rows()) * int64(m.Tower.Sizes().Width) * perNumber; n > *taken {
			err = reserve(ctx, n-*taken)
			*taken = n
		}
	}
	return laid, err
}

// noteAdapted logs how conversations are changed that the chat template refuses, each change once.
func (m *Model) noteAdapted(note string) {
	if _, told := m.adapted.LoadOrStore(note, true); !told {
		m.Log.Warn("the chat template does not take a conversation as it is", "adapted", note)
	}
}

// plain reports whether the answer begins without a thought.
func (c *Conversation) plain() bool {
	return string(c.Kwargs["enable_thinking"]) == "false" || c.ContinueFinalMessage
}

// holdAnswer restricts g, an answer to c that r reads: calls to those that c allows, and other text to g's form.
func (m *Model) holdAnswer(g *Generation, c *Conversation, r *Reading) error {
	o := answer.ConstraintOptions{Plain: c.plain(), Thinks: string(c.Kwargs["enable_thinking"]) == "true", Prompt: r.options.Prompt, Text: g.Form}
	if c.Choice != nil {
		o.Tools, o.Required, o.Parallel = c.Choice.Allowed, c.Choice.Required, c.Choice.Parallel
	}
	h, err := m.grammar(g, key("answer", r.format.Name(), o.Tools, o.Required, o.Parallel, o.Plain, o.Thinks, r.format.Place(o.Prompt), o.Text), func(ctx context.Context) (*held, error) {
		constraint, err := r.format.Constraint(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, reason := range constraint.Loose {
			m.Log.Warn("arguments of calls are not held to a part of their JSON Schema", "reason", reason)
		}
		compiled, err := m.compile(constraint.Grammar)
		return &held{compiled: compiled, answer: constraint}, err
	})
	if err != nil {
		return Unusable(err, "the schemas cannot be used")
	}
	g.Constrain = func() sample.Constraint { return h.answer.NewState(g.context(), h.compiled) }
	return nil
}
