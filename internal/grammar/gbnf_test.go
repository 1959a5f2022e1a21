package grammar

import (
	"errors"
	"strings"
	"testing"
)

// examples are grammars as people write them, with texts inside and outside.
var examples = []struct {
	name, text string
	yes, no    []string
}{
	{
		"arithmetic", `
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] ws term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
`,
		[]string{"1=1\n", "a + (b*2) - 7 = x1\n3=3\n", "((((1))))=2\n"},
		[]string{"", "1=1", "1+=2\n", "(1=1\n", "A=1\n"},
	},
	{
		"chess", `
# moves in pairs, numbered
root ::= (
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")*   # more of them
)
move    ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn    ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle  ::= "O-O" "-O"?
`,
		[]string{"1. e4 e5\n", "1. e4 e5\n2. Nf3 Nc6\n10. O-O O-O-O+\n", "1. exd5 b8=Q#\n"},
		[]string{"1. e4\n", "1. e9 e5\n", "2. e4 e5\n", "1. e4 e5"},
	},
	{
		"C-like", `
root       ::= (declaration)*
declaration ::= type identifier "(" parameter? ")" "{" statement* "}"
type       ::= ("int" | "float" | "char") " "
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter  ::= type identifier
statement  ::= type identifier " = " expression ";" |
               identifier " = " expression ";" |
               "return " expression ";" |
               "while(" condition "){" statement* "}" |
               "if(" condition "){" statement* "}" ("else{" statement* "}")?
condition  ::= expression ("==" | "<" | ">") expression
expression ::= term (("+" | "-") term)*
term       ::= factor (("*" | "/") factor)*
factor     ::= identifier | number | "(" expression ")" | identifier "(" (expression ("," expression)*)? ")"
number     ::= [0-9]+
`,
		[]string{"", "int f(int x){return x*2+1;}", "float g(){while(a<b){int c = f(1,2);}if(a==b){}else{a = (1);}}"},
		[]string{"int f(){return}", "int f(){", "f(){}"},
	},
	{"list", "root ::= (\"- \" item)+\nitem ::= [^\\n]+ \"\\n\"", []string{"- a\n", "- a\n- bé\n"}, []string{"", "-\n", "- a", "- \n"}},
	{"escapes", `root ::= "\x41é\U0001F600\t\"\\" [\]\-^\x30]`, []string{"Aé😀\t\"\\]", "Aé😀\t\"\\-", "Aé😀\t\"\\0"}, []string{"Aé😀\t\"\\1"}},
	{"counts", `root ::= "a"{2} "b"{1,} "c"{0,3} "d"{2,3}`, []string{"aabdd", "aabbbcccddd"}, []string{"abdd", "aadd", "aabccccdd", "aabd", "aabdddd"}},
	{"literals repeat whole", `root ::= "ab"*`, []string{"", "ab", "abab"}, []string{"a", "abb"}},
	{"any character", `root ::= .{2}`, []string{"ab", "é\n", "😀😀"}, []string{"a", "abc", "\xff\xff"}},
	{"not", `root ::= [^a-cé]+`, []string{"d", "ê😀"}, []string{"a", "é", "db", "\xc3"}},
	{"empty alternative", "root ::= \"a\" ( | \"b\") |\n \"c\"", []string{"a", "ab", "c"}, []string{"", "b"}},
	{"empty in repetitions", `root ::= ("a"? "b"?)* "c"{0,2}{3}`, []string{"", "abba", "cccccc"}, []string{"ccccccc"}},
	{"recursion at the end", `root ::= "a" root | "b"`, []string{"b", "aaab"}, []string{"a", "ba"}},
	{"recursion inside", `root ::= "(" root ")" | "x"`, []string{"x", "((x))"}, []string{"((x)", "x)"}},
	{"large counts", `root ::= ("a"{0,1000000} "b"){1,1000000}`, []string{"b", "aaabab"}, []string{"a", ""}},
}

