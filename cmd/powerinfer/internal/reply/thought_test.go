package reply

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v3/vt"
	"github.com/rivo/uniseg"
)

// rowsOf returns the screen's lines without trailing spaces, up to the last line with text.
func rowsOf(term vt.MockTerm, size vt.Coord) []string {
	var all []string
	for y := range size.Y {
		var row strings.Builder
		for x := vt.Col(0); x < size.X; {
			c := term.GetCell(vt.Coord{X: x, Y: y})
			if c.C == "" {
				c.C = " "
			}
			row.WriteString(c.C)
			x += vt.Col(max(1, c.W))
		}
		all = append(all, strings.TrimRight(row.String(), " "))
	}
	for len(all) > 1 && all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// TestThoughtOnScreen: a thought is broken into lines that fit and folded into one line, even if it is longer than the
// screen. Text before it stays. After a change of size nothing is erased.
func TestThoughtOnScreen(t *testing.T) {
	const text = "日本語の文章です and some words in English, 👍🏽👩‍👩‍👧 with pictures.\nA second line.\n"
	for _, k := range []struct {
		times  int
		resize bool
		want   int // rows
	}{{1, false, 2}, {30, false, 2}, {1, true, 6}} {
		size := vt.Coord{X: 40, Y: 10}
		term := vt.NewMockTerm(vt.MockOptSize(size))
		if err := term.Start(); err != nil {
			t.Fatal(err)
		}
		width := int(size.X)
		show := func(text string) { _, _ = io.WriteString(term, strings.ReplaceAll(text, "\n", "\r\n")) }
		show("before\n")
		var out strings.Builder
		a := beginThought(bufio.NewWriter(&out), func() (int, int) { return width, int(size.Y) })
		state, rest := -1, strings.Repeat(text, k.times)
		for rest != "" {
			var piece string
			piece, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
			a.write(piece)
		}
		if k.resize {
			width = 30
		}
		a.fold()
		a.out.Flush()
		show(out.String())
		rows := rowsOf(term, size)
		if len(rows) != k.want || rows[0] != "before" || !strings.HasPrefix(rows[len(rows)-1], "▸ thought for") {
			t.Errorf("%d times, resized %v: %d rows, not %d:\n%s", k.times, k.resize, len(rows), k.want, strings.Join(rows, "\n"))
		}
		_ = term.Stop()
	}
}
