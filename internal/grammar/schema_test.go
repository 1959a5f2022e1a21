package grammar

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// schemaCases are schemas with instances in the form that is generated, and others that are not valid. The library
// checks both.
var schemaCases = []struct {
	schema  string
	valid   []string
	invalid []string
}{
	{`{}`, []string{`1`, `"a"`, `null`, `[1, {"a":[]}]`, `{}`, `-1.5e3`, `"\ud83d\ude00"`}, []string{`01`, `[1,]`, `{"a"}`, `"\ud83d"`, `+1`, `.5`, "\"\n\""}},
	{`true`, []string{`[]`}, nil},
	{`{"type":"null"}`, []string{`null`}, []string{`0`, `nul`}},
	{`{"type":["string","null"]}`, []string{`null`, `""`}, []string{`0`}},
	{`{"type":"boolean"}`, []string{`true`, `false`}, []string{`"true"`}},
	{`{"enum":["a",1,null,{"b":[1,2]},"\"\n"]}`, []string{`"a"`, `1`, `null`, `{"b":[1,2]}`, `"\"\n"`}, []string{`"b"`, `2`}},
	{`{"enum":[{"a":[1,2],"b":{}}]}`, []string{`{"a":[1,2],"b":{}}`, `{"a": [1, 2], "b": {}}`}, []string{`{"a":[1,2]}`}},
	{`{"type":"string","anyOf":[{"const":1},{"const":"a"}]}`, []string{`"a"`}, []string{`1`}},
	{`{"const":"a","anyOf":[{"const":"a"},{"const":"b"}]}`, []string{`"a"`}, []string{`"b"`}},
	{`{"type":"string","enum":["a",1]}`, []string{`"a"`}, []string{`1`}},
	{`{"const":{"a":1.5}}`, []string{`{"a":1.5}`}, []string{`{"a":1}`}},
	{`{"type":"integer"}`, []string{`0`, `-7`, `123456789012345678`}, []string{`1.5`, `-`, `00`, `"1"`}},
	{`{"type":"integer","minimum":-3,"maximum":12}`, []string{`-3`, `-1`, `0`, `9`, `10`, `12`}, []string{`-4`, `13`, `-10`, `120`}},
	{`{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":100.5}`, []string{`1`, `99`, `100`}, []string{`0`, `101`, `-1`}},
	{`{"type":"integer","minimum":105}`, []string{`105`, `110`, `999`, `100000000`}, []string{`104`, `99`, `-105`}},
	{`{"type":"integer","maximum":-105}`, []string{`-105`, `-106`, `-1000`}, []string{`-104`, `0`, `105`}},
	{`{"type":"integer","minimum":0.5,"maximum":2300}`, []string{`1`, `2299`, `2300`, `999`}, []string{`0`, `2301`, `3000`}},
	{`{"type":"integer","multipleOf":7}`, []string{`0`, `7`, `-14`, `700`, `20091670176973402`}, []string{`8`, `-1`, `20091670176973400`}},
	{`{"type":"integer","minimum":-7,"maximum":20,"multipleOf":5}`, []string{`-5`, `0`, `20`}, []string{`-10`, `7`, `25`}},
	{`{"type":"integer","minimum":0,"multipleOf":5}`, []string{`0`, `5`, `1000`}, []string{`-5`, `7`}},
	{`{"type":"integer","exclusiveMinimum":0,"multipleOf":5}`, []string{`5`, `10`}, []string{`0`, `-5`, `7`}},
	{`{"type":"number"}`, []string{`0`, `-1.25`, `1e10`, `1.5E-3`}, []string{`1.`, `e1`}},
	{`{"type":"number","minimum":0.25,"exclusiveMaximum":1.5}`, []string{`0.25`, `0.3`, `1`, `1.49999`, `1.0`, `0.250`}, []string{`0.24`, `1.5`, `1.50`, `2`, `0`, `-1`, `0.2`}},
	{`{"type":"number","minimum":-1.5,"maximum":20}`, []string{`-1.5`, `-1.49`, `-0.0`, `0`, `19.99`, `20`, `20.0`}, []string{`-1.51`, `-2`, `20.01`, `21`, `200`}},
	{`{"type":"number","exclusiveMinimum":0}`, []string{`0.1`, `1`, `100.5`}, []string{`0`, `-1`, `0.0`}},
	{`{"type":"number","maximum":-0.5}`, []string{`-0.5`, `-0.51`, `-3`, `-10.25`}, []string{`-0.4`, `0`, `1`}},
	{`{"type":"number","multipleOf":0.01}`, []string{`1`, `1.5`, `1.25`, `0.07`}, []string{`1.255`}},
	{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"äöü"`, `"\n\\"`, `"\u00e9a"`}, []string{`"a"`, `"abcd"`, `""`}},
	{`{"type":"string","pattern":"^[a-c]+\\d?$"}`, []string{`"a"`, `"abc1"`}, []string{`""`, `"d"`, `"a11"`, `"1"`}},
	{`{"type":"string","pattern":"ab|^x|y$"}`, []string{`"zabz"`, `"xq"`, `"qy"`, `"ab"`}, []string{`"ba"`, `"ax"`, `"ya"`}},
	{`{"type":"string","pattern":"^a*$","minLength":2,"maxLength":4}`, []string{`"aa"`, `"aaaa"`}, []string{`"a"`, `"aaaaa"`, `"ab"`}},
	{`{"allOf":[{"type":"string","pattern":"a"},{"pattern":"b"}]}`, []string{`"ab"`, `"ba"`, `"xbxax"`}, []string{`"a"`, `"b"`}},
	{`{"type":"array"}`, []string{`[]`, `[1,"a",[]]`}, []string{`[,]`, `{}`}},
	{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3}`, []string{`[1]`, `[1,2, 3]`}, []string{`[]`, `[1,2,3,4]`, `["a"]`}},
	{`{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":1}`, []string{`[1]`, `[1,"a"]`}, []string{`[]`, `["a"]`, `[1,"a",2]`}},
	{`{"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":2,"maxItems":3}`, []string{`[1,null]`, `[1,null,null]`}, []string{`[1]`, `[1,1]`, `[1,null,null,null]`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"integer"},{"type":"string"}],"minItems":2}`, []string{`[1,"a"]`}, []string{`[1]`, `["a",1]`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"integer"}],"additionalItems":{"type":"null"}}`, []string{`[]`, `[1]`, `[1,null,null]`}, []string{`[null]`, `[1,1]`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"type":"integer"}],"minItems":2,"maxItems":2}`, []string{`[1,"a"]`, `[1,[]]`}, []string{`[1]`, `["a",1]`, `[1,2,3]`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":{"type":"integer"},"additionalItems":false}`, []string{`[]`, `[1,2]`}, []string{`["a"]`}},
	{`{"allOf":[{"prefixItems":[{"type":"integer"}],"items":false},{"prefixItems":[{"type":"integer"}],"items":false,"minItems":1}]}`, []string{`[1]`}, []string{`[]`, `[1,2]`}},
	{`{"type":"array","maxItems":0}`, []string{`[]`}, []string{`[1]`}},
	{
		`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{}},"required":["b"]}`,
		[]string{`{"a":1,"b":"x"}`, `{"b":"x"}`, `{"b": "x", "c":[]}`, `{"a":1,"b":"","c":null}`},
		[]string{`{}`, `{"a":1}`, `{"a":"x","b":"x"}`},
	},
	{`{"type":"object","properties":{"a":{},"b":{}}}`, []string{`{}`, `{"a":1}`, `{"b":1}`, `{"a":1,"b":2}`}, []string{`{,"a":1}`, `{"a":1,}`}},
	{
		`{"type":"object","properties":{"a":{"type":"integer"},"ab":{"type":"integer"}},"additionalProperties":{"type":"string"}}`,
		[]string{`{"a":1}`, `{"b":"x"}`, `{"a":1,"abc":"y","":"z"}`, `{"ab":2,"é":"","b":"q"}`},
		[]string{`{"a":"x"}`, `{"ab":"x"}`, `{"b":1}`},
	},
	{`{"type":"object","properties":{"a":{}},"additionalProperties":false}`, []string{`{}`, `{"a":1}`}, []string{`{"b":1}`}},
	{`{"type":"object","additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":2}`, []string{`{"x":1}`, `{"x":1,"y":2}`}, []string{`{}`, `{"x":1,"y":2,"z":3}`, `{"x":"a"}`}},
	{`{"type":"object","propertyNames":{"pattern":"^[a-z]$"},"additionalProperties":{"type":"null"}}`, []string{`{}`, `{"a":null}`}, []string{`{"A":null}`, `{"aa":null}`}},
	{`{"type":"object","propertyNames":false}`, []string{`{}`}, []string{`{"a":1}`}},
	{`{"type":"object","required":["a"]}`, []string{`{"a":1}`, `{"a":1,"b":2}`}, []string{`{}`, `{"b":2}`}},
	{`{"type":"object","patternProperties":{"^x-":{"type":"integer"}},"additionalProperties":false}`, []string{`{}`, `{"x-a":1,"x-":2}`}, []string{`{"a":1}`, `{"x-a":"1"}`}},
	{`{"type":"object","required":["q"],"additionalProperties":{"type":"integer"}}`, []string{`{"q":1}`, `{"q":1,"r":2}`}, []string{`{}`, `{"q":"a"}`}},
	{`{"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]}`, []string{`1`, `"a"`}, []string{`"ab"`, `null`}},
	{
		`{"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"x":{"type":"integer"}},"required":["t","x"]},{"type":"object","properties":{"t":{"const":"b"}},"required":["t"]}]}`,
		[]string{`{"t":"a","x":1}`, `{"t":"b"}`},
		[]string{`{"t":"a"}`, `{"t":"c"}`},
	},
	{
		`{"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["b"]}]}`,
		[]string{`{"a":1}`, `{"a":1,"b":null}`, `{"b":null}`},
		[]string{`{}`, `{"b":1}`},
	},
	{
		`{"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"minimum":3},"b":{"type":"string"}}}]}`,
		[]string{`{"a":3}`, `{"a":4,"b":"x"}`},
		[]string{`{"a":2}`, `{"b":"x"}`},
	},
	{`{"allOf":[{"type":["integer","string"]},{"type":"number"}],"minimum":1,"maximum":3}`, []string{`1`, `3`}, []string{`"a"`, `0`, `1.5`}},
	{
		`{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}}`,
		[]string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":null}}`},
		[]string{`{"v":1}`, `{"v":1,"next":{}}`},
	},
	{`{"type":"array","items":{"$ref":"#"}}`, []string{`[]`, `[[],[[]]]`}, []string{`[1]`}},
	{`{"definitions":{"a/b[é]":{"type":"null"}},"type":"object","properties":{"x":{"$ref":"#/definitions/a~1b%5B%C3%A9%5D","description":"d"}},"required":["x"]}`, []string{`{"x":null}`}, []string{`{"x":1}`}},
	{`{"type":"object","properties":{"é\"\\\n":{"type":"null"}},"required":["é\"\\\n"]}`, []string{`{"é\"\\\n":null}`}, []string{`{}`}},
}

