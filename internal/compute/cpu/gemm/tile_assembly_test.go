package gemm

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// An SSE instruction between AVX ones, or a return with the upper halves dirty, costs about a hundred nanoseconds each
// time on some processors, and nothing but the clock would show it.
func TestAssemblyKeepsUpperHalvesClean(t *testing.T) {
	text, err := os.ReadFile("tile_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	vector := regexp.MustCompile(`\b[XYZ]\d+\b`)
	returns, last := 0, ""
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
		name, operands, _ := strings.Cut(line, " ")
		if name == "RET" {
			returns++
			if last != "VZEROUPPER" {
				t.Errorf("line %d: RET without VZEROUPPER", i+1)
			}
		}
		if vector.MatchString(operands) && name[0] != 'V' {
			t.Errorf("line %d: %s is not a VEX form", i+1, name)
		}
		if line != "" {
			last = name
		}
	}
	if returns < 5 {
		t.Fatalf("%d returns were looked at", returns)
	}
}
