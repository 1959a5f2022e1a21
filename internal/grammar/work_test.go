package grammar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// worked compiles a schema, or a grammar if it begins with its root, and returns its cost.
func worked(ctx context.Context, text string) (*Grammar, *meter, error) {
	m := newMeter(ctx)
	if strings.HasPrefix(text, "root") {
		rules, _, err := readGBNF(m, text, nil)
		if err != nil {
			return nil, m, err
		}
		g, err := newGrammar(m, rules)
		return g, m, err
	}
	root, err := readSchema(m, []byte(text))
	if err != nil {
		return nil, m, err
	}
	c := &schemas{m: m, root: root, rules: []rule{{name: "#"}}, known: map[string]int32{}, shared: map[string]int32{}, tolerant: true}
	body, err := c.schema(root, "#")
	if err != nil {
		return nil, m, err
	}
	c.rules[0].body = body
	g, err := newGrammar(m, c.rules)
	return g, m, err
}

// joined is n texts with separators between them.
func joined(n int, sep string, text func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = text(i)
	}
	return strings.Join(parts, sep)
}

// grown are schemas and grammars that grow with n, in ways that once took time by its square or worse.
var grown = map[string]func(n int) string{
	"properties": func(n int) string {
		return `{"properties":{` + joined(n, ",", func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + `}}`
	},
	"properties and others": func(n int) string {
		return `{"additionalProperties":true,"properties":{` + joined(n, ",", func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + `}}`
	},
	"required": func(n int) string {
		return `{"required":[` + joined(n, ",", func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `]}`
	},
	"enum": func(n int) string {
		return `{"enum":[` + joined(n, ",", func(i int) string { return fmt.Sprintf(`"value %d"`, i) }) + `]}`
	},
	"enums of both": func(n int) string {
		values := joined(n, ",", func(i int) string { return fmt.Sprint(i) })
		return `{"allOf":[{"enum":[` + values + `]},{"enum":[` + values + `]}]}`
	},
	"const": func(n int) string { return `{"const":"` + strings.Repeat("a", 10*n) + `"}` },
	"const among": func(n int) string {
		return `{"const":"` + strings.Repeat("a", 10*n) + `","enum":["` + strings.Repeat("a", 10*n) + `",` + joined(n, ",", func(i int) string { return fmt.Sprint(i) }) + `]}`
	},
	"anyOf": func(n int) string {
		return `{"anyOf":[` + joined(n, ",", func(i int) string { return fmt.Sprintf(`{"properties":{"k%d":{"const":%d}}}`, i, i) }) + `]}`
	},
	"references": func(n int) string {
		return `{"anyOf":[` + joined(n, ",", func(i int) string { return fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i) }) + `],"$defs":{` +
			joined(n, ",", func(i int) string { return fmt.Sprintf(`"a%d":{"const":%d}`, i, i) }) + `}}`
	},
	"unknown keywords": func(n int) string {
		return `{"type":"object",` + joined(n, ",", func(i int) string { return fmt.Sprintf(`"u%d":1`, i) }) + `}`
	},
	"merged properties": func(n int) string {
		props := func(name string) string {
			return `{"properties":{` + joined(n, ",", func(i int) string { return fmt.Sprintf(`"%s%d":{"type":"null"}`, name, i) }) + `}}`
		}
		return `{"allOf":[` + props("a") + `,` + props("b") + `]}`
	},
	"depth": func(n int) string {
		n /= 20
		return strings.Repeat(`{"items":`, n) + `{"type":"null"}` + strings.Repeat(`}`, n)
	},
	"size in the depth": func(n int) string {
		return strings.Repeat(`{"items":`, 100) + `{"enum":[` + joined(n, ",", func(i int) string { return fmt.Sprint(i) }) + `]}` + strings.Repeat(`}`, 100)
	},
	"long names": func(n int) string {
		return `{"properties":{"` + strings.Repeat("n", n) + `":{"properties":{` + joined(n, ",", func(i int) string { return fmt.Sprintf(`"p%d":{"type":"null"}`, i) }) + `}}}}`
	},
	"a count":            func(n int) string { return fmt.Sprintf(`{"pattern":"^(\\p{L}|\\p{N}){0,%d}$"}`, n/3) },
	"a pattern's length": func(n int) string { return fmt.Sprintf(`{"pattern":"^[a-z]*$","maxLength":%d}`, n) },
	"lengths and items": func(n int) string {
		return fmt.Sprintf(`{"maxLength":%d,"minItems":%d,"minLength":%d}`, 300*n, 200*n, 100*n)
	},
	"classes of Unicode": func(n int) string { return `{"pattern":"^` + strings.Repeat(`\\p{L}`, n/10) + `$"}` },
	"alternatives": func(n int) string {
		return `{"pattern":"^(` + joined(n/3, "|", func(i int) string { return fmt.Sprint("w", i) }) + `)$"}`
	},
	"rules": func(n int) string {
		return "root ::= r0\n" + joined(n, "\n", func(i int) string { return fmt.Sprintf("r%d ::= \"y\" | r%d", i, i+1) }) + fmt.Sprintf("\nr%d ::= \"x\"\n", n)
	},
	"calls to a dead end": func(n int) string {
		return "root ::= \"x\" | (" + joined(n, "|", func(i int) string { return fmt.Sprint("r", i) }) + ") dead\ndead ::= \"x\" dead\n" + joined(n, "\n", func(i int) string { return fmt.Sprintf("r%d ::= \"y\"", i) }) + "\n"
	},
	"empty rules": func(n int) string {
		return "root ::= " + joined(n, " ", func(i int) string { return fmt.Sprint("r", i) }) + "\n" + joined(n, "\n", func(i int) string { return fmt.Sprintf("r%d ::= \"y\"?", i) }) + "\n"
	},
	"optional": func(n int) string { return "root ::= " + strings.Repeat(`"a"? `, n) + "\n" },
	"counts in each other": func(n int) string {
		return "root ::= " + strings.Repeat("(", n/20) + "[^a]" + strings.Repeat("){0,1000000}", n/20) + "\n"
	},
	"classes": func(n int) string { return "root ::= " + strings.Repeat(`[^a-zß-öÀ-Ö一-丁Ѐ-ѐ] `, n) + "\n" },
	"a class": func(n int) string {
		return "root ::= [" + joined(n, "", func(i int) string { return string(rune(0x4e00 + 2*i)) }) + "]\n"
	},
}

// TestWorkGrowsWithTheText: compiling twice as much takes about twice the steps and the memory, according to the meter.
// The meter counts all work: little memory is allocated per step.
func TestWorkGrowsWithTheText(t *testing.T) {
	const n = 1000
	for name, text := range grown {
		_, once, err := worked(t.Context(), text(n))
		if err != nil {
			t.Errorf("%s: %.200v", name, err)
			continue
		}
		long := text(2 * n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, twice, err := worked(t.Context(), long)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Errorf("%s: %.200v", name, err)
			continue
		}
		if float64(twice.steps) > 2.4*float64(once.steps)+20_000 || float64(twice.bytes) > 2.4*float64(once.bytes)+200_000 {
			t.Errorf("%s: %d steps and %d bytes for %d, %d and %d for %d", name, once.steps, once.bytes, n, twice.steps, twice.bytes, 2*n)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 200*uint64(twice.steps)+1<<20 {
			t.Errorf("%s: %d bytes were allocated in %d steps", name, taken, twice.steps)
		}
	}
}

// TestTooMuchIsRefusedByName holds that what multiplies ends at the bounds, with an error that says where.
func TestTooMuchIsRefusedByName(t *testing.T) {
	testenv.Thorough(t)
	doubling := `{"$ref":"#/$defs/a0","$defs":{` + joined(31, ",", func(i int) string {
		return fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1)
	}) + `,"a31":{"type":"object"}}}`
	for name, c := range map[string]struct{ text, want string }{
		"references": {doubling, "#/$defs/a"},
		"oneOf": {`{"oneOf":[` + joined(250, ",", func(i int) string {
			return `{"anyOf":[` + joined(200, ",", func(j int) string { return fmt.Sprintf(`{"const":%d}`, 200*i+j) }) + `]}`
		}) + `]}`, "#/oneOf"},
		"patterns":     {`{"properties":{` + joined(300, ",", func(i int) string { return fmt.Sprintf(`"p%d":{"pattern":"^(\\p{L}|%d){0,990}$"}`, i, 1000+i) }) + `}}`, "#/properties/p"},
		"a long const": {`{"const":"` + strings.Repeat("a", 3<<20) + `"}`, "500000 states"},
		"multiples":    {`{"anyOf":[` + joined(1000, ",", func(i int) string { return fmt.Sprintf(`{"type":"integer","multipleOf":%d}`, i+1) }) + `]}`, "#/anyOf/"},
		"symbols":      {"root ::= " + strings.Repeat("a ", 1_900_000) + "\na ::= \"a\"\n", "line 1, column"},
	} {
		_, m, err := worked(t.Context(), c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "smaller") {
			t.Errorf("%s: %.300v", name, err)
		}
		if m.steps > maxSteps+maxSteps/10 || m.bytes > maxBytes+maxBytes/10 {
			t.Errorf("%s: %d steps, %d bytes", name, m.steps, m.bytes)
		}
	}
	for pattern, want := range map[string]string{
		`^(\\p{L}|\\p{N}|1000){0,990}$`:                "the repetition {0,990}",
		`^(abcdefghijklmnopqrstuvwxyz){0,990}$`:        "the repetition {0,990}",
		`(?i)` + strings.Repeat(`\\p{L}x`, 3000) + `$`: "bytes, more than",
	} {
		_, _, err := FromSchema(t.Context(), []byte(`{"properties":{"p":{"type":"string","pattern":"`+pattern+`"}}}`), false)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "#/properties/p: the pattern") {
			t.Errorf("%.60s: %.300v", pattern, err)
		}
	}
}

// countdown is a context that ends when it was asked a number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestCompilingEndsWithItsContext holds that wherever compiling stands, it ends within a few thousand steps.
func TestCompilingEndsWithItsContext(t *testing.T) {
	for name, text := range grown {
		_, whole, err := worked(t.Context(), text(2000))
		if err != nil {
			t.Fatal(err)
		}
		for asked := 1; whole.steps > (asked+2)*4*breath; asked += 1 + asked/2 {
			_, m, err := worked(&countdown{t.Context(), asked}, text(2000))
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v after %d looks at the context", name, err, asked)
			}
			if most := (asked + 2) * 16 * breath; m.steps > most && m.steps > whole.steps*9/10 {
				t.Errorf("%s: %d steps, %d looks at the context", name, m.steps, asked)
			}
		}
	}
}

