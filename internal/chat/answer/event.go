package answer

import "encoding/json"

// Kind is the kind of an Event.
type Kind uint8

const (
	Mark          Kind = iota // markers and white space that only delimit: without Text
	Content                   // Text is a piece of the answer
	Reasoning                 // Text is a piece of the model's thoughts
	CallBegin                 // a call of the tool Name begins; ID is the model's own id for it, mostly empty
	CallArguments             // Text is a piece of the call's arguments, a JSON object
	CallEnd                   // the call is complete
	CallFailed                // the call that began is none: Text is all of it, which belongs to the content
)

func (k Kind) String() string {
	return [...]string{"mark", "content", "reasoning", "call begin", "call arguments", "call end", "call failed"}[k]
}

// An Event is the meaning of a piece of an answer. The Sources of all events, joined, are the answer's text.
type Event struct {
	Kind     Kind
	Index    int // of a call, from 0
	ID, Name string
	Text     string
	Source   string // the model's text for it
}

// A Call is a complete call of a tool.
type Call struct {
	Index     int
	ID, Name  string
	Arguments json.RawMessage // an object
}

// Message is an answer put together from events.
type Message struct {
	Content, Reasoning string
	Calls              []Call
}

// Add adds what events say.
func (m *Message) Add(events ...Event) {
	last := len(m.Calls) - 1
	for _, e := range events {
		switch e.Kind {
		case Content:
			m.Content += e.Text
		case Reasoning:
			m.Reasoning += e.Text
		case CallBegin:
			m.Calls = append(m.Calls, Call{Index: e.Index, ID: e.ID, Name: e.Name})
			last++
		case CallArguments:
			m.Calls[last].Arguments = append(m.Calls[last].Arguments, e.Text...)
		case CallFailed:
			m.Content += e.Text
			m.Calls = m.Calls[:last]
			last--
		}
	}
}
