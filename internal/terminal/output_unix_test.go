//go:build unix

package terminal

import (
	"bufio"
	"io"
	"testing"

	"github.com/creack/pty"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// A terminal gets clean text, also where a character comes in two pieces, and the program's own sequences.
func TestOutputOfTerminal(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		testenv.Missing(t, "shells", "no pseudo-terminal: "+err.Error())
	}
	defer master.Close()
	defer tty.Close()
	o := Of(tty)
	for _, piece := range []string{"a\x1b", "[2J\xe2", "\x82", "\xac\u202e\x9b", "é"} {
		if n, err := o.WriteString(piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := io.WriteString(o.Styled(), "\x1b[1mown\x1b[0m"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(master).ReadString('\n')
	if want := "a[2J€\ufffdé\x1b[1mown\x1b[0m\r\n"; line != want || err != nil {
		t.Errorf("%q, %v, not %q", line, err, want)
	}
	if !o.IsTerminal() {
		t.Error("a terminal is not known")
	}
}