// TestMasksEndWithTheirContext holds that following a text ends with the request that it is for, and leaves what others
// need.
func TestMasksEndWithTheirContext(t *testing.T) {
	v := byteVocabulary(t)
	g, err := ParseGBNF(t.Context(), grown["optional"](300))
	if err != nil {
		t.Fatal(err)
	}
	c, err := g.Compile(v)
	if err != nil {
		t.Fatal(err)
	}
	bits := make([]uint32, words(v.Size()))
	ended := c.NewState(&countdown{t.Context(), 0})
	other := c.NewState(t.Context())
	if err := ended.Mask(bits); !errors.Is(err, context.Canceled) {
		t.Errorf("the text of a request that ended goes on: %v", err)
	}
	if err := errors.Join(other.Mask(bits), other.Accept('a'), other.Mask(bits)); err != nil {
		t.Errorf("another text does not: %v", err)
	}
}

// A writer makes up patterns, schemas and grammars.
type writer struct{ r *rand.Rand }

func (w writer) pick(s ...string) string { return s[w.r.IntN(len(s))] }

func (w writer) char() string { return w.pick("a", "b", "c", "1", "0", "é", "λ", "-", " ") }

// pattern returns a regular expression without anchors. Go's regexp understands it, too.
func (w writer) pattern(depth int) string {
	switch k := w.r.IntN(9); {
	case depth == 0 || k == 0:
		return w.char()
	case k == 1:
		return w.pick(`\d`, `\w`, `\p{L}`, `\p{Greek}`, `.`, `[^a]`, `[a-c]`, `[^\d]`, `[é-λ0]`, `[ \t]`, `(?i:B)`)
	case k == 2:
		return "(" + w.pattern(depth-1) + ")" + w.pick("*", "+", "?")
	case k == 3:
		m := w.r.IntN(3)
		return "(" + w.pattern(depth-1) + ")" + w.pick(fmt.Sprintf("{%d}", m+1), fmt.Sprintf("{%d,}", m), fmt.Sprintf("{%d,%d}", m, m+1+w.r.IntN(4)))
	case k == 4:
		return "(" + w.pattern(depth-1) + "|" + w.pattern(depth-1) + ")"
	}
	return "(" + w.pattern(depth-1) + ")" + w.pattern(depth-1)
}

