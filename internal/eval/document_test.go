package eval

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSplitDocuments(t *testing.T) {
	for in, want := range map[string][]string{
		"":                                  nil,
		"\n\n \n":                           nil,
		"one":                               {"one"},
		"a\nb\n\nc\n":                       {"a\nb\n\nc"},
		"a\n\n\nb\n\n\n\n\nc":               {"a", "b", "c"},
		"a\n<|endoftext|>\nb\n<|doc|>\n\nc": {"a", "b", "c"},
		"a\n</s>\n</s>\nb <|endoftext|> b":  {"a", "b <|endoftext|> b"},
		"a\n\fb\n\n\fc":                     {"a", "b", "c"},
	} {
		if got := SplitDocuments(in); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestDocuments: each document appears once, in any order of the text, and the parts of a large one contain all of it.
func TestDocuments(t *testing.T) {
	docs := Documents("a\n</s>\nb\n</s>\na\n</s>\nc\n</s>\nd")
	if other := Documents("d\n</s>\nc\n</s>\nb\n</s>\na"); len(docs) != 4 || !slices.Equal(docs, other) {
		t.Errorf("documents %q, in another order %q", docs, other)
	}
	var lines []string
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf("line %d of a text without ends", i))
	}
	var back []string
	for _, d := range Documents(strings.Join(lines, "\n")) {
		back = append(back, strings.Split(d, "\n")...)
	}
	slices.Sort(lines)
	slices.Sort(back)
	if !slices.Equal(back, lines) {
		t.Error("the parts are not the text")
	}
}

// Windows are of one document each as far as documents fill them; few documents are taken window by window.
func TestLay(t *testing.T) {
	const window = 4
	var docs [][]int32
	next := int32(0)
	for i := range 10 {
		var d []int32
		for range i {
			d = append(d, next)
			next++
		}
		docs = append(docs, d)
	}
	y := Lay(docs, window, 0)
	// Documents of 4 to 7 tokens have a window, of 8 and 9 two. The remaining 1+2+3+0+1+2+3+0+1 tokens make three more.
	if want := []int{0, 1, 2, 3, 4, 4, 5, 5, 6, 7, 8}; y.Single || y.Documents != 9 || !reflect.DeepEqual(y.Of, want) || len(y.Tokens) != window*len(want) {
		t.Errorf("%+v", y)
	}
	windows := make([]Document, len(y.Of))
	for i := range windows {
		windows[i] = Document{Count: 2, KLD: float64(i), SameTop: 0.5}
	}
	if got := y.Join(windows); got[4] != (Document{Count: 4, KLD: 4.5, SameTop: 0.5}) || got[8].KLD != 10 {
		t.Errorf("%+v", got)
	}
	if two := Lay(docs[8:], window, 0); !two.Single || two.Documents != 4 {
		t.Errorf("two documents: %+v", two)
	}
	// Six documents have a window, and the first two of them with a second one share the remaining room.
	if few := Lay(docs, window, 7); len(few.Of) != 7 || !few.Single || !slices.Equal(few.Tokens[4*window:6*window], docs[8]) {
		t.Errorf("seven windows: %+v", few)
	}
}