// validator decides whether texts are valid. It has the library do so, but divides on its own: the library divides in
// floating point, which is wrong for 0.01 and for numbers beyond 2^53.
type validator struct {
	library    *jsonschema.Resolved
	multipleOf *big.Rat // of the whole text, when it is a number; nil: anything
}

func validatorOf(t testing.TB, schema string) validator {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	var v validator
	if s.MultipleOf != nil {
		v.multipleOf, _ = new(big.Rat).SetString(strconv.FormatFloat(*s.MultipleOf, 'g', -1, 64))
		s.MultipleOf = nil
	}
	var err error
	if v.library, err = s.Resolve(nil); err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return v
}

// check returns an error unless text is JSON that is valid.
func (v validator) check(text string) error {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	if _, number := value.(float64); number && v.multipleOf != nil {
		if n, _ := new(big.Rat).SetString(text); !n.Quo(n, v.multipleOf).IsInt() {
			return fmt.Errorf("%s is not a multiple of %s", text, v.multipleOf.RatString())
		}
	}
	return v.library.Validate(value)
}

func fromSchema(t testing.TB, schema string, v *Vocabulary) *Compiled {
	t.Helper()
	g, _, err := FromSchema(t.Context(), []byte(schema), false)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	c, err := g.Compile(v)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSchemas(t *testing.T) {
	v := byteVocabulary(t)
	for _, k := range schemaCases {
		c, r := fromSchema(t, k.schema, v), validatorOf(t, k.schema)
		for _, text := range k.valid {
			if err := r.check(text); err != nil {
				t.Errorf("the case is wrong: %s: %s: %v", k.schema, text, err)
			}
			if !accepts(c, text) {
				t.Errorf("%s: %s is refused", k.schema, text)
			}
		}
		for _, text := range k.invalid {
			if r.check(text) == nil && !strings.Contains(text, `\ud83d`) { // the library is lenient with half pairs
				t.Errorf("the case is wrong: %s: %s is valid", k.schema, text)
			}
			if accepts(c, text) {
				t.Errorf("%s: %s is accepted", k.schema, text)
			}
		}
	}
}

// randomText draws tokens from the masks until the text ends or is long, then prefers what ends it soonest.
func randomText(t testing.TB, c *Compiled, rng *rand.Rand) (string, bool) {
	s := c.NewState(t.Context())
	var b strings.Builder
	v := c.vocabulary
	bits := make([]uint32, words(v.size))
	for n := range 1000 {
		if err := s.Mask(bits); err != nil {
			t.Fatalf("after %q: %v", b.String(), err)
		}
		var allowed []int32
		for id := range int32(v.size) {
			if bits[id>>5]>>(id&31)&1 != 0 {
				allowed = append(allowed, id)
			}
		}
		id := allowed[rng.IntN(len(allowed))]
		if n > 60 { // closing brackets and quotes, and the end, come before all others
			for _, a := range allowed {
				if v.isEnd[a] || len(v.pieces[a]) == 1 && strings.IndexByte(`"]}`, v.pieces[a][0]) >= 0 {
					id = a
				}
			}
		}
		if err := s.Accept(id); err != nil {
			t.Fatalf("after %q: %v", b.String(), err)
		}
		if v.isEnd[id] {
			return b.String(), true
		}
		b.Write(v.pieces[id])
	}
	return b.String(), false
}

func TestWhatIsGeneratedIsValid(t *testing.T) {
	rng := testenv.Rand(t)
	v := byteVocabulary(t, `{"`, `":`, `", "`, `","`, `"}`, `[]`, `null`, `true`, `é`, `\"`, `, `, `1.`, `00`, `ab`, `},{`)
	ended, all := 0, 0
	for _, k := range schemaCases {
		c, r := fromSchema(t, k.schema, v), validatorOf(t, k.schema)
		for range 6 {
			text, ok := randomText(t, c, rng)
			all++
			if !ok {
				continue
			}
			ended++
			if err := r.check(text); err != nil {
				t.Errorf("%s: %s: %v", k.schema, text, err)
			}
		}
	}
	if ended < all*8/10 {
		t.Errorf("only %d of %d texts ended", ended, all)
	}
}

func TestFormats(t *testing.T) {
	v := byteVocabulary(t)
	for format, k := range map[string][2][]string{
		"date":          {{"2024-02-29", "1999-12-31", "2000-02-29"}, {"2023-02-29", "2024-13-01", "2024-04-31", "1900-02-29"}},
		"time":          {{"23:59:59Z", "00:00:00.5+01:00"}, {"24:00:00Z", "12:00:00"}},
		"date-time":     {{"2024-02-29T12:00:00Z"}, {"2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z"}},
		"duration":      {{"P1Y2M3DT4H5M6S", "PT5M", "P3W"}, {"P", "1Y", "PT"}},
		"uuid":          {{"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567e89b12d3a456426614174000"}},
		"uuid4":         {{"123e4567-e89b-42d3-a456-426614174000"}, {"123e4567-e89b-12d3-a456-426614174000"}},
		"ipv4":          {{"0.0.0.0", "255.1.20.199"}, {"256.1.1.1", "1.1.1", "01.1.1.1"}},
		"ipv6":          {{"::", "::1", "2001:db8::1", "1:2:3:4:5:6:7:8"}, {"1:2:3", "1::2::3", "12345::"}},
		"hostname":      {{"a", "example.com", "a-b.c"}, {"-a", "a..b", ""}},
		"email":         {{"a@b.c", "x.y+z@example.com"}, {"a", "@b", "a@", "a b@c"}},
		"uri":           {{"https://example.com/a?b=c#d", "mailto:a@b.c", "file:///etc"}, {"example.com", "http://[", "a b:c"}},
		"uri-reference": {{"/a/b", "https://a.b", "", "a/b?c", "#x"}, {"a b", "1:2"}},
		"json-pointer":  {{"", "/a/~0b~1"}, {"a", "/~2"}},
	} {
		c := fromSchema(t, fmt.Sprintf(`{"type":"string","format":%q}`, format), v)
		for _, text := range k[0] {
			if !accepts(c, quote(text)) {
				t.Errorf("%s: %s is refused", format, text)
			}
		}
		for _, text := range k[1] {
			if accepts(c, quote(text)) {
				t.Errorf("%s: %s is accepted", format, text)
			}
		}
	}
}

// What ECMAScript's RegExp says of a character: the library reads patterns as Go does.
func TestPatternsOfECMAScript(t *testing.T) {
	v := byteVocabulary(t)
	for _, k := range []struct{ pattern, yes, no string }{
		{`^"\u00e9\/\u{41}\ud83d\ude00$`, `"é/A😀`, `é/A😀`},
		{`^\s$`, "\u00a0", "a"},
		{`^\s$`, "\v", "\u180e"},
		{`^\S$`, "\u200b", "\u3000"},
		{`^[^\s]$`, "a", "\ufeff"},
		{`^[\Sx]$`, "\u2060", "\v"},
		{`^.$`, "\v", "\r"},
		{`^.$`, "\u0085", "\u2028"},
		{`^[^]$`, "\n", "]" + "]"},
		{`^[^][\]a]$`, "xa", "a"},
		{`^(a|[]b)$`, "a", "]"},
		{`^[a[]$`, "[", "]"},
		{`^\p{Script=Greek}\p{gc=Lu}$`, "αA", "aA"},
	} {
		c := fromSchema(t, `{"type":"string","pattern":`+quote(k.pattern)+`}`, v)
		if !accepts(c, quote(k.yes)) {
			t.Errorf("%s: %q is refused", k.pattern, k.yes)
		}
		if accepts(c, quote(k.no)) {
			t.Errorf("%s: %q is accepted", k.pattern, k.no)
		}
	}
}

func TestSchemasNotSupportedAreNamed(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"a":{"not":{"type":"null"}}}}`:                         `#/properties/a: the keyword not is not supported`,
		`{"if":{},"then":{}}`:                                                  `#: the keyword if is not supported`,
		`{"uniqueItems":true}`:                                                 `the keyword uniqueItems`,
		`{"frob":1}`:                                                           `the keyword frob`,
		`{"type":"strin"}`:                                                     `"strin" is no type`,
		`{"$ref":"http://x/y"}`:                                                `$ref "http://x/y" is not supported`,
		`{"$ref":"#/$defs/a"}`:                                                 `names nothing: there is no "$defs"`,
		`{"$ref":"#"}`:                                                         `left recursion`,
		`{"type":"string","format":"iri"}`:                                     `the format "iri" is not supported`,
		`{"type":"string","pattern":"(?=a)"}`:                                  `the pattern "(?=a)" is not supported`,
		`{"type":"string","pattern":"\\bfoo"}`:                                 `word boundary`,
		`{"type":"string","pattern":"^([ab]*a[ab]{20})$"}`:                     `too large an automaton`,
		`{"type":"string","minLength":3,"maxLength":2}`:                        `minLength 3 is more than maxLength 2`,
		`{"type":"string","maxLength":1e9}`:                                    `1e9 is more than 1000000`,
		`{"type":"number","multipleOf":0.3}`:                                   `multipleOf 0.3`,
		`{"type":"integer","minimum":3,"maximum":2}`:                           `the minimum is more than the maximum`,
		`{"oneOf":[{"type":"integer"},{"type":"number"}]}`:                     `number 0 and number 1`,
		`{"type":"object","properties":{"a":{}},"patternProperties":{"b":{}}}`: `patternProperties is supported only`,
		`{"properties":{"ab":{}},"propertyNames":{"maxLength":1}}`:             `propertyNames beside properties`,
		`{"type":"object","required":["a"],"additionalProperties":false}`:      `"a" is required, but neither`,
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`:   `no text is complete`,
		`{"prefixItems":[{}],"items":[{}]}`:                                    `exclude each other`,
		`{"allOf":[{"prefixItems":[{}]},{"items":{"type":"integer"}}]}`:        `lists of items that differ`,
		`{"type":"array","items":[{"type":"integer"},{"type":"wrong"}]}`:       `/items/1`,
		`{"a":1,"a":2}`:                                                        `"a" occurs twice`,
		`{`:                                                                    `is no JSON`,
		`{} {}`:                                                                `more than one`,
		`[1]`:                                                                  `a schema is an object`,
		strings.Repeat(`{"items":`, 300) + `{}` + strings.Repeat(`}`, 300):     `nested more than 200 deep`,
	} {
		_, _, err := FromSchema(t.Context(), []byte(schema), false)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: error %v, want %q", schema, err, want)
		}
	}
}

func FuzzFromSchema(f *testing.F) {
	for _, k := range schemaCases {
		f.Add([]byte(k.schema))
	}
	v := byteVocabulary(f)
	f.Fuzz(func(t *testing.T, schema []byte) {
		g, _, err := FromSchema(t.Context(), schema, false)
		if err != nil {
			return
		}
		c, err := g.Compile(v)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := randomText(t, c, rand.New(rand.NewPCG(1, 1))); ok && !json.Valid([]byte(text)) {
			t.Fatalf("%q is no JSON", text)
		}
	})
}

// Sequences share what a compiled grammar has found out; run with -race.
func TestSequencesShareACompiledGrammar(t *testing.T) {
	c := fromSchema(t, `{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}}`, byteVocabulary(t, `{"`, `":`))
	done := make(chan bool)
	for i := range 4 {
		go func() {
			text, ok := randomText(t, c, rand.New(rand.NewPCG(uint64(i), 1)))
			done <- !ok || json.Valid([]byte(text))
		}()
	}
	for range 4 {
		if !<-done {
			t.Error("a text is no JSON")
		}
	}
}
