package grammar

import "testing"

func TestComposedGrammars(t *testing.T) {
	b := NewBuilder(t.Context())
	s, err := b.Schema([]byte(`{"type":"object","properties":{"a/b":{"$ref":"#/$defs/n"},"c":{"if":1}},"$defs":{"n":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Part("#"); err == nil {
		t.Error("a keyword that is not supported is no error")
	}
	number, err := s.Part("#/properties/a~1b")
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.Schema([]byte(`{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"null"}}}`)) // the same name for something else
	if err != nil {
		t.Fatal(err)
	}
	nulls, err := other.Part("#")
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Grammar(Sequence(b.Marker("<a>"), number, Repeat(OneOf("xy"), 1, 2), nulls, b.Until("<", "/a", ">"), Optional(Choice(Literal("!")))))
	if err != nil {
		t.Fatal(err)
	}
	c := mustCompile(t, g, byteVocabulary(t))
	for text, want := range map[string]bool{
		"<a>12x[null]</a>": true, "<a>12xy[]a<</</a></a>": false, "<a>12xy[]a<</</a>!": true, "<a>1x[1]</a>": false, "<a>1xyx[]</a>": false, "<a>1x[]</a": false,
	} {
		if got := accepts(c, text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestPythonParts: a part may have Python's literals in addition to JSON's, and another part of the same schema only
// JSON's.
func TestPythonParts(t *testing.T) {
	b := NewBuilder(t.Context())
	s, err := b.Schema([]byte(`{"type":"array","items":{"anyOf":[{"type":["string","boolean","null"]},{"type":"object","properties":{"a":{"enum":["it's\"",1]},"b":{"type":"string","maxLength":1}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := s.Part("#")
	if err != nil {
		t.Fatal(err)
	}
	asPython, err := s.PythonPart("#")
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Grammar(Choice(Sequence(Literal("JSON "), asJSON), Sequence(Literal("Python "), asPython)))
	if err != nil {
		t.Fatal(err)
	}
	c := mustCompile(t, g, byteVocabulary(t))
	for text, want := range map[string]bool{
		`JSON ["a", true, null, {"a":"it's\"","b":"x"}]`: true, `JSON ['a']`: false, `JSON [True]`: false, `JSON [None]`: false, `JSON [{'a':1}]`: false, `JSON [{"a":'it\'s"'}]`: false,
		`Python ["a", true, null, {"a":"it's\"","b":"x"}]`: true, `Python ['a', True, False, None, {'a': 'it\'s"', 'b': "x"}]`: true, "Python ['it\\'s\n\"a\" é']": true, `Python ['it's']`: false,
		`Python ["a']`: false, `Python [{"b":'x'}]`: false, `Python [TRUE]`: false, "Python [\"\n\"]": false,
	} {
		if got := accepts(c, text); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestMarkersAreTextsOrTokens holds that a marker is a token without bytes where the vocabulary has it, also within
// what ends a text.
func TestMarkersAreTextsOrTokens(t *testing.T) {
	b := NewBuilder(t.Context())
	g, err := b.Grammar(Sequence(b.Marker("<a>"), b.Until("</", "mid", ">")))
	if err != nil {
		t.Fatal(err)
	}
	tokens := [][]byte{[]byte("<a>"), []byte("x</"), []byte("m"), []byte("id>"), []byte(">"), nil, nil, nil}
	v, err := NewVocabulary(tokens, []int32{7}, map[string]int32{"<a>": 5, "mid": 6})
	if err != nil {
		t.Fatal(err)
	}
	c := mustCompile(t, g, v)
	for _, k := range []struct {
		ids []int32
		ok  bool
	}{
		{[]int32{0, 1, 2, 3, 7}, true},
		{[]int32{5, 1, 6, 4, 7}, true},
		{[]int32{5, 1, 1, 6, 4, 7}, true},
		{[]int32{5, 6}, false},
		{[]int32{6}, false},
	} {
		s := c.NewState(t.Context())
		var err error
		for _, id := range k.ids {
			if err = s.Accept(id); err != nil {
				break
			}
		}
		if (err == nil) != k.ok {
			t.Errorf("%v: %v", k.ids, err)
		}
	}
}

func TestTriggersAtTheBeginningAndInQuiet(t *testing.T) {
	v := byteVocabulary(t)
	c := mustCompile(t, mustParse(t, `root ::= ("{" | "<c>") [0-9]+`), v)
	for _, k := range []struct {
		text string
		open bool
		held bool // the grammar holds after the text
	}{
		{"{1", false, true},
		{" \n{1", false, true},
		{"a {1", false, false},
		{"a <c>1", false, true},
		{"<t>a <c>1", false, false},
		{"<t>a {1</t>\n{1", false, true},
		{"<t><c>1</t>x{1", false, false},
		{"<t><c>1</t>x<c>1", false, true},
		{"x<t><c>1", false, true},
		{"<c>1", true, false},
		{"<c></t><c>1", true, true},
	} {
		s := c.NewLazyState(t.Context(), Triggers{Words: []string{"<c>"}, First: []string{"{"}, Quiet: Quiet{Begin: "<t>", End: "</t>", Open: k.open}})
		var err error
		for _, b := range []byte(k.text) {
			if err = s.Accept(int32(b)); err != nil {
				break
			}
		}
		if err != nil || (s.Accept('z') != nil) != k.held {
			t.Errorf("%q: error %v, want held %v", k.text, err, k.held)
		}
	}
}
