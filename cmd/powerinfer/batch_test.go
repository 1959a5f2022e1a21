package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBatchPrompts: what a batch cannot be is refused by its line.
func TestBatchPrompts(t *testing.T) {
	good, err := readPrompts("in", "{\"prompt\":\"a\"}\n\n{\"id\":\"x\",\"prompt\":\"b\",\"temperature\":0.5,\"stop\":[\"c\"]}\n{\"id\":-7,\"prompt\":\"d\"}")
	if err != nil || len(good) != 3 || string(good[0].ID) != "1" || string(good[1].ID) != `"x"` || *good[1].Temperature != 0.5 || good[1].TopK != nil {
		t.Errorf("%+v, %v", good, err)
	}
	for text, want := range map[string]string{
		"":                                   "holds no prompts",
		"{\"prompt\":\"a\"}\n{\"prompt\":1}": "line 2",
		`{"prompt":"a","temprature":1}`:      "temprature",
		`{"prompt":"a"} {"prompt":"b"}`:      "behind the object",
		`{"prompt":""}`:                      "no prompt",
		`{"id":[1],"prompt":"a"}`:            "neither a text nor a number",
		"{\"id\":2,\"prompt\":\"a\"}\n{\"prompt\":\"b\"}": "lines 1 and 2 both have id 2",
	} {
		if _, err := readPrompts("in", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestBatchResumes: what an interrupted batch left of a line is cut off, whole lines stay, and what is no batch's is left alone.
func TestBatchResumes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.jsonl")
	whole := "{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":2,\"error\":\"y\"}\n"
	if err := os.WriteFile(name, []byte(whole+`{"id":3,"te`), 0o666); err != nil {
		t.Fatal(err)
	}
	a, err := openAnswers(name)
	if err != nil {
		t.Fatal(err)
	}
	text := "z\u2028<"
	if err := a.write(&batchAnswer{ID: json.RawMessage("3"), Text: &text}); err != nil {
		t.Fatal(err)
	}
	a.close()
	got, _ := os.ReadFile(name)
	if rest, ok := strings.CutPrefix(string(got), whole); !ok || strings.Count(rest, "\n") != 1 || !strings.HasPrefix(rest, `{"id":3,"text":"z`) {
		t.Errorf("the output is %q", got)
	}
	if !a.done[`"a"`] || !a.done["2"] || len(a.done) != 2 {
		t.Errorf("%v are done", a.done)
	}
	for _, other := range []string{"a text\n", "GGUF", whole + "[1]\n"} {
		if err := os.WriteFile(name, []byte(other), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := openAnswers(name); err == nil || !strings.Contains(err.Error(), "name another file") {
			t.Errorf("%q: %v", other, err)
		}
		if now, _ := os.ReadFile(name); !slices.Equal(now, []byte(other)) {
			t.Errorf("%q became %q", other, now)
		}
	}
}