// follow writes a JSON string that the grammar allows and returns what it means, unless it becomes too long.
func (w writer) follow(t *testing.T, c *Compiled) (text string, whole bool) {
	s := c.NewState(t.Context())
	bits := make([]uint32, words(c.vocabulary.Size()))
	var out []byte
	for len(out) < 60 && !s.Done() {
		if err := s.Mask(bits); err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		var may []int32
		for id := range int32(256) {
			if bits[id/32]>>(id%32)&1 != 0 {
				may = append(may, id)
			}
		}
		id := may[w.r.IntN(len(may))]
		if bits['"'/32]>>('"'%32)&1 != 0 && len(out) > 0 && w.r.IntN(3) == 0 {
			id = '"'
		}
		if err := s.Accept(id); err != nil {
			t.Fatal(err)
		}
		out = append(out, byte(id))
	}
	if !s.CanEnd() {
		return "", false
	}
	if err := json.Unmarshal(out, &text); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return text, true
}

// TestPatternsAreThoseOfRegexp compares the automata of patterns, single, with lengths and two at a time, with Go's
// regexp, for random texts.
func TestPatternsAreThoseOfRegexp(t *testing.T) {
	w := writer{rand.New(rand.NewPCG(7, 30))}
	matches, texts, written := 0, 0, 0
	for range 400 {
		var all []string
		for range 1 + w.r.IntN(2) {
			all = append(all, w.pick("^", "", "^", "(^|b)")+w.pattern(4)+w.pick("$", "", "$", "($|a)"))
		}
		least, most := 0, unbounded
		if w.r.IntN(3) == 0 {
			least = w.r.IntN(3)
			most = least + w.r.IntN(5)
		}
		c := &schemas{m: newMeter(t.Context()), rules: []rule{{name: "#"}}, known: map[string]int32{}, shared: map[string]int32{}}
		body, err := c.patternText(all, least, most, "#")
		if errors.Is(err, errPattern) {
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", all, err)
		}
		c.rules[0].body = body
		g, err := newGrammar(c.m, c.rules)
		var compiled *Compiled
		if err == nil { // else it has no text
			if compiled, err = g.Compile(byteVocabulary(t)); err != nil {
				t.Fatal(err)
			}
		}
		var expressions []*regexp.Regexp
		for _, p := range all {
			expressions = append(expressions, regexp.MustCompile(p))
		}
		holds := func(text string) bool {
			n := utf8.RuneCountInString(text)
			return n >= least && (most == unbounded || n <= most) &&
				!slices.ContainsFunc(expressions, func(e *regexp.Regexp) bool { return !e.MatchString(text) })
		}
		for range 10 {
			if compiled == nil {
				break
			}
			text, whole := w.follow(t, compiled)
			if !whole {
				continue
			}
			if written++; !holds(text) {
				t.Fatalf("%q, %d to %d characters: %q is written", all, least, most, text)
			}
		}
		for range 60 {
			var b strings.Builder
			n := w.r.IntN(7)
			for range n {
				b.WriteString(w.pick(w.char(), w.char(), "\n", "B", "\"", "ж", "\U0001F600"))
			}
			text := b.String()
			want := holds(text)
			got := compiled != nil && accepts(compiled, quote(text))
			if texts++; want {
				matches++
			}
			if got != want {
				t.Fatalf("%q, %d to %d characters: %q is allowed: %v, want %v", all, least, most, text, got, want)
			}
		}
	}
	if matches < texts/30 || matches > texts*9/10 || written < 1000 {
		t.Errorf("%d of %d texts match, %d were written: they tell little", matches, texts, written)
	}
}

