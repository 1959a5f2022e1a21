// Package reply shows a model's answer while it is written: as Markdown with escape sequences and thoughts folded into
// a line, or as plain text.
package reply

import (
	"bufio"
	"strings"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/markdown"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// Reply is an answer on its way to the user.
type Reply struct {
	out      *bufio.Writer
	parser   *answer.Parser   // nil: everything is content
	styler   *markdown.Styler // nil: the text is shown as it is
	styled   bool
	Message  answer.Message
	thinking bool     // the last text shown belongs to a thought
	folding  *thought // the thought on the screen, if thoughts are folded
	onScreen bool     // out is a terminal, which obeys escape sequences
	cleaner  terminal.Cleaner
	lineOpen bool // the last text shown did not end with a newline
}

// New shows the answer to prompt. format parses it; nil: it is plain. styled writes it with escape sequences.
func New(format *answer.Format, styled bool, prompt string) *Reply {
	a := &Reply{out: bufio.NewWriter(screen.Out.Styled()), styled: styled, onScreen: screen.Out.IsTerminal()}
	if format != nil {
		a.parser = format.NewParser(answer.Options{Prompt: prompt})
	}
	if styled {
		a.styler = &markdown.Styler{Plain: format == nil}
	}
	return a
}

// Push shows a piece of the text that the model writes.
func (a *Reply) Push(text string) error {
	if a.parser == nil {
		a.show(answer.Event{Kind: answer.Content, Text: text})
	} else {
		a.show(a.parser.Feed(text)...)
	}
	return a.out.Flush()
}

// End shows what the parser still holds and ends the line.
func (a *Reply) End() error {
	if a.parser != nil {
		a.show(a.parser.Finish()...)
	}
	a.thought(false)
	if a.styler != nil {
		a.write(a.styler.Finish())
	}
	if a.lineOpen {
		a.write("\n")
	}
	return a.out.Flush()
}

func (a *Reply) show(events ...answer.Event) {
	a.Message.Add(events...)
	for _, e := range events {
		if e.Text == "" {
			continue
		}
		if a.onScreen {
			e.Text = a.cleaner.Text(e.Text)
		}
		a.thought(e.Kind == answer.Reasoning)
		if a.folding != nil {
			a.folding.write(e.Text)
			continue
		}
		if a.styler != nil && e.Kind != answer.Reasoning {
			a.styler.Width = screen.Columns(screen.Out)
			e.Text = a.styler.Feed(e.Text)
		}
		a.write(e.Text)
	}
}

// thought begins or ends a thought, which is faint and then folded or, in plain text, between two lines.
func (a *Reply) thought(begins bool) {
	if begins == a.thinking {
		return
	}
	a.thinking = begins
	switch {
	case a.styled && begins:
		a.folding = beginThought(a.out, screen.Out.Size)
	case a.styled:
		a.folding.fold()
		a.folding, a.lineOpen = nil, false
	case begins:
		a.write("[thoughts]\n")
	default:
		if a.lineOpen {
			a.write("\n")
		}
		a.write("[answer]\n")
	}
}

func (a *Reply) write(text string) {
	if text != "" {
		a.out.WriteString(text)
		a.lineOpen = !strings.HasSuffix(text, "\n")
	}
}
