package editor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

// ErrInterrupted means that Ctrl-C was pressed at the prompt.
var ErrInterrupted = errors.New("interrupted at the prompt")

// Reader reads what a user types. It returns io.EOF, ErrInterrupted or an error of reading.
type Reader interface {
	ReadLine(prompt string) (string, error)
}

// The prompts of the first line of a message and of further ones.
const (
	Prompt     = "> "
	PromptMore = ". "
)

// ReadMessage reads a message: one line, several lines that all except the last end with a backslash, or lines between
// two """. With multi a message continues until a line ends with a backslash or a slash, which is removed.
func ReadMessage(r Reader, multi bool) (string, error) {
	line, err := r.ReadLine(Prompt)
	if err != nil {
		return "", err
	}
	if rest, ok := strings.CutPrefix(line, `"""`); ok {
		return readQuoted(r, rest)
	}
	var lines []string
	for {
		body, ends := cutEnd(line, multi)
		lines = append(lines, body)
		if ends {
			return strings.Join(lines, "\n"), nil
		}
		if line, err = r.ReadLine(PromptMore); errors.Is(err, io.EOF) {
			return strings.Join(lines, "\n"), nil
		} else if err != nil {
			return "", err
		}
	}
}

// cutEnd returns a line without the mark at its end, and whether the message ends there.
func cutEnd(line string, multi bool) (body string, ends bool) {
	body, backslash := strings.CutSuffix(line, `\`)
	if !multi {
		return body, !backslash
	}
	if backslash || strings.HasPrefix(line, "/") {
		return body, true // commands are lines
	}
	return strings.CutSuffix(line, "/")
}

// readQuoted reads lines until one ends with """.
func readQuoted(r Reader, line string) (string, error) {
	var lines []string
	for {
		body, ends := strings.CutSuffix(line, `"""`)
		lines = append(lines, body)
		if ends {
			return strings.Trim(strings.Join(lines, "\n"), "\n"), nil
		}
		var err error
		if line, err = r.ReadLine(PromptMore); errors.Is(err, io.EOF) {
			return "", errors.New(`the input ends inside """`)
		} else if err != nil {
			return "", err
		}
	}
}

// plainLines reads lines without editing, from a pipe or from a terminal that edits them.
type plainLines struct {
	ctx        context.Context
	interrupts <-chan os.Signal
	show       bool // prompts are shown
	lines      chan string
	failed     chan error
}

// Plain returns a reader of plain lines from in. A signal of interrupts ends a line. show shows prompts.
func Plain(ctx context.Context, in io.Reader, interrupts <-chan os.Signal, show bool) *plainLines {
	p := &plainLines{ctx: ctx, interrupts: interrupts, show: show, lines: make(chan string), failed: make(chan error, 1)}
	go func() {
		r := bufio.NewReader(in)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				p.lines <- strings.TrimRight(line, "\r\n")
			}
			if err != nil {
				p.failed <- err
				close(p.lines)
				return
			}
		}
	}()
	return p
}

func (p *plainLines) ReadLine(prompt string) (string, error) {
	if p.show {
		fmt.Fprint(screen.Out, prompt)
	}
	select {
	case <-p.ctx.Done():
		return "", p.ctx.Err()
	case <-p.interrupts:
		fmt.Fprintln(screen.Out)
		return "", ErrInterrupted
	case line, ok := <-p.lines:
		if !ok {
			err := <-p.failed
			p.failed <- err
			return "", err
		}
		return line, nil
	}
}
