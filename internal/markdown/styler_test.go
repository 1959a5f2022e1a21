package markdown

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// texts are Markdown and what a terminal is to get, with the escape sequence of SGR n written as ‹n›.
var texts = []struct{ name, in, want string }{
	{"plain", "one\ntwo", "one\ntwo"},
	{"bold", "a **b c** d", "a ‹1›b c‹0› d"},
	{"bold at the beginning", "**b** d", "‹1›b‹0› d"},
	{"italic", "*a* and _b_.", "‹3›a‹0› and ‹3›b‹0›."},
	{"both", "***a***", "‹1;3›a‹0›"},
	{"italic in bold", "**a *b***", "‹1›a ‹0›‹1;3›b‹0›"},
	{"bold in italic", "*a **b** c*", "‹3›a ‹0›‹1;3›b‹0›‹3› c‹0›"},
	{"code", "run `a *b* c`!", "run ‹36›a *b* c‹0›!"},
	{"code with a backtick", "``a`b``", "‹36›a`b‹0›"},
	{"code in bold", "**use `x*`**", "‹1›use ‹0›‹1;36›x*‹0›"},
	{"product", "2 * 3 * 4 and 2*3*4", "2 * 3 * 4 and 2*3*4"},
	{"snake", "a_b_c and _a_b_", "a_b_c and ‹3›a_b‹0›"},
	{"arguments", "f(*args, **kwargs)", "f(*args, **kwargs)"},
	{"open", "a **b\nc** d", "a **b\nc** d"},
	{"open code, then bold", "a ` **b**", "a ` ‹1›b‹0›"},
	{"escaped", `\*a*`, `\*a*`},
	{"Chinese", "中**文**字", "中‹1›文‹0›字"},
	{"heading", "# A *b*\ntext", "‹1;4›A ‹0›‹1;3;4›b‹0›\ntext"},
	{"smaller heading", "### A", "‹1›A‹0›"},
	{"no heading", "#tag", "#tag"},
	{"list", "- a\n  * **b**\n+ c\n1. d", "• a\n  • ‹1›b‹0›\n• c\n1. d"},
	{"rule", "---\n***", "---\n***"},
	{"quotation", "> a", "‹2›│‹0› a"},
	{"code block", "```go\na *b* c\n\n  # d\n```\n*e*", "‹2›```go‹0›\n‹36›a *b* c‹0›\n\n‹36›  # d‹0›\n‹2›```‹0›\n‹3›e‹0›"},
	{"code block without a name", "```\n``\n```` \nx", "‹2›```‹0›\n‹36›``‹0›\n‹2›```` ‹0›\nx"},
	{"tildes", "~~~\n```\n~~~\nx", "‹2›~~~‹0›\n‹36›```‹0›\n‹2›~~~‹0›\nx"},
	{"code block that stays open", "```\na", "‹2›```‹0›\n‹36›a‹0›"},
	{"emoji", "**👍🏽** é", "‹1›👍🏽‹0› é"},
}

func TestStyler(t *testing.T) {
	readable := regexp.MustCompile("\x1b\\[([0-9;]+)m")
	for _, c := range texts {
		var s Styler
		got := readable.ReplaceAllString(s.Feed(c.in)+s.Finish(), "‹$1›")
		if got != c.want {
			t.Errorf("%s: %q gives\n%s\nwant\n%s", c.name, c.in, got, c.want)
		}
	}
}

// TestStylerCuts: the same text cut anywhere gives the same result, and without escape sequences it has every letter of
// the text.
func TestStylerCuts(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	const pieces, rounds = 12, 2000
	escape := regexp.MustCompile("\x1b\\[[0-9;]+m")
	marks := regexp.MustCompile("[^a-zA-Z0-9é👍]")
	alphabet := []string{"*", "**", "_", "`", "```", "#", " ", "\n", "a", "b ", "é", "👍", "-", ">", "~~~", "\\"}
	for range rounds {
		var text string
		for range 1 + r.IntN(3*pieces) {
			if r.IntN(pieces) == 0 {
				text += texts[r.IntN(len(texts))].in
			}
			text += alphabet[r.IntN(len(alphabet))]
		}
		var whole, cut Styler
		want := whole.Feed(text) + whole.Finish()
		got := ""
		for rest := text; rest != ""; {
			n := 1 + r.IntN(len(rest))
			got += cut.Feed(rest[:n])
			rest = rest[n:]
		}
		if got += cut.Finish(); got != want {
			t.Fatalf("%q cut gives %q, whole %q", text, got, want)
		}
		if a, b := marks.ReplaceAllString(escape.ReplaceAllString(want, ""), ""), marks.ReplaceAllString(text, ""); a != b {
			t.Fatalf("%q is shown as %q", text, want)
		}
	}
}

// A long line of marks that nothing closes takes time in proportion to its length.
func TestStylerHostile(t *testing.T) {
	for _, mark := range []string{"*a ", "`a``", "**_a ", "_`"} {
		var s Styler
		begin := testenv.ProcessorTime(t)
		text := strings.Repeat(mark, 20000)
		got := s.Feed(text) + s.Finish()
		if took := testenv.ProcessorTime(t) - begin; took > 5*time.Second { // milliseconds are usual
			t.Errorf("%q repeated took %v", mark, took)
		}
		if len(got) < len(text)/2 {
			t.Errorf("%q repeated: %d bytes of %d are left", mark, len(got), len(text))
		}
	}
}
