package chat

import (
	"errors"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat/jinja"
)

// An adaptation puts a conversation into a form that more templates accept. It changes only the messages that it is
// about, so the text of earlier turns stays the same as the conversation grows.
type adaptation struct {
	note   string                    // what was changed, for the log
	change func([]Message) []Message // returns nil if nothing has to change
	mends  loss                      // for conversations that the template takes and does not show whole
}

// A loss is a part of a conversation that a template takes and does not show.
type loss int

const (
	nothing loss = iota
	system       // a system message
	tools        // the definitions of tools
)

// adaptations are tried in this order on conversations that a template refuses, each on top of those before it.
var adaptations = []adaptation{
	{"arguments of earlier calls that are no objects are shown as objects", argumentsAsObjects, nothing},
	{"calls and results without an id have got one", withIDs, nothing},
	{"several calls in one message are shown as messages of one call each", oneCallEach, nothing},
	{"channels in the texts of earlier answers are read as thoughts and answers", channelsApart, nothing},
	{"thoughts and texts before a call are shown as thoughts", thoughtsWithTexts, nothing},
	{"later system messages are shown as the user's", laterSystemIntoUser, system},
	{"empty answers are left out", emptyLeftOut, nothing},
	{"a user's empty message was put at the beginning", userFirst, tools},
	{"messages of one role that follow each other are joined, or kept apart by turns that are left out of the text", alternating, nothing},
	{"results of tools without a call are shown as the user's messages", orphansIntoUser, nothing},
	{"system messages are shown as the user's", systemIntoUser, system},
	{"calls of tools and their results are shown as JSON in messages", callsIntoText, nothing},
}

// settle renders messages, in their own form or in the first one that the template accepts and shows whole. The notes
// say what was changed; unnecessary changes are undone.
func (t *Template) settle(messages []Message, q *Request) (text string, shown []Message, notes []string, err error) {
	text, err = t.attempt(messages, q)
	lost := t.lost(text, messages, q)
	if err == nil && lost == nothing || err != nil && !refused(err) {
		return text, messages, nil, err
	}
	if completed := *q; len(q.Tools) > 0 && !q.wholeTools && !t.takesTools(q) {
		completed.wholeTools = true
		if t.takesTools(&completed) {
			text, shown, notes, err = t.settle(messages, &completed)
			return text, shown, append(notes, "definitions of tools are completed, as with empty descriptions"), err
		}
	}
	adapted, used := messages, []int{}
	for i := range adaptations {
		if err == nil && len(used) == 0 && adaptations[i].mends != lost {
			continue // once something was changed, the template may refuse the rest
		}
		next := adaptations[i].change(adapted)
		if next == nil {
			continue
		}
		adapted, used = next, append(used, i)
		if _, ok := t.takes(adapted, messages, q); !ok {
			continue
		}
		for _, i := range slices.Clone(used[:len(used)-1]) {
			fewer := slices.DeleteFunc(slices.Clone(used), func(j int) bool { return j == i })
			if _, ok := t.takes(apply(fewer, messages), messages, q); ok {
				used = fewer
			}
		}
		for _, i := range used {
			notes = append(notes, adaptations[i].note)
		}
		shown = apply(used, messages)
		text, _ = t.takes(shown, messages, q)
		return text, shown, notes, nil
	}
	return text, messages, nil, err
}

// takesTools reports whether the template takes the tools and shows them, in a conversation that it cannot refuse.
func (t *Template) takesTools(q *Request) bool {
	simple := *q
	simple.AddGenerationPrompt, simple.ContinueFinalMessage = true, false
	messages := []Message{{Role: "user", Content: "Hi"}}
	_, ok := t.takes(messages, messages, &simple)
	return ok
}

// apply applies the adaptations with these numbers, if they change anything.
func apply(numbers []int, messages []Message) []Message {
	for _, i := range numbers {
		if next := adaptations[i].change(messages); next != nil {
			messages = next
		}
	}
	return messages
}

// takes returns the text of messages, and reports whether the template takes them and shows all of the conversation.
func (t *Template) takes(messages, conversation []Message, q *Request) (string, bool) {
	text, err := t.attempt(messages, q)
	return text, err == nil && t.lost(text, conversation, q) == nothing
}

// lost returns a part of the messages that is missing in their text: the first line of a system message, or the tools'
// names.
func (t *Template) lost(text string, messages []Message, q *Request) loss {
	for i := range messages {
		if !isSystem(&messages[i]) {
			continue
		}
		line, _, _ := strings.Cut(strings.TrimSpace(messages[i].text()), "\n")
		if !strings.Contains(text, line) {
			return system
		}
	}
	if len(q.Tools) == 0 || !t.can.Tools {
		return nothing
	}
	if !strings.Contains(text, nameOf(q.Tools[len(q.Tools)-1])) {
		return tools
	}
	return nothing
}

// refused reports whether a rendering's error may be about the conversation's form.
func refused(err error) bool {
	return errors.Is(err, jinja.ErrRaised) || errors.Is(err, jinja.ErrType) || errors.Is(err, jinja.ErrUndefined) || errors.Is(err, jinja.ErrDepth)
}

// silence is the content of a turn that is cut out of the text.
const silence = "\uE000silence\uE000"

// attempt renders messages and cuts silent turns out of the text. A silent turn that cannot be told from its
// surroundings stays, empty.
func (t *Template) attempt(messages []Message, q *Request) (string, error) {
	count := map[string]int{}
	for i := range messages {
		if messages[i].silent {
			count[messages[i].Role]++
		}
	}
	text, err := t.render(messages, *q)
	if err != nil || len(count) == 0 {
		return text, err
	}
	for _, role := range []string{"user", "assistant"} {
		n := count[role]
		if n == 0 {
			continue
		}
		turn := t.silentTurn(role, q)
		if turn == "" || strings.Count(text, turn) != n {
			messages = slices.Clone(messages)
			for i := range messages {
				messages[i].silent = false
			}
			return t.render(messages, *q)
		}
		text = strings.ReplaceAll(text, turn, "")
	}
	return text, nil
}

// silentTurn returns the text of a role's silent turn between others, or nothing if it cannot be found.
func (t *Template) silentTurn(role string, q *Request) string {
	messages := []Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello"}, {Role: "user", silent: true}}
	if role == "assistant" {
		messages[1].Content, messages[1].silent, messages = "", true, messages[:2]
	}
	plain := Request{Kwargs: q.Kwargs, Now: q.Now}
	before, err := t.render(messages[:len(messages)-1], plain)
	if err != nil {
		return ""
	}
	text, err := t.render(messages, plain)
	turn, ok := strings.CutPrefix(text, before)
	if err != nil || !ok || !strings.Contains(turn, silence) {
		return ""
	}
	return turn
}
