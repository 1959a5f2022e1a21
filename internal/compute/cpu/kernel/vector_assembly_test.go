package kernel

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An SSE instruction between AVX ones, or a return with the upper halves dirty, costs about a
// hundred nanoseconds each time on some processors, and nothing but the clock would show it.
func TestAssemblyKeepsUpperHalvesClean(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly found: %v", err)
	}
	vector := regexp.MustCompile(`\b[XYZ]\d+\b`)
	upper := regexp.MustCompile(`\b[YZ]\d+\b`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dirty, last := false, ""
		for i, line := range strings.Split(string(text), "\n") {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
			name, operands, _ := strings.Cut(line, " ")
			switch {
			case name == "TEXT":
				dirty = false
			case name == "RET" && dirty && last != "VZEROUPPER":
				t.Errorf("%s:%d: RET without VZEROUPPER", file, i+1)
			case vector.MatchString(operands) && name[0] != 'V' && name[0] != 'K':
				t.Errorf("%s:%d: %s is not a VEX form", file, i+1, name)
			}
			dirty = dirty || upper.MatchString(operands)
			if line != "" {
				last = name
			}
		}
	}
}
