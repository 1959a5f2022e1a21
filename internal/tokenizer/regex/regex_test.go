package regex

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func split(t testing.TB, pattern, text string) []string {
	t.Helper()
	re, err := Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	re.Split(text, func(part string, match bool) {
		if match {
			part = "[" + part + "]"
		}
		out = append(out, part)
	})
	return out
}

// TestSplit gives Oniguruma's matches, found by Hugging Face's library (npm's tokenizers 0.23.2) for all but the last,
// which follow from Ruby's documentation.
func TestSplit(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		{`'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, "don't  do\n\n x 12...", "[don]|['t]|[ ]|[ do]|[\n\n]|[ x]|[ 12]|[...]"},
		{`(?=(\d{3})+(?!\d))`, "a1234567b12", "a1|234|567b12"},
		{`\d{1,3}(?=(?:\d{3})*\b)`, "a 1234567 b12", "a |[1]|[234]|[567]| b|[12]"},
		{`\s+$`, "a   b   \n  c  ", "a   b|[   ]|\n  c|[  ]"},
		{`[\p{L}&&[^\p{Han}]]+`, "ab日本cd", "[ab]|日本|[cd]"},
		{`(?i:'s)`, "'S 'ſ", "['S]| |['ſ]"},
		{`[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*`, " ab-cd 1234..\n", "[ ab]|[-cd]| |[123]|[4]|[..\n]"},
		{`(?<=a)b`, "ab cb", "a|[b]| cb"},
		{`(?<!a)b`, "ab cb", "ab c|[b]"},
		{`(?<=aa)b`, "aab ab", "aa|[b]| ab"},
		{`a{2}+|b{1,2}?`, "aaaaabb", "[aaaa]|a|[b]|[b]"},
		{`[[:alpha:]--]+|\x{1F600}|é`, "a-b😀é1", "[a-b]|[😀]|[é]|1"},
	} {
		if got := strings.Join(split(t, c.pattern, c.text), "|"); got != c.want {
			t.Errorf("%s on %q: %q, want %q", c.pattern, c.text, got, c.want)
		}
	}
}

// TestLikeGo compares with Go's regexp package, which prefers alternatives in the same way, on random expressions.
func TestLikeGo(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	atoms := []string{"a", "b", "c", "[ab]", "[^a]", ".", "(?:ab)", `\d`, "é"}
	marks := []string{"", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?"}
	var expression func(depth int) string
	expression = func(depth int) string {
		var b strings.Builder
		for i := range 1 + rng.IntN(3) {
			if i > 0 && rng.IntN(3) == 0 {
				b.WriteByte('|')
			}
			atom := atoms[rng.IntN(len(atoms))]
			if depth > 0 && rng.IntN(3) == 0 {
				atom = "(?:" + expression(depth-1) + ")"
			}
			mark := marks[rng.IntN(len(marks))]
			if strings.HasPrefix(atom, "(?:") && atom != "(?:ab)" { // engines differ in what a loop over nothing prefers
				mark = marks[rng.IntN(3)]
			}
			if mark == "{2}" { // without others: Ruby treats the next mark as another quantifier
				atom, mark = "(?:"+atom+mark+")", ""
			}
			b.WriteString(atom + mark)
		}
		return b.String()
	}
	for range 3000 {
		pattern := expression(2)
		re, err := Compile(pattern)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := regexp.MustCompile(pattern)
		for range 5 {
			var text strings.Builder
			for range rng.IntN(12) {
				text.WriteString([]string{"a", "b", "c", "1", "é", "日"}[rng.IntN(6)])
			}
			var got [][]int
			re.Scan(text.String(), func(from, to int) { got = append(got, []int{from, to}) })
			// Both leave out an empty match directly after a match.
			if all := want.FindAllStringIndex(text.String(), -1); !slices.EqualFunc(got, all, slices.Equal) {
				t.Fatalf("seed %d: %s on %q: %v, Go's %v", seed, pattern, text.String(), got, all)
			}
		}
	}
}

// TestLinear: these would take minutes if every place read ahead again.
func TestLinear(t *testing.T) {
	const n = 1 << 20
	for _, c := range []struct{ pattern, text string }{
		{`a*b|a`, strings.Repeat("a", n)},
		{`\s+$`, strings.Repeat(" ", n) + "x"},
		{`(?=(\d{3})+(?!\d))`, strings.Repeat("1", n)},
		{`(?:a|aa)+$|a`, strings.Repeat("a", n) + "x"},
		{`[^\n]*\n|.`, strings.Repeat("é", n)},
	} {
		re, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		matches := 0
		re.Scan(c.text, func(int, int) { matches++ })
		t.Logf("%s: %d matches", c.pattern, matches)
	}
}

func TestRefused(t *testing.T) {
	for _, pattern := range []string{`(`, `)`, `[`, `[b-a]`, `*`, `a**{`, `\p{Nonsense}`, `(a)\1`, `(?>a|ab)c`, `(?:ab)++`, `a{5,2}`, `a{2000}`, `\`, "\xff", `(?=a)*`} {
		if _, err := Compile(pattern); pattern != `a**{` && (err == nil || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: error %v", pattern, err)
		}
	}
	if _, err := Compile(strings.Repeat("(?:", 200) + strings.Repeat(")", 200)); err == nil {
		t.Error("deep nesting is taken")
	}
}

func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{`(?i:'s)|\p{L}{1,3}(?!\S)`, `[^\s[a-c]&&\d]+?$`, `(?<=ab)\b(?=(?:\d{3})*)`, `a{,3}b{2,}+`} {
		f.Add(pattern, "a's 123 日")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 60 {
			return
		}
		re, err := Compile(pattern)
		if err != nil {
			return
		}
		var joined strings.Builder
		re.Split(text, func(part string, _ bool) {
			if part == "" {
				t.Error("an empty part")
			}
			joined.WriteString(part)
		})
		if joined.String() != text {
			t.Errorf("%q split by %q loses text", text, pattern)
		}
	})
}
