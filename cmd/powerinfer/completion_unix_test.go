//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// shells are the shells with completion scripts. Ctrl-G writes the current line to the file line and clears it.
var shells = []struct {
	name, setup, bind string
	args              []string
}{
	{
		"bash", `source <(powerinfer completion bash)`,
		`take() { printf %s "$READLINE_LINE" >part; mv part line; READLINE_LINE=; }; bind -x '"\C-g": take'`,
		[]string{"--norc", "--noprofile", "-i"},
	},
	{
		"zsh", `autoload -Uz compinit && compinit -u -D && source <(powerinfer completion zsh)`,
		`take() { print -rn -- "$BUFFER" >part; mv part line; BUFFER= }; zle -N take; bindkey '^G' take`,
		[]string{"-f", "-i"},
	},
	{
		"fish", `powerinfer completion fish | source`,
		`function take; commandline >part; mv part line; commandline ''; end; bind \cg take`,
		[]string{"--no-config", "-i"},
	},
}

// TestShells: in each shell a tab completes commands, flags, values and file names, and never executes the line.
func TestShells(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell.name, func(t *testing.T) {
			path, err := exec.LookPath(shell.name)
			if err != nil {
				testenv.Missing(t, "shells", shell.name+" is not installed")
			}
			s := programOnScreen(t, path, []string{"PATH=" + os.Getenv("PATH")}, shell.args...)
			for _, name := range []string{"model one.gguf", "second.gguf", "reports/page.html"} {
				file := filepath.Join(s.cmd.Dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s.write(shell.setup + "; " + shell.bind + "; touch ready\n")
			s.file("ready")
			for _, c := range [][2]string{ // the line before the tab, and after it
				{"tokeni", "tokenize"},
				{"run --tem", "run --temp"},
				{"run -m x --tem", "run -m x --temp"},
				{"run --sparse exa", "run --sparse exact"},
				{"run --sparse=exa", "run --sparse=exact"},
				{"run -m sec", "run -m second.gguf"},
				{"run --model=sec", "run --model=second.gguf"},
				{"run -m mod", `run -m model\ one.gguf`},
				{"inspect sec", "inspect second.gguf"},
				{"inspect --report rep", "inspect --report reports/"},
				{"run -p '$(touch executed)' --tem", "run -p '$(touch executed)' --temp"},
			} {
				s.write("powerinfer " + c[0] + "\t\a")
				got := strings.TrimRight(s.file("line"), " \n")
				if want := "powerinfer " + c[1]; got != want {
					t.Errorf("%q became %q, not %q", c[0], got, want)
				}
			}
			if _, err := os.Stat(filepath.Join(s.cmd.Dir, "executed")); err == nil {
				t.Error("what the line had in $( ) was executed")
			}
		})
	}
}

// write types keys.
func (s *pane) write(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// file waits for a file in the program's folder, removes it and returns what it held.
func (s *pane) file(name string) string {
	s.t.Helper()
	path := filepath.Join(s.cmd.Dir, name)
	var text []byte
	testenv.Eventually(s.t, "the file "+name+" of the shell", func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil
	})
	if err := os.Remove(path); err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}
