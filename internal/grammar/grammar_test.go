package grammar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func mustParse(t testing.TB, text string) *Grammar {
	t.Helper()
	g, err := ParseGBNF(t.Context(), text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return g
}

// byteVocabulary has a token for each byte, id = byte, then more tokens, and last the end of text.
func byteVocabulary(t testing.TB, more ...string) *Vocabulary {
	t.Helper()
	var tokens [][]byte
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	for _, m := range more {
		tokens = append(tokens, []byte(m))
	}
	tokens = append(tokens, nil)
	v, err := NewVocabulary(tokens, []int32{int32(len(tokens) - 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustCompile(t testing.TB, g *Grammar, v *Vocabulary) *Compiled {
	t.Helper()
	c, err := g.Compile(v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// accepts reports whether text is a text of the grammar, by its bytes.
func accepts(c *Compiled, text string) bool {
	s := c.NewState(context.Background())
	ok, err := s.advanceText([]byte(text))
	return ok && err == nil && s.CanEnd()
}

// definition decides membership from what expressions mean, without automata: ends are the offsets at which a text of e
// that begins at an offset may end.
type definition struct {
	rules []rule
	text  string
	memo  map[string]map[int]bool
}

func (d *definition) ends(e *expr, at int) map[int]bool {
	key := fmt.Sprintf("%p %d", e, at)
	if m, ok := d.memo[key]; ok {
		return m
	}
	out := map[int]bool{}
	switch e.op {
	case opEmpty:
		out[at] = true
	case opBytes:
		if strings.HasPrefix(d.text[at:], e.text) {
			out[at+len(e.text)] = true
		}
	case opClass:
		r, n := utf8.DecodeRuneInString(d.text[at:])
		for _, x := range e.ranges {
			if n > 0 && x.lo <= r && r <= x.hi && strings.HasPrefix(d.text[at:], string(r)) {
				out[at+n] = true
			}
		}
	case opRule:
		out = d.ends(d.rules[e.index].body, at)
	case opSequence:
		out[at] = true
		for _, s := range e.subs {
			next := map[int]bool{}
			for i := range out {
				for j := range d.ends(s, i) {
					next[j] = true
				}
			}
			out = next
		}
	case opChoice:
		for _, s := range e.subs {
			for j := range d.ends(s, at) {
				out[j] = true
			}
		}
	case opRepeat:
		now := map[int]bool{at: true}
		most := e.max
		if most == unbounded {
			most = e.min + len(d.text) + 1
		}
		for n := 0; n <= most; n++ {
			next := map[int]bool{}
			for i := range now {
				if n >= e.min {
					out[i] = true
				}
				for j := range d.ends(e.subs[0], i) {
					next[j] = true
				}
			}
			now = next
		}
	}
	d.memo[key] = out
	return out
}

// randomRules returns rules without left recursion over the letters a to c and é: rule i begins with a letter or refers
// to later rules only.
func randomRules(rng *rand.Rand) []rule {
	n := 1 + rng.IntN(4)
	var build func(i, depth int, guarded bool) *expr
	build = func(i, depth int, guarded bool) *expr {
		kind := rng.IntN(8)
		if depth == 0 {
			kind = rng.IntN(3)
		}
		switch kind {
		case 0:
			return literal([]string{"a", "b", "ab", "ca", "é"}[rng.IntN(5)])
		case 1:
			return class([]runeRange{{'a', 'b'}, {'c', 'c'}, {0xE0, 0x3FF}}[rng.IntN(3)])
		case 2:
			if guarded {
				return reference(int32(rng.IntN(n)))
			}
			if i+1 < n {
				return reference(int32(i + 1 + rng.IntN(n-i-1)))
			}
			return empty
		case 3, 4:
			head := build(i, depth-1, guarded)
			return sequence(head, build(i, depth-1, guarded || head.op == opBytes || head.op == opClass))
		case 5:
			return choice(build(i, depth-1, guarded), build(i, depth-1, guarded))
		case 6:
			return repeat(build(i, depth-1, guarded), rng.IntN(2), unbounded)
		default:
			least := rng.IntN(3)
			return repeat(build(i, depth-1, guarded), least, least+1+rng.IntN(3))
		}
	}
	rules := make([]rule, n)
	for i := range rules {
		rules[i] = rule{fmt.Sprint("r", i), build(i, 3, false)}
	}
	return rules
}

func TestTextsAreThoseOfTheDefinition(t *testing.T) {
	rng := testenv.Rand(t)
	v := byteVocabulary(t)
	tried, inside := 0, 0
	for range 800 {
		rules := randomRules(rng)
		g, err := newGrammar(newMeter(t.Context()), rules)
		if err != nil {
			continue // recursive without an end
		}
		c := mustCompile(t, g, v)
		for range 20 {
			var b strings.Builder
			for range rng.IntN(7) {
				b.WriteString([]string{"a", "b", "c", "é", "\xc3"}[min(rng.IntN(20)/4, 4)])
			}
			d := &definition{rules: rules, text: b.String(), memo: map[string]map[int]bool{}}
			want := d.ends(rules[0].body, 0)[len(d.text)]
			if got := accepts(c, d.text); got != want {
				t.Fatalf("text %q: accepted %v, want %v", d.text, got, want)
			}
			tried++
			if want {
				inside++
			}
		}
	}
	if inside < tried/50 {
		t.Errorf("only %d of %d texts belonged to their grammars", inside, tried)
	}
}

// bruteForce checks the state's mask by trying each token. It returns the allowed ones, or nothing if the grammar is
// too ambiguous.
func bruteForce(t *testing.T, s *State) []int32 {
	t.Helper()
	v := s.c.vocabulary
	bits := make([]uint32, words(v.size))
	if err := s.Mask(bits); errors.Is(err, errAmbiguous) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	var allowed []int32
	for id := range int32(v.size) {
		got := bits[id>>5]>>(id&31)&1 != 0
		want := s.CanEnd()
		if !v.isEnd[id] {
			ok, err := s.Clone().advanceText(v.pieces[id])
			if errors.Is(err, errAmbiguous) {
				return nil
			}
			want = ok && len(v.pieces[id]) > 0
		}
		if got != want {
			t.Fatalf("token %q: allowed %v, want %v", v.pieces[id], got, want)
		}
		if got {
			allowed = append(allowed, id)
		}
	}
	return allowed
}

func TestMaskIsBruteForce(t *testing.T) {
	rng := testenv.Rand(t)
	v := byteVocabulary(t, "ab", "abc", "aa", "bb", "ca", "cab", "abcabc", "aé", "é", "\xc3", "\xa9a", "éa", "bbbb", "cc", "aaaaaaaa", "ab", "acb")
	checked, ambiguous := 0, 0
	for range 120 {
		g, err := newGrammar(newMeter(t.Context()), randomRules(rng))
		if err != nil {
			continue
		}
		c := mustCompile(t, g, v)
		for range 3 {
			s := c.NewState(t.Context())
			for range 12 {
				allowed := bruteForce(t, s)
				if len(allowed) == 0 {
					ambiguous++
					break
				}
				checked++
				id := allowed[rng.IntN(len(allowed))]
				if err := s.Accept(id); err != nil {
					t.Fatal(err)
				}
				if s.ended {
					break
				}
			}
		}
	}
	if checked < 20*ambiguous {
		t.Errorf("%d masks were checked, %d times a grammar was too ambiguous", checked, ambiguous)
	}
}