func TestExamples(t *testing.T) {
	v := byteVocabulary(t)
	for _, e := range examples {
		c := mustCompile(t, mustParse(t, e.text), v)
		for _, text := range e.yes {
			if !accepts(c, text) {
				t.Errorf("%s: %q is refused", e.name, text)
			}
		}
		for _, text := range e.no {
			if accepts(c, text) {
				t.Errorf("%s: %q is accepted", e.name, text)
			}
		}
	}
}

func TestGBNFErrorsSayWhere(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{"root ::= x", `line 1, column 10: rule x is used but not defined`},
		{"a ::= \"a\"", `line 1, column 10: there is no rule named root`},
		{"root ::= \"é\" ?+ ~", `line 1, column 17: '~' is neither a symbol nor the end of rule root`},
		{"root ::= \"a\"\nroot ::= \"b\"", `line 2, column 1: rule root is defined twice`},
		{"root ::= \"a", `line 1, column 10: this string is never closed`},
		{"root ::= [a", `line 1, column 10: this class is never closed`},
		{"root ::= (\"a\"\n\"b\"", `line 1, column 10: this ( is never closed`},
		{"root ::= [z-a]", `line 1, column 11: the range from 'z' to 'a' is reversed`},
		{"root ::= []", `line 1, column 10: the class has no characters`},
		{"root ::= \"\\q\"", `line 1, column 11: an unknown escape`},
		{"root ::= \"\\uD800\"", `line 1, column 11: U+D800 is no character`},
		{"root ::= \"\\xZ1\"", `line 1, column 11: the escape takes 2 hexadecimal digits`},
		{"root ::= *", `line 1, column 10: '*' repeats nothing`},
		{"root ::= \"a\"{3,2}", `line 1, column 13: the repetition ends before it begins`},
		{"root ::= \"a\"{1000001}", `line 1, column 14: 1000001 times are more than 1000000`},
		{"root ::= \"a\"{x}", `line 1, column 14: a number of times belongs here, not 'x'`},
		{"root = \"a\"", `line 1, column 6: ::= belongs after the name root, not '='`},
		{"\n  # comment\n  \"a\"", `line 3, column 3: a rule's name belongs here`},
		{"root ::= <[12x]>", `line 1, column 10: <[12x]> is no token's number`},
		{"root ::= !\"a\"", `line 1, column 11: a token belongs after !`},
		{"root ::= " + strings.Repeat("(", 300), `line 1, column 210: groups are nested more than 200 deep`},
		{"root ::= \"a\" | root \"b\"", `left recursion: root → root begins with itself`},
		{"root ::= a\na ::= b? c\nb ::= \"b\"\nc ::= a | \"c\"", `left recursion: a → c → a begins with itself`},
		{"root ::= (root)* \"a\"", `left recursion: root → root`},
		{"root ::= \"a\" root", `no text is complete by the grammar`},
	} {
		_, err := ParseGBNF(t.Context(), c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
		var syntax *SyntaxError
		if strings.HasPrefix(c.want, "line") && !errors.As(err, &syntax) {
			t.Errorf("%q: error of type %T", c.text, err)
		}
	}
}

