package shaders

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// module is SPIR-V of instructions, each its number and its operands.
func module(bound uint32, instructions ...[]uint32) []byte {
	words := []uint32{0x07230203, 0x10500, 0, bound, 0}
	for _, in := range instructions {
		words = append(append(words, uint32(len(in))<<16|in[0]), in[1:]...)
	}
	var code []byte
	for _, w := range words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code
}

// sample returns a module that multiplies two matrices of halves, with the extensions' own instructions and operands.
func sample(capability uint32, extension string, more []uint32, types, body [][]uint32) []byte {
	all := [][]uint32{
		{opCapability, capability},
		append([]uint32{opExtension}, literal(extension)...),
		{opTypeInt, 1, 32, 0},
	}
	if more != nil {
		for v := range uint32(3) {
			all = append(all, []uint32{opConstant, 1, more[0] + v, v})
		}
	}
	all = append(all, []uint32{opConstantTrue, 2, 3}, []uint32{opConstantFalse, 2, 4})
	all = append(append(all, types...), []uint32{opFunction, 20, 21, 0, 22})
	return module(60+3*uint32(min(1, len(more))), append(all, body...)...)
}

// TestKhronos: each instruction becomes what the other extension's specification says.
func TestKhronos(t *testing.T) {
	const a, b, c = 10, 11, 12 // types
	nv := sample(nvCapability, nvExtension, nil,
		[][]uint32{{nvType, a, 30, 31, 32, 33}, {nvType, b, 30, 31, 33, 34}, {nvType, c, 35, 31, 32, 34}},
		[][]uint32{
			{nvLoad, a, 40, 50, 51, 4},
			{nvLoad, b, 41, 52, 53, 3, 24, 54},
			{nvLoad, c, 42, 55, 56, 3},
			{nvMulAdd, c, 43, 40, 41, 42},
			{nvStore, 57, 43, 58, 4, 24, 59},
		})
	khr := sample(khrCapability, khrExtension, []uint32{60},
		[][]uint32{{khrType, a, 30, 31, 32, 33, 60}, {khrType, b, 30, 31, 33, 34, 61}, {khrType, c, 35, 31, 32, 34, 62}},
		[][]uint32{
			{khrLoad, a, 40, 50, 60, 51},
			{khrLoad, b, 41, 52, 61, 53, 24, 54},
			{khrLoad, c, 42, 55, 61, 56},
			{khrMulAdd, c, 43, 40, 41, 42},
			{khrStore, 57, 43, 60, 58, 24, 59},
		})
	got, err := Khronos(nv)
	if err != nil || !bytes.Equal(got, khr) {
		t.Errorf("%v:\n%x\nwant\n%x", err, got, khr)
	}
	if again, err := Khronos(khr); err != nil || !bytes.Equal(again, khr) {
		t.Errorf("what needs no translation came back as something else: %v", err)
	}
}

// TestKhronosRefuses: what is not translated is an error.
func TestKhronosRefuses(t *testing.T) {
	types := [][]uint32{{nvType, 10, 30, 31, 32, 33}, {nvType, 12, 35, 31, 32, 33}}
	load := []uint32{nvLoad, 10, 40, 50, 51, 4}
	for name, code := range map[string][]byte{
		"no SPIR-V":               {1, 2, 3},
		"length is wrong":         append(module(60), 0, 0, 9, 0),
		"their length":            sample(nvCapability, nvExtension, nil, types, [][]uint32{{nvLength, 1, 41, 10}}),
		"used as two things":      sample(nvCapability, nvExtension, nil, types, [][]uint32{load, {nvMulAdd, 12, 43, 40, 40, 42}}),
		"no product takes":        sample(nvCapability, nvExtension, nil, types, [][]uint32{load}),
		"memory is no constant":   sample(nvCapability, nvExtension, nil, nil, [][]uint32{{nvLoad, 10, 40, 50, 51, 77}}),
		"no type of 32-bit":       module(60, []uint32{opCapability, nvCapability}),
		"memory is no constant, ": sample(nvCapability, nvExtension, nil, nil, [][]uint32{{nvStore, 50, 40, 51, 77}}),
	} {
		if _, err := Khronos(code); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(name, ", ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValid: the validator has nothing to say about any shader, but for those whose extension is younger than it
// (Debian 12's).
func TestValid(t *testing.T) {
	if _, err := exec.LookPath("spirv-val"); err != nil {
		testenv.Missing(t, "vulkan", "spirv-val is absent (Debian: spirv-tools)")
	}
	const young = "Invalid capability operand: "
	for _, s := range manifest(t).Shaders {
		need, err := Needs(os.DirFS("."), s.Name)
		if err != nil {
			t.Fatal(err)
		}
		code, err := bytecode(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		validate := exec.Command("spirv-val", "--target-env", need.Target, "-")
		validate.Stdin = bytes.NewReader(code)
		out, err := validate.CombinedOutput()
		switch {
		case err == nil:
		case strings.Contains(string(out), young) && (need.Glslang > 0 || strings.Contains(string(out), fmt.Sprint(young, khrCapability))):
			t.Logf("%s: %s", s.Name, out)
		default:
			t.Errorf("%s: %s", s.Name, out)
		}
	}
}
