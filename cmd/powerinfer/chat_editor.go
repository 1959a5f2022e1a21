package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/reeflective/readline"
	"golang.org/x/term"
)

// lineEditor reads lines that are edited on a terminal, with a history.
type lineEditor struct {
	ctx    context.Context
	shell  *readline.Shell
	prompt string
}

func newLineEditor(ctx context.Context) *lineEditor {
	e := &lineEditor{ctx: ctx, shell: readline.NewShell()}
	e.shell.Prompt.Primary(func() string { return e.prompt })
	// without these, letters other than ASCII's are taken for keys with Alt
	for name, value := range map[string]bool{"convert-meta": false, "input-meta": true, "output-meta": true, "enable-bracketed-paste": true} {
		_ = e.shell.Config.Set(name, value) // they exist
	}
	e.shell.Keymap.Register(map[string]func(){"self-insert": e.insert})
	e.shell.Completer = completeAction
	if file, err := historyFile(); err == nil { // a chat without a kept history is one, too
		if h, err := readline.NewHistoryFromFile(file); err == nil {
			e.shell.History.Delete()
			e.shell.History.Add("history", h)
		}
	}
	return e
}

// insert inserts the character that was typed, all of it: the library's own takes the first code point, of an emoji without its skin,
// and puts the cursor too far behind wide ones.
func (e *lineEditor) insert() {
	e.shell.History.SkipSave()
	e.shell.Cursor().InsertAt(e.shell.Keys.Caller()...)
}

// completeAction completes the names of commands.
func completeAction(line []rune, cursor int) readline.Completions {
	text := string(line[:cursor])
	if !strings.HasPrefix(text, "/") || strings.Contains(text, " ") {
		return readline.Completions{}
	}
	var described []string
	for _, a := range chatActions() {
		described = append(described, "/"+a.name, a.help)
	}
	return readline.CompleteValuesDescribed(described...)
}

func (e *lineEditor) readLine(prompt string) (string, error) {
	e.prompt = prompt
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
		done <- typed{line, err}
	}()
	select {
	case <-e.ctx.Done(): // the program ends, and nobody presses a key
		return "", errors.Join(e.ctx.Err(), term.Restore(in, state))
	case t := <-done:
		switch {
		case errors.Is(t.err, readline.ErrInterrupt):
			return "", errInterruptedInput
		case errors.Is(t.err, io.EOF):
			return "", io.EOF
		}
		return t.line, t.err
	}
}

// historyFile returns the file that keeps what the user typed, which only the user may read.
func historyFile() (string, error) {
	folder, err := stateFolder()
	if err != nil {
		return "", err
	}
	folder = filepath.Join(folder, "powerinfer")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	name := filepath.Join(folder, "chat-history.jsonl")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	return name, f.Close()
}

// stateFolder returns where programs keep what they should remember: XDG's state folder, or the system's own.
func stateFolder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return os.UserConfigDir()
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}
