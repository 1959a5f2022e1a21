package main

import (
	"slices"
	"strings"
	"testing"
)

// TestCompletions: the words before a word decide how it can be completed.
func TestCompletions(t *testing.T) {
	root := command()
	for _, c := range []struct{ line, want string }{ // the last word is completed; want lacks descriptions
		{"co|", "convert completion"},
		{"run|--spa", "--sparse --sparse-threshold --sparse-always-on"},
		{"run|-ng", "-ngl -ngld"},
		{"run|-m|", ":files"},
		{"run|-m|mo", ":files"},
		{"run|--model=mo", ":files"},
		{"run|--model|=|mo", ":files"}, // bash takes = for a word
		{"run|--model|=", ":files"},
		{"run|--sparse|e", "exact"},
		{"run|--sparse=e", "--sparse=exact"},
		{"run|--sparse|=|e", "exact"},
		{"run|--sparse|", "auto off exact predict threshold"},
		{"run|-n|", ""},
		{"run|-p|--te", ""},             // the prompt
		{"run|--ignore-eos|", ":files"}, // takes no value
		{"chat|qwen3:0", "qwen3:0.6b"},
		{"show|gpt-oss:", "gpt-oss:120b gpt-oss:20b"},
		{"serve|model", ":files"},
		{"run|-m|x|--te", "--temp"}, // after a value
		{"-m|x|--te", "--temp"},     // means run
		{"--mod", "--model --model-draft"},
		{"inspect|", ":files"},
		{"inspect|--report|", ":folders"},
		{"inspect|--|--te", ":files"}, // a name that begins with dashes
		{"quantize|a|b|q8", "q8_0"},
		{"completion|", "bash zsh fish"},
		{"nonsense|--te", ""},
	} {
		words := strings.Split(strings.TrimSuffix(c.line, "|"), "|")
		if strings.HasSuffix(c.line, "|") && c.line != "co|" {
			words = append(words, "")
		}
		var got []string
		for _, line := range completions(root, words) {
			word, _, _ := strings.Cut(line, "\t")
			got = append(got, word)
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", c.line, got, want)
		}
	}
	if got := completions(root, nil); got != nil {
		t.Errorf("nothing to complete: %q", got)
	}
}
