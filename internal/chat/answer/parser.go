package answer

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds on text held back while it may begin a call.
const (
	maxName   = 256  // bytes of a tool's name, of a call's id, of a message's header
	maxGap    = 64   // bytes of white space before a marker that belong to it
	maxDepth  = 500  // how deeply arguments may nest
	maxNumber = 1000 // bytes of a number
)

// ReasoningFormat says where a model's thoughts go: llama.cpp's --reasoning-format.
type ReasoningFormat uint8

const (
	ReasoningAuto ReasoningFormat = iota // as separate events: llama.cpp's auto and deepseek
	ReasoningNone                        // they stay in the content, with their markers
	ReasoningBoth                        // both: llama.cpp's deepseek-legacy
)

// ParseReasoningFormat returns the format of a name of llama.cpp's.
func ParseReasoningFormat(name string) (ReasoningFormat, error) {
	switch name {
	case "auto", "deepseek":
		return ReasoningAuto, nil
	case "none":
		return ReasoningNone, nil
	case "deepseek-legacy":
		return ReasoningBoth, nil
	}
	return 0, fmt.Errorf("%.40q is none of none, auto, deepseek and deepseek-legacy", name)
}

// Options of a Parser.
type Options struct {
	Tools     []Tool // without any, nothing is read as a call
	Single    bool   // at most one call: others are left out
	Reasoning ReasoningFormat
	Prompt    string // the text that the answer continues: its end may have opened a thought
}

// A Parser reads one answer while it is being written. Its input includes the texts of special tokens, because forms
// consist of them. It is a coroutine: Finish must be called, also if an answer is abandoned. It is not safe for
// concurrent use.
type Parser struct {
	format *Format
	o      Options
	tools  map[string]*Tool

	buf   []byte // of the text; the part before taken is dropped at times
	pos   int    // current position
	taken int    // end of the reported text; the text from there to pos may still belong to a marker
	end   bool   // the text is complete

	call     call
	holding  bool // the call's arguments are not reported: they may have to be read again
	trying   bool // nothing is reported: the text is read again
	done     bool // a call was reported
	index    int  // of the next call
	form     *form
	fresh    bool // nothing but white space came since the beginning, or since a thought
	lead     bool // following white space has no meaning, as after a marker
	unclosed bool // the thought that is read has no end
	inline   bool // the message that is read is a thought that stays in the content, with its markers
	called   bool // like lead, but only if nothing else follows: after a call
	events   []Event

	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
}

// NewParser returns a parser of one answer.
func (f *Format) NewParser(o Options) *Parser {
	p := &Parser{format: f, o: o, tools: map[string]*Tool{}, fresh: true}
	for i := range o.Tools {
		p.tools[o.Tools[i].Name] = &o.Tools[i]
	}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		p.run()
	})
	return p
}

// Feed takes the next piece of the answer's text and returns its meaning so far.
func (p *Parser) Feed(text string) []Event {
	p.buf = append(p.buf, text...)
	return p.resume()
}

// Finish returns the meaning of the rest of the answer. Nothing may be fed after it.
func (p *Parser) Finish() []Event {
	p.end = true
	events := p.resume()
	p.stop()
	return events
}

func (p *Parser) resume() []Event {
	p.events = nil
	p.next()
	return p.events
}

// more waits for more text and reports whether there is any.
func (p *Parser) more() bool {
	p.flush()
	for n := len(p.buf); len(p.buf) == n; {
		if p.end || !p.yield(struct{}{}) {
			p.end = true
			return false
		}
	}
	return true
}

// peek returns the next byte and reports whether there is one.
func (p *Parser) peek() (byte, bool) {
	if p.pos == len(p.buf) && !p.more() {
		return 0, false
	}
	return p.buf[p.pos], true
}

// emit adds an event for the text that was read since the last event.
func (p *Parser) emit(e Event) { p.emitTo(e, p.pos) }

func (p *Parser) emitTo(e Event, end int) {
	if p.trying {
		return
	}
	e.Source = string(p.buf[p.taken:end])
	p.taken = end
	if p.o.Single && p.done {
		switch e.Kind {
		case CallBegin, CallArguments, CallEnd:
			e = Event{Kind: Mark, Source: e.Source}
		case CallFailed:
			e.Kind = Content
		}
	}
	p.done = p.done || e.Kind == CallEnd
	if e.Kind == Mark && e.Source == "" {
		return
	}
	p.events = append(p.events, e)
	if e.Kind == Reasoning && p.o.Reasoning == ReasoningBoth {
		p.events = append(p.events, Event{Kind: Content, Text: e.Text})
	}
}

