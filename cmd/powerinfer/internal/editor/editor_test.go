package editor

import (
	"io"
	"strings"
	"testing"
)

// TestRowsOf: rows as terminals break them, and as the library counts them.
func TestRowsOf(t *testing.T) {
	for _, k := range []struct {
		text          string
		columns       int
		rows, counted int
	}{
		{"", 10, 1, 1},
		{"12345678", 10, 2, 2},
		{"123456789", 10, 2, 2},
		{"a\nb", 10, 2, 2},
		{"12345678\nb", 10, 2, 3},
		{"長長長長", 11, 1, 1},
		{"長長長長長", 11, 2, 2},
		{strings.Repeat("長", 10), 11, 4, 3},   // it counts the last row as full
		{strings.Repeat("長", 60), 11, 13, 12}, // 4, then 5 a row: 11 rows more and one letter
	} {
		if rows, counted := rowsOf("> ", k.text, k.columns); rows != k.rows || counted != k.counted {
			t.Errorf("%q in %d columns: %d rows, counted %d; not %d, %d", k.text, k.columns, rows, counted, k.rows, k.counted)
		}
	}
}

// TestReflowed: a window that becomes narrower moves the cursor down, one that becomes wider up.
func TestReflowed(t *testing.T) {
	text := strings.Repeat("a", 100)
	for _, k := range [][3]int{{80, 80, 0}, {80, 40, 1}, {40, 80, -1}, {200, 30, 3}} {
		if got := reflowed("> ", text, k[0], k[1]); got != k[2] {
			t.Errorf("from %d to %d columns: %d rows, not %d", k[0], k[1], got, k[2])
		}
	}
}

// typed is a reader of given lines.
type typed []string

func (l *typed) ReadLine(string) (string, error) {
	if len(*l) == 0 {
		return "", io.EOF
	}
	line := (*l)[0]
	*l = (*l)[1:]
	return line, nil
}

// TestReadMessage: a message is one line, or several with a mark.
func TestReadMessage(t *testing.T) {
	for _, k := range []struct {
		lines string // separated by |
		multi bool
		want  string
		left  int // unread lines
	}{
		{"one|two", false, "one", 1},
		{`one\|two|three`, false, "one\ntwo", 1},
		{`one\`, false, "one", 0},
		{`"""one|two"""|three`, false, "one\ntwo", 1},
		{`"""|one||two|"""`, false, "one\n\ntwo", 0},
		{`one|two\|three`, true, "one\ntwo", 1},
		{"one|two/|three", true, "one\ntwo", 1},
		{"/help|two", true, "/help", 1},
	} {
		lines := typed(strings.Split(k.lines, "|"))
		got, err := ReadMessage(&lines, k.multi)
		if err != nil || got != k.want || len(lines) != k.left {
			t.Errorf("%s (%v): %q, %v, %d lines left; want %q and %d", k.lines, k.multi, got, err, len(lines), k.want, k.left)
		}
	}
	if _, err := ReadMessage(&typed{`"""one`}, false); err == nil {
		t.Error("a message without its end is read")
	}
}