func TestTokenLiterals(t *testing.T) {
	tokens := [][]byte{[]byte("a"), []byte("b"), nil, nil, nil}
	v, err := NewVocabulary(tokens, []int32{4}, map[string]int32{"<think>": 2, "</think>": 3})
	if err != nil {
		t.Fatal(err)
	}
	c := mustCompile(t, mustParse(t, `root ::= <think> !</think>* <[3]> "a"+`), v)
	s := c.NewState(t.Context())
	for i, want := range []string{"2", "0 1 2 3", "0 1 2 3", "0 1 2 3", "0", "0 4"} {
		var got []string
		bits := make([]uint32, 1)
		if err := s.Mask(bits); err != nil {
			t.Fatal(err)
		}
		for id := range 5 {
			if bits[0]>>id&1 != 0 {
				got = append(got, string(rune('0'+id)))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("step %d: tokens %v are allowed, want %s", i, got, want)
		}
		if i < 5 {
			if err := s.Accept([]int32{2, 1, 2, 3, 0}[i]); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
	}
	if err := s.Accept(3); err == nil {
		t.Error("</think> is accepted at the end")
	}
	if _, err := mustParse(t, `root ::= <other>`).Compile(v); err == nil || !strings.Contains(err.Error(), "<other>") {
		t.Errorf("an unknown token: error %v", err)
	}
}

func TestLazyGrammarBeginsAtItsTrigger(t *testing.T) {
	v := byteVocabulary(t, "x<c", "all>1", "all>z", "<call>")
	c := mustCompile(t, mustParse(t, `root ::= "<call>" [0-9]+ "!"`), v)
	push := func(s *State, pieces ...string) {
		t.Helper()
		for _, p := range pieces {
			if err := s.Accept(v.Find(p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := c.NewLazyState(t.Context(), Triggers{Words: []string{"<call>"}})
	push(s, "z", "x<c")
	if err := s.Clone().Accept(v.Find("q")); err != nil {
		t.Error("before the trigger everything may come:", err)
	}
	push(s, "all>1")
	if err := s.Accept(v.Find("q")); err == nil {
		t.Error("after the trigger the grammar does not hold")
	}
	push(s, "2", "!")
	if !s.Done() {
		t.Error("the text is complete")
	}
	s = c.NewLazyState(t.Context(), Triggers{Words: []string{"<call>"}})
	push(s, "x<c", "all>z", "q", "<call>", "7", "!") // the first was only text
	if !s.Done() {
		t.Error("the second trigger began no grammar")
	}
	s = c.NewLazyState(t.Context(), Triggers{Tokens: []int32{v.Find("<call>")}})
	push(s, "x<c", "all>1", "<call>", "7", "!")
	if !s.Done() {
		t.Error("the token began no grammar")
	}
}

// A full arena is dropped, and states of the old one go on in the new one.
func TestStatesOutliveTheirArena(t *testing.T) {
	v := byteVocabulary(t, "((", "))")
	c := mustCompile(t, mustParse(t, `root ::= "(" root ")" | "x"`), v)
	s := c.NewState(t.Context())
	for i := range 200 {
		if i%7 == 0 {
			c.arena.bytes = arenaBytes + 1
		}
		if err := s.Accept('('); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Accept('x'); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if i%7 == 0 {
			c.arena.bytes = arenaBytes + 1
		}
		if s.Done() {
			t.Fatal("done too early")
		}
		bruteForce(t, s)
		if err := s.Accept(')'); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Done() {
		t.Error("not done")
	}
}

// Texts nest so deeply and no deeper.
func TestDepthIsBounded(t *testing.T) {
	c := mustCompile(t, mustParse(t, `root ::= "(" root ")" | "x"`), byteVocabulary(t, "(("))
	s := c.NewState(t.Context())
	n := 0
	for ; s.Accept('(') == nil; n++ {
		if n > 2*maxDepth {
			t.Fatal("no bound")
		}
	}
	if allowed := bruteForce(t, s); len(allowed) != 1 || allowed[0] != 'x' {
		t.Errorf("tokens %v are allowed, want x", allowed)
	}
}

func FuzzParseGBNF(f *testing.F) {
	for _, e := range examples {
		f.Add(e.text)
	}
	v := byteVocabulary(f)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGBNF(t.Context(), text)
		if err != nil {
			return
		}
		c, err := g.Compile(v)
		if err != nil {
			return
		}
		s := c.NewState(t.Context())
		bits := make([]uint32, words(v.size))
		for range 4 {
			if s.Mask(bits) != nil {
				return
			}
			for id := range int32(v.size) {
				if bits[id>>5]>>(id&31)&1 != 0 {
					if err := s.Accept(id); err != nil && !errors.Is(err, errAmbiguous) {
						t.Fatal(err)
					}
					break
				}
			}
		}
	})
}
