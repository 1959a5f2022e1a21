// Package screen holds the outputs of commands: standard output and standard error, which may be terminals. It breaks
// lines at the window's width, keeps errors to one line, and defines the few escape sequences that commands use.
package screen

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// Out and Err are the only outputs that commands write to, so that foreign text never commands a terminal.
// TestOneWriter checks that no other code uses the files.
var Out, Err = terminal.Of(os.Stdout), terminal.Of(os.Stderr)

// Escape sequences (ECMA-48): faint, no attributes, and erase from the cursor on.
const (
	Faint  = "\x1b[2m"
	Normal = "\x1b[0m"
	Erase  = "\x1b[J"
)

// SpareColumns stay free at the right of lines, because terminals differ in the cursor's place after a full line.
const SpareColumns = 1

// Interactive reports whether standard input and output are terminals.
func Interactive() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && Out.IsTerminal()
}

// Columns returns the width of an output's terminal without SpareColumns, or 0 if it is unknown.
func Columns(o *terminal.Output) int {
	columns, _ := o.Size()
	return max(0, columns-SpareColumns)
}

// Note prints a note on standard error.
func Note(s string) { fmt.Fprintln(Err, Lines("note: "+s)) }

// NoteTorn notes that the incomplete last line of a file, of this length, is cut off.
func NoteTorn(bytes int, name string) {
	Note(fmt.Sprintf("the last line of %s is incomplete, as an interrupted run leaves it: its %s are removed, and it is computed again", name, quantity.Of(bytes, "byte")))
}

// Lines returns a line for standard error, broken between words if that is a terminal.
func Lines(line string) string {
	if width := Columns(Err); width > 0 {
		return Broken(line, "", width)
	}
	return line
}

// Broken returns text broken between words into lines of width columns. All lines except the first begin with indent,
// unless indent takes more than half of the width.
func Broken(text, indent string, width int) string {
	if 2*len(indent) > width {
		indent = ""
	}
	var b strings.Builder
	column := 0
	for i, word := range strings.Split(text, " ") {
		w := uniseg.StringWidth(word)
		switch {
		case i == 0:
		case width > 0 && column+1+w > width && column > len(indent):
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += w
	}
	return b.String()
}

// pageWidth is the longest line of texts for every terminal, such as help, in characters.
const pageWidth = 80

// Wrap prints words in lines of at most 80 characters, the first from column at on, the others from column
// indent on.
func Wrap(out *bufio.Writer, words []string, at, indent int) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if cut := strings.LastIndexByte(word[:min(len(word), pageWidth-indent)], ';'); len(word) > pageWidth-indent && cut > 0 { // a list of names
			words = slices.Insert(slices.Clone(words), i+1, word[cut+1:])
			word = word[:cut+1]
		}
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > pageWidth:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += n
	}
	out.WriteString("\n")
}