// rest reports everything that was read as text of that kind.
func (p *Parser) rest(kind Kind) {
	if p.taken < p.pos {
		p.emit(Event{Kind: kind, Text: string(p.buf[p.taken:p.pos])})
	}
}

// write reports what was read as text of that kind, without white space at its end, which may belong to a marker, and
// without an incomplete character if the text continues.
func (p *Parser) write(kind Kind, goesOn bool) {
	end := p.pos
	for end > p.taken && p.pos-end < maxGap && isSpace(p.buf[end-1]) {
		end--
	}
	if goesOn && end == p.pos {
		end = WholeRunes(p.buf[p.taken:end]) + p.taken
	}
	if p.lead {
		at := p.taken
		for at < end && isSpace(p.buf[at]) {
			at++
		}
		p.emitTo(Event{Kind: Mark}, at)
		p.lead = at == end
	}
	if p.taken < end {
		p.fresh, p.called = false, false
		p.emitTo(Event{Kind: kind, Text: string(p.buf[p.taken:end])}, end)
	}
	if p.taken > 1<<12 && p.taken > len(p.buf)/2 {
		p.buf = append(p.buf[:0], p.buf[p.taken:]...)
		p.pos -= p.taken
		p.taken = 0
	}
}

// WholeRunes returns the length of b without a UTF-8 sequence at its end that may go on.
func WholeRunes(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return len(b) - n
			}
			break
		}
	}
	return len(b)
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\r' || b == '\t' }

// search returns the place of the first marker in b, and which one it is; without one, the place where an incomplete
// one may begin.
func search(b []byte, markers []string) (int, string) {
	for i := range b {
		part := false
		for _, m := range markers {
			if b[i] != m[0] {
				continue
			}
			n := min(len(m), len(b)-i)
			if string(b[i:i+n]) == m[:n] {
				if n == len(m) {
					return i, m
				}
				part = true
			}
		}
		if part {
			return i, ""
		}
	}
	return len(b), ""
}

// span reads text of that kind up to one of the markers, and returns the marker, empty at the end of the text.
func (p *Parser) span(kind Kind, markers []string) string {
	for {
		n, m := search(p.buf[p.pos:], markers)
		p.pos += n
		p.write(kind, m == "")
		if m != "" {
			return m
		}
		if !p.more() {
			p.pos = len(p.buf)
			return ""
		}
	}
}

// literal reads text if it comes next, and reports whether it does.
func (p *Parser) literal(text string) bool {
	for i := range len(text) {
		if p.pos+i == len(p.buf) && !p.more() || p.buf[p.pos+i] != text[i] {
			return false
		}
	}
	p.pos += len(text)
	return true
}

// space reads white space.
func (p *Parser) space() {
	for c, ok := p.peek(); ok && isSpace(c); c, ok = p.peek() {
		p.pos++
	}
}

// until reads up to and including marker, passes on the text before it, and reports whether the marker came.
func (p *Parser) until(marker string, put func([]byte)) bool {
	markers := []string{marker}
	for {
		n, m := search(p.buf[p.pos:], markers)
		put(p.buf[p.pos : p.pos+n])
		p.pos += n
		if m != "" {
			p.pos += len(m)
			return true
		}
		if !p.more() {
			return false
		}
	}
}

// run reads the whole answer.
func (p *Parser) run() {
	if p.format.channels != nil {
		p.messages(p.format.channels)
		return
	}
	thoughts := p.format.thoughts
	if t := p.format.opened(p.o.Prompt); t != nil {
		if p.o.Reasoning != ReasoningNone {
			p.space()
			p.literal(t.open) // some models write it again
		}
		p.thought(t)
	} else if f := p.format.primed(p.o.Prompt); f != nil {
		p.calls([]*form{f}, true, Content)
	}
	markers, calls := p.markers(false)
	for {
		if p.fresh && p.beginning(thoughts) {
			continue
		}
		m := p.span(Content, markers)
		switch {
		case m == "":
			p.finish(Content)
			return
		case slices.Contains(p.format.drop, m):
			p.pos += len(m)
			p.emit(Event{Kind: Mark})
			p.lead = true
			p.speaker()
		default:
			p.calls(calls[m], false, Content)
		}
	}
}

// speaker reads who speaks, at the beginning of a text.
func (p *Parser) speaker() {
	if p.format.speaker == "" {
		return
	}
	start := p.pos
	p.space()
	if !p.literal(p.format.speaker) {
		p.pos = start
		return
	}
	p.emit(Event{Kind: Mark})
	p.lead = true
}

