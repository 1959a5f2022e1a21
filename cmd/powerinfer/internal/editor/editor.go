// Package editor reads what a person types: lines edited on a terminal with history and completion, or plain lines, and
// messages of several lines. It keeps text that is pasted or typed meanwhile for the next line.
package editor

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"

	"github.com/reeflective/readline"
	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// Editor reads lines that are edited on a terminal, with a history.
type Editor struct {
	ctx    context.Context
	shell  *readline.Shell
	prompt string
	missed int               // rows of the last drawn line that the library did not count
	fresh  bool              // the library still has the previous line
	before string            // the last drawn line before the cursor
	width  int               // width of the window at that time, in columns
	pasted map[string]string // pasted texts that are too long to show, by their abbreviations in the line

	keyboard *keyboard // handles input between two prompts
}

// Completion holds a tab's completions of a line: words with descriptions, or names of files that replace the word
// Typed at the line's end.
type Completion struct {
	Described []string
	Typed     string
	Words     []string
}

// Open returns a line editor on the terminal, which it owns until Close. complete returns the completions of the line
// before the cursor. The editor keeps typed lines in a file called history in the user's state folder.
func Open(ctx context.Context, history string, complete func(line string) Completion) (*Editor, error) {
	k, err := openKeyboard(int(os.Stdin.Fd()))
	if err != nil {
		return nil, err
	}
	e := &Editor{ctx: ctx, shell: readline.NewShell(), keyboard: k}
	e.shell.Prompt.Primary(func() string { return e.room() + e.prompt })
	for name, value := range map[string]bool{
		// without these, letters other than ASCII's are taken for keys with Alt
		"convert-meta": false, "input-meta": true, "output-meta": true,
		"enable-bracketed-paste": true,
		// The library would ask the terminal for the cursor's place before each drawing, and drops keys that it reads
		// together with the answer. It needs the place only at the bottom of the screen, where room helps.
		"cursor-position-probe": false,
	} {
		_ = e.shell.Config.Set(name, value) // they exist
	}
	e.shell.Keymap.Register(map[string]func(){"self-insert": e.insert, "suspend": e.suspend, "abort": e.abort(e.shell.Keymap.Commands()["abort"])})
	e.shell.Keymap.Register(e.pasteActions())
	_ = e.shell.Config.Bind("emacs", "\x1a", "suspend", false) // the keymap exists
	e.shell.Completer = completed(complete)
	e.pasted = map[string]string{}
	e.shell.PasteTransformer = e.paste
	if file, err := historyFile(history); err == nil { // without a history file, the history lasts for this run
		if h, err := readline.NewHistoryFromFile(file); err == nil {
			e.shell.History.Delete()
			e.shell.History.Add("history", h)
		}
	}
	return e, nil
}

// Close restores the terminal.
func (e *Editor) Close() error { return e.keyboard.close() }

// abort returns the action of Ctrl-C. It ends a search or a completion with the library's action, and otherwise the
// line. The library would also read the next key there, and drop both if a key was waiting.
func (e *Editor) abort(library func()) func() {
	return func() {
		if e.shell.Keymap.Local() != "" {
			library()
			return
		}
		e.shell.Cursor().Set(e.shell.Line().Len())
		e.shell.Display.Refresh()
		fmt.Fprint(screen.Out.Styled(), "^C"+screen.Erase+"\r\n")
		e.shell.History.Accept(false, false, readline.ErrInterrupt)
	}
}

// suspend stops the program while it reads a line, and draws the line again when it continues.
func (e *Editor) suspend() {
	in := int(os.Stdin.Fd())
	raw, err := term.GetState(in)
	if err != nil {
		return
	}
	e.shell.Display.CursorBelowLine()
	_ = e.keyboard.suspend(func() error { return term.Restore(in, raw) }) // the line can still be edited
	e.missed = 0
	e.shell.Display.PrintPrimaryPrompt()
}

