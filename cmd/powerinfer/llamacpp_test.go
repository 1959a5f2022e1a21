package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// ownFlags are the names of all flags of all commands, hidden ones included.
func ownFlags() map[string]bool {
	names := map[string]bool{}
	for _, c := range command().Commands {
		for _, f := range c.Flags {
			for _, n := range f.Names() {
				names[n] = true
			}
		}
	}
	return names
}

// TestMissingFlags: each of llama.cpp's flags that run does not have is named once and has something to do instead.
func TestMissingFlags(t *testing.T) {
	own, seen := map[string]bool{}, map[string]bool{}
	for _, f := range runFlags() {
		for _, n := range f.Names() {
			own[n] = true
		}
	}
	for _, f := range missingFlags() {
		if strings.TrimSpace(f.instead) == "" {
			t.Errorf("%v: nothing is said of what to do instead", f.names)
		}
		for _, n := range f.names {
			switch {
			case own[n]:
				t.Errorf("--%s is missing and is there", n)
			case seen[n]:
				t.Errorf("--%s is named twice", n)
			}
			seen[n] = true
		}
	}
}

// TestLlamaFlags: every flag in the llama.cpp that POWERINFER_LLAMA_CPP names, a checkout of its sources, is one of ours or has something to do
// instead. -h and --version are the library's.
func TestLlamaFlags(t *testing.T) {
	folder := os.Getenv("POWERINFER_LLAMA_CPP")
	if folder == "" {
		testenv.Missing(t, "llama.cpp", "POWERINFER_LLAMA_CPP names no llama.cpp")
	}
	source, err := os.ReadFile(filepath.Join(folder, "common", "arg.cpp"))
	if err != nil {
		t.Fatal(err)
	}
	own := ownFlags()
	own["h"], own["help"], own["version"] = true, true, true
	options := regexp.MustCompile(`common_arg\(\s*\{([^}]*)\}(?:\s*,\s*\{([^}]*)\})?`).FindAllStringSubmatch(string(source), -1)
	if len(options) < 300 {
		t.Fatalf("%d options were found: arg.cpp is written in another way now", len(options))
	}
	name := regexp.MustCompile(`"-{1,2}([^"]+)"`)
	for _, o := range options {
		for _, m := range name.FindAllStringSubmatch(o[1]+o[2], -1) {
			if _, ok := missing(m[1]); !ok && !own[m[1]] {
				t.Errorf("--%s is neither ours nor missing", m[1])
			}
		}
	}
}