// finish reports the rest of the answer.
func (p *Parser) finish(kind Kind) {
	if (p.lead || p.called) && len(bytes.TrimLeft(p.buf[p.taken:p.pos], " \t\r\n")) == 0 {
		p.emit(Event{Kind: Mark})
	}
	p.rest(kind)
}

// markers returns the texts within an answer where calls may begin and texts to drop, and the forms of calls by their
// beginnings. Within thoughts, the beginning of an answer may be such a text, too.
func (p *Parser) markers(thought bool) ([]string, map[string][]*form) {
	markers := slices.Clone(p.format.drop)
	calls := map[string][]*form{}
	if len(p.tools) == 0 {
		return markers, calls
	}
	add := func(f *form) {
		if calls[f.open] == nil {
			markers = append(markers, f.open)
		}
		calls[f.open] = append(calls[f.open], f)
	}
	for _, f := range p.format.forms {
		if !f.first || thought {
			add(f)
		}
		if f.many { // models forget what opens a run
			bare := *f
			bare.open, bare.keep, bare.head = f.call[0].text, true, nil
			add(&bare)
		}
	}
	return markers, calls
}

// beginning reads what can only begin an answer, or follow a thought: a thought, or a call without a marker. It reports
// whether there was one.
func (p *Parser) beginning(thoughts []thought) bool {
	for c, ok := p.peek(); ok && isSpace(c); c, ok = p.peek() {
		p.pos++
		if p.pos-p.taken > maxGap {
			p.write(Content, true)
		}
	}
	p.fresh = false
	p.speaker()
	for i := range thoughts {
		if p.literal(thoughts[i].open) {
			p.thought(&thoughts[i])
			return true
		}
		if p.o.Reasoning != ReasoningNone && p.literal(thoughts[i].close) { // of a thought that is left out
			p.markThought()
			p.fresh = true
			return true
		}
	}
	if len(p.tools) == 0 {
		return false
	}
	var forms []*form
	for _, f := range p.format.forms {
		if c, ok := p.peek(); f.first && ok && f.open[0] == c {
			forms = append(forms, f)
		}
	}
	if len(forms) > 0 && p.calls(forms, false, Content) {
		p.fresh = true
		return true
	}
	return false
}

// thought reads thoughts after their opening marker.
func (p *Parser) thought(t *thought) {
	kind := Reasoning
	if p.o.Reasoning == ReasoningNone {
		kind = Content
	} else {
		p.markThought()
	}
	p.fresh = true
	open, calls := p.markers(true)
	markers := append(open, t.close)
	for {
		switch m := p.span(kind, markers); {
		case m == "" && kind == Content:
			p.rest(kind)
			return
		case m == "":
			p.finish(kind)
			return
		case m == t.close:
			p.pos += len(m)
			if kind == Content {
				p.rest(kind)
			} else {
				p.markThought()
			}
			p.fresh = true
			return
		case calls[m] == nil:
			p.pos += len(m)
		case p.format.control:
			if p.calls(calls[m], false, kind) {
				p.fresh = false
				return
			}
		case p.unclosed || !p.quoted(t, calls[m], kind):
			p.calls(calls[m], false, kind)
		}
	}
}

// quoted reads what looks like the beginning of a call within a thought. If it is one, and the thought never ends, it
// reads nothing: then the call counts. Otherwise it reads what can only be text of that kind.
func (p *Parser) quoted(t *thought, forms []*form, kind Kind) bool {
	p.flush()
	start, index, far, whole := p.pos, p.index, p.pos+1, false
	p.trying = true
	for _, f := range forms {
		p.pos = start
		whole = p.attempt(f, false) || p.index > index
		p.call, p.index, p.holding = call{}, index, false
		if far = max(far, p.pos); whole {
			break
		}
	}
	if whole {
		p.pos = far
		whole = !p.until(t.close, func([]byte) {})
		p.unclosed = whole
		if far = p.pos; !whole {
			far -= len(t.close)
		}
	} else if i := bytes.Index(p.buf[start:far], []byte(t.close)); i >= 0 {
		far = start + i
	}
	p.trying = false
	if p.pos = start; whole {
		return false
	}
	p.pos = far
	p.write(kind, false)
	return true
}

// markThought reports a thought's marker.
func (p *Parser) markThought() {
	text := strings.TrimLeft(string(p.buf[p.taken:p.pos]), " \t\r\n")
	p.emit(Event{Kind: Mark})
	if p.o.Reasoning == ReasoningBoth && text != "" {
		p.events = append(p.events, Event{Kind: Content, Text: text + "\n"})
	}
	p.lead = true
}
