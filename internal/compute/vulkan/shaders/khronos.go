package shaders

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Instructions of SPIR-V, and what the two extensions for cooperative matrices name.
// Source: the SPIR-V specification; SPV_NV_cooperative_matrix; SPV_KHR_cooperative_matrix.
const (
	opExtension     = 10
	opCapability    = 17
	opTypeInt       = 21
	opConstantTrue  = 41
	opConstantFalse = 42
	opConstant      = 43
	opFunction      = 54

	nvCapability, nvType, nvLoad, nvStore, nvMulAdd, nvLength = 5357, 5358, 5359, 5360, 5361, 5362
	khrCapability, khrType, khrLoad, khrStore, khrMulAdd      = 6022, 4456, 4457, 4458, 4459
	nvExtension, khrExtension                                 = "SPV_NV_cooperative_matrix", "SPV_KHR_cooperative_matrix"
)

// Khronos turns cooperative matrices of VK_NV_cooperative_matrix, which Debian's glslang knows, into those of
// VK_KHR_cooperative_matrix. The instructions are the same except for two things: a type contains the use of its
// matrices, which follows from the products that take them, and the order in memory is a number instead of a bool.
// Other code does not change.
func Khronos(code []byte) ([]byte, error) {
	if len(code) < 20 || len(code)%4 != 0 {
		return nil, errors.New("that is no SPIR-V")
	}
	t := translation{uses: map[uint32]uint32{}, truths: map[uint32]uint32{}, bound: binary.LittleEndian.Uint32(code[12:])}
	words := make([]uint32, len(code)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(code[4*i:])
	}
	var all [][]uint32
	for rest := words[5:]; len(rest) > 0; {
		n := int(rest[0] >> 16)
		if n < 1 || n > len(rest) {
			return nil, errors.New("an instruction's length is wrong")
		}
		all, rest = append(all, rest[:n]), rest[n:]
	}
	if err := t.survey(all); err != nil || !t.needed {
		return code, err
	}
	out := append(make([]uint32, 0, len(words)+64), words[:5]...)
	out[3] += 3 // ids of constants
	for _, in := range all {
		var err error
		if out, err = t.translate(out, in); err != nil {
			return nil, err
		}
	}
	bytes := make([]byte, 0, 4*len(out))
	for _, w := range out {
		bytes = binary.LittleEndian.AppendUint32(bytes, w)
	}
	return bytes, nil
}

// translation is the state that translating one module's instructions shares.
type translation struct {
	needed bool
	number uint32            // the id of the type of 32-bit numbers
	bound  uint32            // of ids: the first of the constants 0, 1 and 2 that are added, which are uses and orders
	uses   map[uint32]uint32 // of a type's matrices: 0 as A, 1 as B, 2 as sums
	truths map[uint32]uint32 // of boolean constants
}

// survey collects declarations, and the operands of products.
func (t *translation) survey(all [][]uint32) error {
	types := map[uint32]uint32{} // of results inside functions
	inside := false
	for _, in := range all {
		switch op := in[0] & 0xffff; {
		case op == opCapability && len(in) == 2:
			t.needed = t.needed || in[1] == nvCapability
		case op == opTypeInt && len(in) == 4 && in[2] == 32 && in[3] == 0:
			t.number = in[1]
		case op == opConstantTrue && len(in) == 3:
			t.truths[in[2]] = 1
		case op == opConstantFalse && len(in) == 3:
			t.truths[in[2]] = 0
		case op == nvLength:
			return errors.New("cooperative matrices: their length is not translated")
		case op == nvMulAdd && len(in) == 6:
			for use, operand := range in[3:] {
				if had, ok := t.uses[types[operand]]; ok && had != uint32(use) {
					return errors.New("cooperative matrices: one type is used as two things")
				}
				t.uses[types[operand]] = uint32(use)
			}
			types[in[2]] = in[1]
		case op == opFunction:
			inside = true
		case inside && len(in) > 2: // not all have a result: those overwrite nothing that a product takes
			if _, ok := types[in[2]]; !ok {
				types[in[2]] = in[1]
			}
		}
	}
	if t.needed && t.number == 0 {
		return errors.New("cooperative matrices: the module has no type of 32-bit numbers")
	}
	return nil
}

// translate appends what stands for an instruction.
func (t *translation) translate(out, in []uint32) ([]uint32, error) {
	add := func(op uint32, words ...uint32) { out = append(append(out, uint32(len(words)+1)<<16|op), words...) }
	order := func(truth uint32) (uint32, error) {
		v, ok := t.truths[truth]
		if !ok {
			return 0, errors.New("cooperative matrices: an order in memory is no constant")
		}
		return t.bound + v, nil
	}
	switch op := in[0] & 0xffff; {
	case op == opCapability && in[1] == nvCapability:
		add(op, khrCapability)
	case op == opExtension && text(in[1:]) == nvExtension:
		add(op, literal(khrExtension)...)
	case op == opTypeInt && in[1] == t.number:
		out = append(out, in...)
		for v := range uint32(3) {
			add(opConstant, t.number, t.bound+v, v)
		}
	case op == nvType:
		use, ok := t.uses[in[1]]
		if !ok {
			return nil, fmt.Errorf("cooperative matrices: no product takes type %d", in[1])
		}
		add(khrType, append(append([]uint32{}, in[1:]...), t.bound+use)...)
	case op == nvLoad:
		o, err := order(in[5])
		if err != nil {
			return nil, err
		}
		add(khrLoad, append([]uint32{in[1], in[2], in[3], o, in[4]}, in[6:]...)...)
	case op == nvStore:
		o, err := order(in[4])
		if err != nil {
			return nil, err
		}
		add(khrStore, append([]uint32{in[1], in[2], o, in[3]}, in[5:]...)...)
	case op == nvMulAdd:
		add(khrMulAdd, in[1:]...)
	default:
		out = append(out, in...)
	}
	return out, nil
}

// text returns a string of an instruction.
func text(words []uint32) string {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// literal is s as an instruction has it.
func literal(s string) (words []uint32) {
	b := append([]byte(s), 0, 0, 0, 0)
	for ; len(b) >= 4; b = b[4:] {
		words = append(words, binary.LittleEndian.Uint32(b))
	}
	return words
}