// schema returns a schema that refers to others of $defs, with large numbers.
func (w writer) schema(depth int) string {
	count := func() int { return []int{0, 1, 3, 100, 5000, 1_000_000}[w.r.IntN(6)] }
	list := func() string {
		return joined(1+w.r.IntN(6), ",", func(int) string { return w.schema(depth - 1) })
	}
	properties := func() string {
		return joined(w.r.IntN(6), ",", func(i int) string { return fmt.Sprintf(`"%s%d":%s`, w.char(), i, w.schema(depth-1)) })
	}
	if depth == 0 {
		return w.pick(`true`, `{"type":"string"}`, `{"const":1}`, `{"type":"integer","minimum":7}`, `{}`)
	}
	switch w.r.IntN(12) {
	case 0:
		return fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, w.r.IntN(4))
	case 1:
		return `{"anyOf":[` + list() + `]}`
	case 2:
		return `{"oneOf":[` + list() + `]}`
	case 3:
		return `{"allOf":[` + list() + `],"properties":{` + properties() + `}}`
	case 4:
		return fmt.Sprintf(`{"items":%s,"minItems":%d,"maxItems":%d}`, w.schema(depth-1), count(), count())
	case 5:
		return fmt.Sprintf(`{"prefixItems":[%s],"items":%s}`, list(), w.schema(depth-1))
	case 6:
		return fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d,"pattern":%q}`, count(), count(), w.pattern(5))
	case 7:
		return fmt.Sprintf(`{"type":"string","pattern":%q}`, "^("+w.pattern(4)+fmt.Sprintf("){0,%d}$", w.r.IntN(1000)))
	case 8:
		return fmt.Sprintf(`{"patternProperties":{%q:%s}}`, w.pattern(4), w.schema(depth-1))
	case 9:
		return fmt.Sprintf(`{"type":"number","minimum":%d.%d,"multipleOf":%d}`, count(), w.r.IntN(100), 1+w.r.IntN(1000))
	}
	return `{"properties":{` + properties() + `},"additionalProperties":` + w.schema(depth-1) + `}`
}

// gbnf returns a grammar with rules that refer to each other.
func (w writer) gbnf() string {
	var part func(depth int) string
	part = func(depth int) string {
		switch k := w.r.IntN(8); {
		case depth == 0 || k == 0:
			return w.pick(`"a"`, `"bc"`, `.`, `[^a]`, `[a-zλ-ω]`, `""`)
		case k < 3:
			return fmt.Sprintf("r%d", w.r.IntN(5))
		case k == 3:
			return "(" + part(depth-1) + ")" + w.pick("*", "+", "?", fmt.Sprintf("{%d,%d}", w.r.IntN(3), 3+w.r.IntN(1_000_000)))
		case k == 4:
			return "(" + part(depth-1) + " | " + part(depth-1) + ")"
		}
		return w.pick(`"x"`, `[0-9]`, ``) + " " + part(depth-1) + " " + part(depth-1)
	}
	return "root ::= r0\n" + joined(5, "\n", func(i int) string { return fmt.Sprintf("r%d ::= %s", i, part(4)) }) + "\n"
}

// TestHostileGrammarsAreBounded compiles schemas and grammars that are made up and follows texts of them: whatever they
// ask for, the bounds hold, and errors say what to do.
func TestHostileGrammarsAreBounded(t *testing.T) {
	testenv.Thorough(t)
	w := writer{rand.New(rand.NewPCG(30, 6))}
	v := byteVocabulary(t)
	bits := make([]uint32, words(v.Size()))
	made := 0
	for i := range 300 {
		text := w.gbnf()
		if i%3 > 0 {
			defs := joined(4, ",", func(i int) string { return fmt.Sprintf(`"d%d":%s`, i, w.schema(3)) })
			text = fmt.Sprintf(`{"allOf":[%s],"$defs":{%s}}`, w.schema(4), defs)
		}
		g, m, err := worked(t.Context(), text)
		if m.steps > maxSteps+maxSteps/10 || m.bytes > maxBytes+maxBytes/10 {
			t.Errorf("%d steps, %d bytes: %.500s", m.steps, m.bytes, text)
		}
		if err != nil {
			continue
		}
		made++
		c, err := g.Compile(v)
		if err != nil {
			t.Fatal(err)
		}
		s := c.NewState(t.Context())
		for range 20 {
			if s.Done() || s.Mask(bits) != nil {
				break
			}
			var may []int32
			for id := range int32(v.Size()) {
				if bits[id/32]>>(id%32)&1 != 0 {
					may = append(may, id)
				}
			}
			if len(may) == 0 || s.Accept(may[w.r.IntN(len(may))]) != nil {
				break
			}
			if c.arena.work > maxWork+maxWork/4 || c.Bytes() > nodeBytes*len(g.a.nodes)+8*arenaBytes {
				t.Errorf("%d pieces of work, %d bytes: %.500s", c.arena.work, c.Bytes(), text)
			}
		}
	}
	if made < 100 {
		t.Errorf("only %d grammars of 300 can be used", made)
	}
}

// TestBytesAreThoseOfTheHeap compares what grammars say that they take with what they take, when they were compiled and
// when texts were followed.
func TestBytesAreThoseOfTheHeap(t *testing.T) {
	w := writer{rand.New(rand.NewPCG(3, 30))}
	v := byteVocabulary(t)
	bits := make([]uint32, words(v.Size()))
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int(s.HeapAlloc)
	}
	before := heap()
	var all []*Compiled
	for i := range 60 {
		text := fmt.Sprintf(`{"properties":{"a%d":{"pattern":"^[a-z]{0,%d}$"},%s}}`, i, 100+i,
			joined(50, ",", func(j int) string { return fmt.Sprintf(`"p%d":{"type":"string","maxLength":%d}`, 100*i+j, 10+j) }))
		g, _, err := worked(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		c := mustCompile(t, g, v)
		all = append(all, c)
		s := c.NewState(t.Context())
		for range 300 {
			if s.Done() || s.Mask(bits) != nil {
				break
			}
			id := int32(w.r.IntN(256))
			for bits[id/32]>>(id%32)&1 == 0 {
				id = (id + 1) % int32(v.Size())
			}
			if err := s.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	taken := heap() - before
	said := 0
	for _, c := range all {
		said += c.Bytes()
	}
	if taken > said*5/4 || taken < said/2 {
		t.Errorf("grammars say that they take %d bytes, and take %d", said, taken)
	}
	runtime.KeepAlive(all)
}
