package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/peers"
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

// TestMissingFlags: each flag of llama.cpp that run or serve lacks is listed once, with advice.
func TestMissingFlags(t *testing.T) {
	have := func(name string) map[string]bool {
		names := map[string]bool{}
		for _, f := range command().Command(name).Flags {
			for _, n := range f.Names() {
				names[n] = true
			}
		}
		return names
	}
	own, served, seen := have("run"), have("serve"), map[string]bool{}
	for _, f := range peers.MissingFlags() {
		if strings.TrimSpace(f.Instead) == "" {
			t.Errorf("%v: nothing is said of what to do instead", f.Names)
		}
		for _, n := range f.Names {
			switch {
			case own[n] && served[n]:
				t.Errorf("--%s is missing and is there", n)
			case seen[n]:
				t.Errorf("--%s is named twice", n)
			}
			seen[n] = true
		}
	}
}

// TestLlamaFlags: every flag of llama.cpp exists here or has advice. The flags come from testdata, and from the
// checkout of llama.cpp that POWERINFER_LLAMA_CPP names. The library provides -h.
func TestLlamaFlags(t *testing.T) {
	own := ownFlags()
	own["h"], own["help"] = true, true
	names := listedFlags(t)
	if folder := os.Getenv("POWERINFER_LLAMA_CPP"); folder != "" {
		names = append(names, sourceFlags(t, folder)...)
	}
	for _, name := range names {
		if _, ok := peers.InsteadOf(peers.MissingFlags(), name); !ok && !own[name] {
			t.Errorf("--%s is neither ours nor missing", name)
		}
	}
}

// listedFlags returns the names in testdata.
func listedFlags(t *testing.T) (names []string) {
	list, err := os.ReadFile(filepath.Join("testdata", "llamacpp-flags.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	return names
}

// sourceFlags returns the names in a checkout's common/arg.cpp.
func sourceFlags(t *testing.T, folder string) (names []string) {
	source, err := os.ReadFile(filepath.Join(folder, "common", "arg.cpp"))
	if err != nil {
		t.Fatal(err)
	}
	options := regexp.MustCompile(`common_arg\(\s*\{([^}]*)\}(?:\s*,\s*\{([^}]*)\})?`).FindAllStringSubmatch(string(source), -1)
	if len(options) < 300 {
		t.Fatalf("%d options were found: arg.cpp is written in another way now", len(options))
	}
	name := regexp.MustCompile(`"-{1,2}([^"]+)"`)
	for _, o := range options {
		for _, m := range name.FindAllStringSubmatch(o[1]+o[2], -1) {
			names = append(names, m[1])
		}
	}
	return names
}
