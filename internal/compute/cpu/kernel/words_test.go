//go:build linux && amd64

package kernel

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestWords holds the words of the assembly for ARMv8, which Go's assembler takes as they are, to the instructions that
// the generator meant, by another disassembler.
func TestWords(t *testing.T) {
	objdump, err := exec.LookPath("aarch64-linux-gnu-objdump")
	if err != nil {
		testenv.Missing(t, "binutils", "no aarch64-linux-gnu-objdump; on Debian: apt-get install binutils-aarch64-linux-gnu")
	}
	files, err := filepath.Glob("*_arm64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly for ARMv8 (%v)", err)
	}
	meant, order := map[uint32]string{}, []uint32{}
	line := regexp.MustCompile(`(?m)^\tWORD \$(0x[0-9a-f]{8}) // (.*)$`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range line.FindAllSubmatch(text, -1) {
			v, err := strconv.ParseUint(string(m[1]), 0, 32)
			if err != nil {
				t.Fatal(err)
			}
			word, said := uint32(v), string(m[2])
			if before, ok := meant[word]; !ok {
				meant[word], order = said, append(order, word)
			} else if before != said {
				t.Errorf("%#08x is called %q and %q", word, before, said)
			}
		}
	}
	var code bytes.Buffer
	for _, w := range order {
		_ = binary.Write(&code, binary.LittleEndian, w)
	}
	bin := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(bin, code.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "aarch64", bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range strings.Split(string(out), "\n") {
		fields := strings.SplitN(strings.TrimSpace(l), "\t", 3)
		if len(fields) < 3 {
			continue
		}
		said := strings.TrimSpace(strings.ReplaceAll(fields[2], "\t", " "))
		if want := meant[order[n]]; said != want {
			t.Errorf("%#08x is %q, not %q", order[n], said, want)
		}
		n++
	}
	if n != len(order) || n < 500 {
		t.Errorf("%d of %d words were looked at", n, len(order))
	}
}

// TestRegistersOfAVX2 holds functions that do not ask for AVX-512 to the sixteen registers of AVX2: Go's assembler
// encodes an instruction with a higher one for AVX-512 without a word, and processors without it stop there.
func TestRegistersOfAVX2(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly for amd64 (%v)", err)
	}
	beyond := regexp.MustCompile(`\b(?:[XY](?:1[6-9]|2\d|3[01])|Z\d+|K[1-7])\b`)
	function := regexp.MustCompile(`(?m)^(// Requires: .*)?\nTEXT ·(\w+)\(SB\)`)
	checked := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		begins := function.FindAllSubmatchIndex(text, -1)
		for i, m := range begins {
			end := len(text)
			if i+1 < len(begins) {
				end = begins[i+1][0]
			}
			if m[2] >= 0 && bytes.Contains(text[m[2]:m[3]], []byte("AVX512")) {
				continue
			}
			checked++
			if r := beyond.Find(text[m[1]:end]); r != nil {
				t.Errorf("%s: %s uses %s, and does not require AVX-512", name, text[m[4]:m[5]], r)
			}
		}
	}
	if checked < 100 {
		t.Fatalf("only %d functions found", checked)
	}
}
