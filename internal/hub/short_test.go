package hub

import (
	"slices"
	"strings"
	"testing"
)

// Every row names a repository, figures that a model can have, and no other row's name.
func TestShortTable(t *testing.T) {
	seen, usual := map[string]bool{}, map[string]int{}
	for _, m := range Shorts() {
		at, err := ParseName(m.At)
		if err != nil || at.File != "" {
			t.Errorf("%s is at %q: %v", m.Name, m.At, err)
		}
		if seen[m.Name] || m.Name != strings.ToLower(m.Name) || strings.Count(m.Name, ":") != 1 || strings.ContainsAny(m.Name, "/ ") {
			t.Errorf("%q is no short name, or is there twice", m.Name)
		}
		seen[m.Name] = true
		if m.Usual {
			usual[m.Family()]++
		}
		bits := 8 * m.Bytes / (m.Parameters * 1e9)
		if bits < 3 || bits > 17 {
			t.Errorf("%s has %.1f bits a parameter", m.Name, bits)
		}
		if !(m.Active > 0 && m.Active <= m.Parameters) || m.Cache < 0 || m.Cache > 1024 {
			t.Errorf("%s: %g of %g billion parameters, a cache of %d KiB a token", m.Name, m.Active, m.Parameters, m.Cache)
		}
	}
	for _, m := range Shorts() {
		if usual[m.Family()] > 1 {
			t.Errorf("%s has %d usual sizes", m.Family(), usual[m.Family()])
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d models", len(seen))
	}
}

func TestFindShort(t *testing.T) {
	for name, want := range map[string]string{
		"qwen3:0.6b":      "ggml-org/Qwen3-0.6B-GGUF:Q8_0",
		"Qwen3:0.6B":      "ggml-org/Qwen3-0.6B-GGUF:Q8_0",
		"qwen3":           "ggml-org/Qwen3-8B-GGUF:Q4_K_M",
		"qwen3:latest":    "ggml-org/Qwen3-8B-GGUF:Q4_K_M",
		"qwen3:8b-q8_0":   "ggml-org/Qwen3-8B-GGUF:Q8_0",
		"qwen3:8b-q4_K_M": "ggml-org/Qwen3-8B-GGUF:Q4_K_M",
		"gpt-oss":         "ggml-org/gpt-oss-20b-GGUF:MXFP4",
		"llama3.2":        "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M",
		"gemma4":          "unsloth/gemma-4-E4B-it-GGUF:Q4_K_M",
	} {
		if _, at, ok := FindShort(name); !ok || at.String() != want {
			t.Errorf("%s is %s, %v; want %s", name, at, ok, want)
		}
	}
	for _, name := range []string{"", ":", "qwen3:", "qwen3:9b", "qwen3:8b-", "qwen3:8b-large", "-q8_0", "hello", "ggml-org/Qwen3-8B-GGUF"} {
		if m, _, ok := FindShort(name); ok {
			t.Errorf("%q is %s", name, m.Name)
		}
	}
}

func TestShortNames(t *testing.T) {
	names := ShortNames()
	if !slices.IsSorted(names) || !slices.Contains(names, "qwen3") || !slices.Contains(names, "qwen3:0.6b") {
		t.Errorf("names %v", names)
	}
	for _, n := range names {
		if _, _, ok := FindShort(n); !ok {
			t.Errorf("%s is not found", n)
		}
	}
	if got := ShortSizes("GPT-OSS"); !slices.Equal(got, []string{"gpt-oss:20b", "gpt-oss:120b"}) {
		t.Errorf("sizes %v", got)
	}
}
