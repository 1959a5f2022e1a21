package kernel

import (
	"bufio"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// encoded returns the instructions that a file of assembly has as bytes, by the names in their comments, and those
// bytes.
func encoded(t *testing.T, file string) (names []string, code []byte) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	inside := false
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "// VEX."); ok {
			names, inside = append(names, name), true
			continue
		}
		unit, number, _ := strings.Cut(line, " ")
		inside = inside && (unit == "LONG" || unit == "BYTE")
		if !inside {
			continue
		}
		v, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(number), "$"), 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		if unit == "LONG" {
			code = binary.LittleEndian.AppendUint32(code, uint32(v))
		} else {
			code = append(code, byte(v))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return names, code
}

// TestEncodings makes binutils name the instructions that Go's assembler does not know.
func TestEncodings(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		testenv.Missing(t, "objdump", "no objdump; on Debian: apt-get install binutils")
	}
	want, code := encoded(t, "matmul_amd64.s")
	if len(want) == 0 {
		t.Fatal("no instructions were found")
	}
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "--no-show-raw-insn", "-b", "binary", "-m", "i386:x86-64", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if _, in, ok := strings.Cut(line, ":\t"); ok {
			got = append(got, strings.Join(strings.Fields(strings.TrimPrefix(in, "{vex} ")), " "))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("objdump finds %d instructions, the source has %d", len(got), len(want))
	}
	names := strings.NewReplacer(", ", ",", "Y", "%ymm", "TMM", "%tmm", ")(", ",", "*1)", ",1)", "AX", "%rax", "BX", "%rbx", "CX", "%rcx", "SI", "%rsi", "DI", "%rdi", "R", "%r")
	for i := range want {
		mnemonic, operands, _ := strings.Cut(want[i], " ")
		if name := strings.TrimSpace(strings.ToLower(mnemonic) + " " + names.Replace(operands)); got[i] != name {
			t.Errorf("instruction %d is %q, in the source %q", i, got[i], want[i])
		}
	}
}