// room returns what to write before the prompt, because the library does not know its place on the screen. It first
// moves up by the rows of the last drawn line that the library did not count. Then it makes room for the line and the
// row below it, to which the library moves: it moves down by as many rows, which scrolls the terminal if necessary, and
// back.
func (e *Editor) room() string {
	columns, _ := window()
	text, before := string(*e.shell.Line()), string((*e.shell.Line())[:min(e.shell.Cursor().Pos(), e.shell.Line().Len())])
	if e.fresh {
		text, before, e.fresh = "", "", false
	} else if os.Getenv("XTERM_VERSION") == "" { // xterm cuts lines
		e.missed += reflowed(e.prompt, e.before, e.width, columns)
	}
	e.before, e.width = before, columns
	back := strings.Repeat("\x1b[A", max(0, e.missed)) + strings.Repeat("\x1b[B", max(0, -e.missed))
	rows, counted := rowsOf(e.prompt, text, columns)
	e.missed = rows - counted
	rows = max(rows, counted)
	return back + strings.Repeat("\v", rows) + fmt.Sprintf("\x1b[%dA", rows)
}

// reflowed returns by how many rows the line before the cursor grew when the terminal broke it for a new width.
func reflowed(prompt, before string, from, to int) int {
	if from == to {
		return 0
	}
	then, _ := rowsOf(prompt, before, from)
	now, _ := rowsOf(prompt, before, to)
	return now - then
}

// window returns the terminal's size, as the library asks for it.
func window() (columns, rows int) {
	columns, rows = screen.Err.Size()
	if columns < 2 || rows < 1 {
		return 80, 24
	}
	return columns, rows
}

// paste returns the text of a paste for the line: the pasted text itself, or an abbreviation if it would take more than
// half of the window. The abbreviation has a checksum, because the history outlives this process.
func (e *Editor) paste(text string) string {
	text = terminal.Clean(text)
	columns, height := window()
	if rows, _ := rowsOf(e.prompt, text, columns); rows <= height/2 {
		return text
	}
	shown := fmt.Sprintf("[paste %08x: %s]", crc32.ChecksumIEEE([]byte(text)), quantity.Of(strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1, "line"))
	e.pasted[shown] = text
	return shown
}

// whole returns a line with the pasted texts in place of their abbreviations.
func (e *Editor) whole(line string) string {
	for shown, text := range e.pasted {
		line = strings.ReplaceAll(line, shown, text)
	}
	return line
}

// rowsOf returns how many rows text takes after a prompt, with all its lines indented by the prompt's width, and how
// many the library counts. The library divides widths, and does not know that a column stays empty if a wide character
// does not fit at the end of a row.
func rowsOf(prompt, text string, columns int) (rows, counted int) {
	width := 0 // width of the line as the library counts it
	for line := range strings.SplitSeq(text, "\n") {
		width = len(prompt) + uniseg.StringWidth(line)
		counted += width/columns + 1
		rows++
		x, state := len(prompt), -1
		for line != "" {
			var w int
			_, line, w, state = uniseg.FirstGraphemeClusterInString(line, state)
			if x+w > columns {
				rows, x = rows+1, 0
			}
			x += w
		}
	}
	if width%columns == 0 { // the library begins a new row when it counts the last one as full
		rows++
	}
	return rows, counted
}

// insert inserts the whole character that was typed. The library's insert takes only the first code point, for example
// an emoji without its skin colour, and puts the cursor too far right after wide characters.
func (e *Editor) insert() {
	e.shell.History.SkipSave()
	e.shell.Cursor().InsertAt(e.shell.Keys.Caller()...)
}

// completed returns complete in the library's form.
func completed(complete func(line string) Completion) func(line []rune, cursor int) readline.Completions {
	return func(line []rune, cursor int) readline.Completions {
		c := complete(string(line[:cursor]))
		if len(c.Described) > 0 {
			return readline.CompleteValuesDescribed(c.Described...)
		}
		if len(c.Words) == 0 {
			return readline.Completions{}
		}
		values := readline.CompleteValues(c.Words...).NoSpace()
		values.PREFIX = c.Typed
		return values
	}
}

// ReadLine reads a line after prompt.
func (e *Editor) ReadLine(prompt string) (string, error) {
	e.prompt, e.missed, e.fresh = prompt, 0, true
	in := int(os.Stdin.Fd())
	state, err := term.GetState(in)
	if err != nil {
		return "", err
	}
	type typed struct {
		line string
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		line, err := e.shell.Readline()
		done <- typed{line, errors.Join(err, e.keyboard.hold())}
	}()
	select {
	case <-e.ctx.Done(): // the program ends without a key
		return "", errors.Join(e.ctx.Err(), term.Restore(in, state))
	case t := <-done:
		switch {
		case errors.Is(t.err, readline.ErrInterrupt):
			return "", ErrInterrupted
		case errors.Is(t.err, io.EOF):
			return "", io.EOF
		}
		return e.whole(t.line), t.err
	}
}
