package markdown

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
)

// wrappedTexts are Markdown and what a terminal of 20 columns is to show, without styles.
var wrappedTexts = []struct{ name, in, want string }{
	{"words", "The quick brown fox jumps over the lazy dog.", "The quick brown fox\njumps over the lazy\ndog."},
	{"a word that fits exactly", "12345678901234567890 b", "12345678901234567890\nb"},
	{"a long word", "a 1234567890123456789012345 b", "a\n12345678901234567890\n12345 b"},
	{"bold words", "a **bold phrase that goes on** end", "a bold phrase that\ngoes on end"},
	{"a list", "- one two three four five six\n  1. one two three four", "• one two three four\n  five six\n  1. one two three\n     four"},
	{"a quotation", "> one two three four five", "│ one two three four\n│ five"},
	{"Chinese", "我能吞下玻璃而不伤身体。真的。", "我能吞下玻璃而不伤身\n体。真的。"},
	{"code", "```\none two three four five six seven\n```\n", "```\none two three four five six seven\n```\n"},
	{"line breaks", "one\ntwo\n\nthree", "one\ntwo\n\nthree"},
	{"a table", "| a | b |\n|---|--:|\n| **x** | 1 |\n| long | 12 |\nend", "a    │  b\n─────┼───\nx    │  1\nlong │ 12\nend"},
	{"a wide table", "|name|what it is|\n|-|-|\n|ox|a large animal that pulls|\n", "name │ what it is\n─────┼──────────────\nox   │ a large\n     │ animal that\n     │ pulls\n"},
	{"a table with too many columns", "|a|b|c|d|e|f|\n|-|-|-|-|-|-|\n|1|2|3|4|5|6|", "|a|b|c|d|e|f|\n|-|-|-|-|-|-|\n|1|2|3|4|5|6|\n"},
	{"no table", "| a | b |\nend", "| a | b |\nend"},
	{"an escaped bar", "|a|\n|:-:|\n|x\\|y|", " a\n───\nx|y\n"},
	{"a table in code", "```\n|a|\n|-|\n```\n", "```\n|a|\n|-|\n```\n"},
}

func TestWrap(t *testing.T) {
	escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, c := range wrappedTexts {
		const width = 20
		whole, cut := Styler{Width: width}, Styler{Width: width}
		got := whole.Feed(c.in) + whole.Finish()
		if shown := strings.ReplaceAll(escape.ReplaceAllString(got, ""), " \n", "\n"); shown != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, shown, c.want)
		}
		var pieces strings.Builder
		for i := range len(c.in) {
			pieces.WriteString(cut.Feed(c.in[i : i+1]))
		}
		if pieces.WriteString(cut.Finish()); pieces.String() != got {
			t.Errorf("%s: byte by byte it gives\n%q\nwant\n%q", c.name, pieces.String(), got)
		}
	}
}

// TestStreamedWords shows a word as soon as the next one begins.
func TestStreamedWords(t *testing.T) {
	s := Styler{Width: 40}
	for _, c := range []struct{ in, want string }{{"Once", ""}, {" upon", "Once "}, {" a", "upon "}} {
		if got := s.Feed(c.in); got != c.want {
			t.Errorf("after %q %q is shown, want %q", c.in, got, c.want)
		}
	}
	if got := s.Finish(); got != "a" {
		t.Errorf("at the end %q is shown", got)
	}
}

// FuzzWrap: every line fits the terminal's width and every letter stays, however the text is cut.
func FuzzWrap(f *testing.F) {
	for _, c := range wrappedTexts {
		f.Add(c.in, uint8(20), uint8(3))
	}
	for _, c := range texts {
		f.Add(c.in, uint8(17), uint8(1))
	}
	escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
	letters := regexp.MustCompile("[^a-zA-Z0-9]")
	f.Fuzz(func(t *testing.T, text string, width, step uint8) {
		if len(text) > 4096 || strings.ContainsAny(text, "\x1b\r\t\v\f\u0085\u2028\u2029") {
			return
		}
		whole, cut := Styler{Width: narrowest + int(width)%100}, Styler{Width: narrowest + int(width)%100}
		want := whole.Feed(text) + whole.Finish()
		var got strings.Builder
		for rest := text; rest != ""; {
			n := min(len(rest), 1+int(step)%7)
			got.WriteString(cut.Feed(rest[:n]))
			rest = rest[n:]
		}
		if got.WriteString(cut.Finish()); got.String() != want {
			t.Fatalf("cut: %q\nwhole: %q", got.String(), want)
		}
		shown := escape.ReplaceAllString(want, "")
		if a, b := letters.ReplaceAllString(shown, ""), letters.ReplaceAllString(text, ""); a != b && !strings.Contains(text, "|") {
			t.Fatalf("%q is shown as %q", text, shown)
		}
		if strings.Contains(text, "```") || strings.Contains(text, "~~~") || strings.Contains(text, "|") {
			return // code keeps its lines
		}
		for line := range strings.SplitSeq(shown, "\n") {
			if w := uniseg.StringWidth(strings.TrimRight(line, " ")); w > whole.Width && uniseg.GraphemeClusterCount(line) > 1 {
				t.Fatalf("%q has %d columns of %d", line, w, whole.Width)
			}
		}
	})
}

// Plain text loses none of what Markdown takes for marks.
func TestPlain(t *testing.T) {
	s := Styler{Width: 20, Plain: true}
	got := ""
	for _, piece := range []string{"# a *tale* ", "of a king, | a | horse\n", "```\n- and `a` house"} {
		got += s.Feed(piece)
	}
	got = regexp.MustCompile(` +\n`).ReplaceAllString(got+s.Finish(), "\n")
	if want := "# a *tale* of a\nking, | a | horse\n```\n- and `a` house"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
