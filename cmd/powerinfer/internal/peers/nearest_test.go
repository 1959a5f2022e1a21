package peers

import "testing"

// TestNearest: short names may have one wrong letter, longer ones two.
func TestNearest(t *testing.T) {
	names := []string{"run", "serve", "models", "perplexity", "np"}
	for name, want := range map[string]string{"rn": "run", "urn": "run", "sevre": "serve", "model": "models", "preplexiti": "perplexity", "quite": "", "p": "", "mod": ""} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestAction: Ollama's commands of a conversation become ours.
func TestAction(t *testing.T) {
	for _, c := range [][4]string{
		{"bye", "", "exit", ""},
		{"set", `system "Be brief."`, "system", "Be brief."},
		{"set", "parameter num_ctx 4096", "set", "num-ctx 4096"},
		{"set", "top_k", "set", "top-k"},
		{"save", "a b", "save", "a b"},
	} {
		if name, argument := Action(c[0], c[1]); name != c[2] || argument != c[3] {
			t.Errorf("/%s %s is /%s %s, want /%s %s", c[0], c[1], name, argument, c[2], c[3])
		}
	}
}
