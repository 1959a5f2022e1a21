package markdown

import (
	"strings"

	"github.com/rivo/uniseg"
)

// largestTable bounds the bytes of a table that are held back until its last row is known.
const largestTable = 32 << 10

// table is the rows of an unfinished table, as written.
type table struct {
	rows  []string
	bytes int
}

// isRow reports whether the line that begins is a row of a table.
func (s *Styler) isRow() bool {
	if s.inLine || s.fence != nil || s.Width < narrowest {
		return false
	}
	rest := strings.TrimLeft(string(s.line), " ")
	return rest != "" && rest[0] == '|'
}

// addRow takes the line for a row.
func (s *Styler) addRow() {
	row := string(s.line)
	s.line = nil
	s.table.rows = append(s.table.rows, row)
	if s.table.bytes += len(row); s.table.bytes > largestTable {
		s.endTable() // later rows are shown as they are
	}
}

// endTable draws the table from the held rows. Rows without a delimiter row in second place (GitHub Flavored Markdown
// 4.10) are not a table and shown as they are.
func (s *Styler) endTable() {
	rows := s.table.rows
	s.table = table{}
	if len(rows) == 0 {
		return
	}
	if drawn := drawTable(rows, s.Width); drawn != "" {
		s.set(0)
		s.out.WriteString(drawn)
		return
	}
	for _, row := range rows {
		s.inLine, s.block, s.last = true, 0, 0
		for _, b := range []byte(row) {
			s.inline(b)
		}
		s.endInline()
		s.newline()
	}
}

// drawTable returns the table in lines of at most width columns, or "" if rows are no table or do not fit.
func drawTable(rows []string, width int) string {
	if len(rows) < 2 {
		return ""
	}
	align, ok := alignments(cells(rows[1]))
	header := cells(rows[0])
	if !ok || len(header) != len(align) {
		return ""
	}
	const gap, least = 3, 4 // columns between two columns of the table, and of the narrowest column
	n := len(align)
	widths := make([]int, n)
	body := [][]string{header}
	for _, row := range rows[2:] {
		body = append(body, cells(row))
	}
	for i, row := range body {
		row = append(row, make([]string, max(0, n-len(row)))...)[:n]
		body[i] = row
		for c, text := range row {
			widths[c] = max(widths[c], widest(styledCell(text, 0, i == 0)), 1)
		}
	}
	room := width - gap*(n-1)
	for sum(widths) > room {
		c := largest(widths)
		if widths[c] <= least {
			return ""
		}
		widths[c]--
	}
	var out strings.Builder
	for i, row := range body {
		var lines [][]string
		height := 1
		for c, text := range row {
			l := styledCell(text, widths[c], i == 0)
			lines = append(lines, l)
			height = max(height, len(l))
		}
		for y := range height {
			for c := range row {
				text := ""
				if y < len(lines[c]) {
					text = lines[c][y]
				}
				if c > 0 {
					out.WriteString(" \x1b[2m│\x1b[0m ")
				}
				left, right := padding(widths[c]-uniseg.StringWidth(unstyled(text)), align[c])
				if c == n-1 {
					right = 0
				}
				out.WriteString(strings.Repeat(" ", left) + text + strings.Repeat(" ", right))
			}
			out.WriteByte('\n')
		}
		if i == 0 {
			out.WriteString("\x1b[2m")
			for c, w := range widths {
				if c > 0 {
					out.WriteString("─┼─")
				}
				out.WriteString(strings.Repeat("─", w))
			}
			out.WriteString("\x1b[0m\n")
		}
	}
	return out.String()
}

// styledCell returns a cell's text in lines of at most width columns, or in one line if width is 0.
func styledCell(text string, width int, heading bool) []string {
	s := Styler{inLine: true, cell: true, Width: width}
	if heading {
		s.block = bold
	}
	return strings.Split(s.Feed(text)+s.Finish(), "\n")
}

// cells returns the texts of a row's cells. A bar after a backslash is part of a text.
func cells(row string) []string {
	row = strings.TrimSpace(row)
	row = strings.TrimPrefix(row, "|")
	var list []string
	var text strings.Builder
	for i := 0; i < len(row); i++ {
		switch {
		case row[i] == '\\' && i+1 < len(row) && row[i+1] == '|':
			text.WriteByte('|')
			i++
		case row[i] == '|':
			list = append(list, strings.TrimSpace(text.String()))
			text.Reset()
		default:
			text.WriteByte(row[i])
		}
	}
	if rest := strings.TrimSpace(text.String()); rest != "" {
		list = append(list, rest)
	}
	return list
}

// alignment of a column's texts.
type alignment uint8

const (
	left alignment = iota
	centre
	right
)

// alignments reads a delimiter row. ok is false if it is none.
func alignments(row []string) (list []alignment, ok bool) {
	for _, c := range row {
		dashes := strings.Trim(c, ":")
		if strings.Trim(dashes, "-") != "" || dashes == "" {
			return nil, false
		}
		switch first, last := c[0] == ':', c[len(c)-1] == ':'; {
		case first && last:
			list = append(list, centre)
		case last:
			list = append(list, right)
		default:
			list = append(list, left)
		}
	}
	return list, len(list) > 0
}

// padding divides n spaces between both sides of a text.
func padding(n int, a alignment) (before, after int) {
	n = max(0, n)
	switch a {
	case centre:
		return n / 2, n - n/2
	case right:
		return n, 0
	}
	return 0, n
}

// unstyled returns text without escape sequences of SGR.
func unstyled(text string) string {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "\x1b[")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		_, text, _ = strings.Cut(rest, "m")
	}
}

func widest(lines []string) (most int) {
	for _, l := range lines {
		most = max(most, uniseg.StringWidth(unstyled(l)))
	}
	return most
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}

// largest returns the index of the first of the largest numbers.
func largest(list []int) (at int) {
	for i, n := range list {
		if n > list[at] {
			at = i
		}
	}
	return at
}
