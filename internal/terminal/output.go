package terminal

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// An Output is a file that a program writes to, such as its standard output. If it is a terminal, Write cleans
// everything that is written; other files get the bytes as they are.
type Output struct {
	file   *os.File
	screen bool // the file is a terminal

	mu      sync.Mutex
	cleaner Cleaner
}

// Of returns f as an Output.
func Of(f *os.File) *Output {
	return &Output{file: f, screen: term.IsTerminal(int(f.Fd()))}
}

// IsTerminal reports whether the output is a terminal.
func (o *Output) IsTerminal() bool { return o.screen }

// Size returns the terminal's columns and rows. They are 0 if the output is not a terminal or its size is unknown.
func (o *Output) Size() (columns, rows int) {
	if !o.screen {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(o.file.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	if !o.screen {
		return o.file.Write(b)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if clean := o.cleaner.Append(nil, b); len(clean) > 0 {
		if _, err := o.file.Write(clean); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// WriteString implements io.StringWriter.
func (o *Output) WriteString(text string) (int, error) { return o.Write([]byte(text)) }

// Styled returns a writer that does not clean. It is for the program's own escape sequences, and for texts that a
// Cleaner has returned.
func (o *Output) Styled() io.Writer { return styled{o} }

type styled struct{ o *Output }

// Size returns the Output's size.
func (s styled) Size() (columns, rows int) { return s.o.Size() }

func (s styled) Write(b []byte) (int, error) {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	return s.o.file.Write(b)
}
