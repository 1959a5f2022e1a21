package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Go's assembler lacks many vector instructions of ARMv8, among them all dot products. To have one way to write them,
// every vector instruction is emitted as its word, followed by a disassembler's text. TestWords in package kernel
// compares the two with binutils.

// vec is the number of a vector register, reg the number of a general one.
type (
	vec int
	reg int
)

// general is the number of the first general register that is not used: R26 is left for the linker, R27 for the
// assembler, R28 is the goroutine's. R18, which is the platform's, is skipped.
const general = 26

// file collects the assembly and the stubs of one file.
type file struct {
	text, stubs, data bytes.Buffer
	table             []byte         // constants, in the order of their use
	places            map[string]int // places of constants in the table

	loops    []loop
	counting bool

	params map[string]int // offsets of the current function's parameters
	next   reg
	vecs   vec
}

func (f *file) line(format string, args ...any) { fmt.Fprintf(&f.text, "\t"+format+"\n", args...) }

// function begins one. Its signature has parameters of 8 bytes and float32 ones.
func (f *file) function(name, signature, doc string) {
	fmt.Fprintf(&f.stubs, "\n// %s %s\n//\n//go:noescape\nfunc %s%s\n", name, doc, name, strings.TrimPrefix(signature, "func"))
	parameters, results, _ := strings.Cut(strings.TrimPrefix(signature, "func("), ")")
	f.params = map[string]int{}
	size := f.place(0, parameters)
	arguments := size
	if results = strings.Trim(results, " ()"); results != "" {
		size = (size + 7) &^ 7
		if !strings.Contains(results, " ") {
			results = "ret " + results
		}
		arguments = f.place(size, results)
	}
	fmt.Fprintf(&f.text, "\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, strings.TrimPrefix(signature, "func"), name, arguments)
	f.next, f.vecs = 0, 0
}

// place records the offsets of parameters and returns where they end.
func (f *file) place(at int, parameters string) int {
	var names []string
	for _, p := range strings.Split(parameters, ", ") {
		name, typ, typed := strings.Cut(p, " ")
		names = append(names, name)
		if !typed {
			continue
		}
		size := 8
		if typ == "float32" || typ == "uint32" || typ == "int32" {
			size = 4
		}
		for _, n := range names {
			at = (at + size - 1) &^ (size - 1)
			f.params[n] = at
			at += size
		}
		names = nil
	}
	return at
}

// reg returns a free general register.
func (f *file) reg() reg {
	if f.next == 18 {
		f.next++
	}
	if f.next == general {
		panic("too few general registers")
	}
	f.next++
	return f.next - 1
}

func (f *file) vec() vec {
	if f.vecs == 32 {
		panic("too few vector registers")
	}
	f.vecs++
	return f.vecs - 1
}

func (f *file) vecsOf(n int) []vec {
	v := make([]vec, n)
	for i := range v {
		v[i] = f.vec()
	}
	return v
}

// param loads a parameter of 8 bytes.
func (f *file) param(name string) reg {
	r := f.reg()
	f.line("MOVD %s+%d(FP), R%d", name, f.params[name], r)
	return r
}

// broadcast loads a float32 parameter into every lane.
func (f *file) broadcast(name string) vec {
	r, v := f.reg(), f.vec()
	f.line("MOVWU %s+%d(FP), R%d", name, f.params[name], r)
	f.dupW(v, r)
	f.next = r
	return v
}

func (f *file) label(l string)      { fmt.Fprintf(&f.text, "%s:\n", l) }
func (f *file) ret()                { f.line("RET") }
func (f *file) mov(d, s reg)        { f.line("MOVD R%d, R%d", s, d); f.count("mov.x") }
func (f *file) movImm(d reg, i int) { f.line("MOVD $%d, R%d", i, d); f.count("mov.x") }
func (f *file) add(d, a, b reg)     { f.line("ADD R%d, R%d, R%d", b, a, d); f.count("add.x") }

func (f *file) addShifted(d, a, b reg, s int) {
	f.line("ADD R%d<<%d, R%d, R%d", b, s, a, d)
	f.count("add.x")
}

func (f *file) sub(d, a, b reg)       { f.line("SUB R%d, R%d, R%d", b, a, d); f.count("sub.x") }
func (f *file) branch(cond, l string) { f.line("%s %s", cond, l); f.count("b.x") }

func (f *file) addImm(d reg, i int) {
	switch {
	case i > 0:
		f.line("ADD $%d, R%d, R%d", i, d, d)
	case i < 0:
		f.line("SUB $%d, R%d, R%d", -i, d, d)
	default:
		return
	}
	f.count("add.x")
}

// down subtracts i from d and branches to l while d is above zero.
func (f *file) down(d reg, i int, l string) {
	f.line("SUBS $%d, R%d, R%d", i, d, d)
	f.count("subs.x")
	f.branch("BGT", l)
}

// loop is what one turn of a kernel's inner loop takes.
type loop struct {
	name  string
	bytes int            // bytes of weights for each token
	words map[string]int // instructions by mnemonic
}

// begin counts the instructions up to stop as one iteration of a loop.
func (f *file) begin(name string, bytes int) {
	f.loops = append(f.loops, loop{name, bytes, map[string]int{}})
	f.counting = true
}

func (f *file) stop() { f.counting = false }

func (f *file) count(name string) {
	if f.counting {
		f.loops[len(f.loops)-1].words[name]++
	}
}

func (f *file) word(w uint32, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.line("WORD $0x%08x // %s", w, text)
	name, _, _ := strings.Cut(text, " ")
	f.count(name)
}

// threes are instructions of three vectors of one arrangement.
var threes = map[string]struct {
	word    uint32
	d, n, m string
}{
	"add": {0x4EA08400, "4s", "4s", "4s"}, "sub": {0x6EA08400, "4s", "4s", "4s"}, "addp": {0x4EA0BC00, "4s", "4s", "4s"},
	"mul": {0x4EA09C00, "4s", "4s", "4s"}, "mla": {0x4EA09400, "4s", "4s", "4s"}, "umax": {0x6EA06400, "4s", "4s", "4s"},
	"cmgt": {0x4EA03400, "4s", "4s", "4s"}, "ushl": {0x6EA04400, "4s", "4s", "4s"},
	"and": {0x4E201C00, "16b", "16b", "16b"}, "orr": {0x4EA01C00, "16b", "16b", "16b"}, "eor": {0x6E201C00, "16b", "16b", "16b"},
	"bit": {0x6EA01C00, "16b", "16b", "16b"}, "bif": {0x6EE01C00, "16b", "16b", "16b"}, "bsl": {0x6E601C00, "16b", "16b", "16b"}, "bic": {0x4E601C00, "16b", "16b", "16b"},
	"ushl.b": {0x6E204400, "16b", "16b", "16b"}, "zip1.b": {0x4E003800, "16b", "16b", "16b"},
	"sub.b": {0x6E208400, "16b", "16b", "16b"}, "cmeq.b": {0x6E208C00, "16b", "16b", "16b"}, "uhadd.b": {0x6E200400, "16b", "16b", "16b"},
	"uzp1.b": {0x4E001800, "16b", "16b", "16b"}, "uzp2.b": {0x4E005800, "16b", "16b", "16b"}, "ushl.h": {0x6E604400, "8h", "8h", "8h"}, "trn2.h": {0x4E406800, "8h", "8h", "8h"}, "mul.b": {0x4E209C00, "16b", "16b", "16b"},
	"fadd": {0x4E20D400, "4s", "4s", "4s"}, "fsub": {0x4EA0D400, "4s", "4s", "4s"}, "fmul": {0x6E20DC00, "4s", "4s", "4s"},
	"fmla": {0x4E20CC00, "4s", "4s", "4s"}, "fmls": {0x4EA0CC00, "4s", "4s", "4s"}, "faddp": {0x6E20D400, "4s", "4s", "4s"},
	"fmax": {0x4E20F400, "4s", "4s", "4s"}, "fmaxnm": {0x4E20C400, "4s", "4s", "4s"}, "fminnm": {0x4EA0C400, "4s", "4s", "4s"},
	"fdiv": {0x6E20FC00, "4s", "4s", "4s"}, "fcmgt": {0x6EA0E400, "4s", "4s", "4s"}, "fcmge": {0x6E20E400, "4s", "4s", "4s"},
	"fadd.d": {0x4E60D400, "2d", "2d", "2d"}, "fsub.d": {0x4EE0D400, "2d", "2d", "2d"}, "fmla.d": {0x4E60CC00, "2d", "2d", "2d"},
	"sdot": {0x4E809400, "4s", "16b", "16b"}, "smmla": {0x4E80A400, "4s", "16b", "16b"},
	"bfdot": {0x6E40FC00, "4s", "8h", "8h"}, "bfmmla": {0x6E40EC00, "4s", "8h", "8h"},
	"smull": {0x0E20C000, "8h", "8b", "8b"}, "smull2": {0x4E20C000, "8h", "16b", "16b"},
	"smlal": {0x0E208000, "8h", "8b", "8b"}, "smlal2": {0x4E208000, "8h", "16b", "16b"},
	"smull.h": {0x0E60C000, "4s", "4h", "4h"}, "smull2.h": {0x4E60C000, "4s", "8h", "8h"},
	"smlal.h": {0x0E608000, "4s", "4h", "4h"}, "smlal2.h": {0x4E608000, "4s", "8h", "8h"},
	"saddw": {0x0E601000, "4s", "4s", "4h"}, "saddw2": {0x4E601000, "4s", "4s", "8h"},
	"zip1": {0x4E803800, "4s", "4s", "4s"}, "zip2": {0x4E807800, "4s", "4s", "4s"},
	"zip1.h": {0x4E403800, "8h", "8h", "8h"}, "zip2.h": {0x4E407800, "8h", "8h", "8h"},
	"uzp1": {0x4E801800, "4s", "4s", "4s"}, "uzp2": {0x4E805800, "4s", "4s", "4s"},
	"trn1": {0x4E802800, "4s", "4s", "4s"}, "trn2": {0x4E806800, "4s", "4s", "4s"},
	"zip1.d": {0x4EC03800, "2d", "2d", "2d"}, "zip2.d": {0x4EC07800, "2d", "2d", "2d"},
	"uzp1.h": {0x4E401800, "8h", "8h", "8h"}, "uzp2.h": {0x4E405800, "8h", "8h", "8h"},
}

// op emits an instruction of three vectors. The part of a name after a point gives the arrangement.
func (f *file) op(name string, d, n, m vec) {
	i, ok := threes[name]
	if !ok {
		panic("no instruction " + name)
	}
	mnemonic, _, _ := strings.Cut(name, ".")
	if mnemonic == "orr" && n == m {
		f.word(i.word|uint32(m)<<16|uint32(n)<<5|uint32(d), "mov v%d.16b, v%d.16b", d, n)
		return
	}
	f.word(i.word|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", mnemonic, d, i.d, n, i.n, m, i.m)
}

// twos are instructions of two vectors.
var twos = map[string]struct {
	word uint32
	d, n string
}{
	"sadalp": {0x4E606800, "4s", "8h"}, "saddlp": {0x4E602800, "4s", "8h"},
	"sxtl.b": {0x0F08A400, "8h", "8b"}, "sxtl": {0x0F10A400, "4s", "4h"}, "sxtl2": {0x4F10A400, "4s", "8h"}, "sxtl2.b": {0x4F08A400, "8h", "16b"},
	"uxtl.b": {0x2F08A400, "8h", "8b"}, "uxtl": {0x2F10A400, "4s", "4h"}, "uxtl2": {0x6F10A400, "4s", "8h"},
	"fcvtl": {0x0E217800, "4s", "4h"}, "fcvtl2": {0x4E217800, "4s", "8h"}, "fcvtn": {0x0E216800, "4h", "4s"}, "fcvtn2": {0x4E216800, "8h", "4s"},
	"fcvtl.d": {0x0E617800, "2d", "2s"}, "fcvtl2.d": {0x4E617800, "2d", "4s"},
	"bfcvtn": {0x0EA16800, "4h", "4s"}, "bfcvtn2": {0x4EA16800, "8h", "4s"},
	"scvtf": {0x4E21D800, "4s", "4s"}, "ucvtf": {0x6E21D800, "4s", "4s"}, "fcvtns": {0x4E21A800, "4s", "4s"}, "frintn": {0x4E218800, "4s", "4s"},
	"fabs": {0x4EA0F800, "4s", "4s"}, "fneg": {0x6EA0F800, "4s", "4s"},
	"xtn": {0x0E612800, "4h", "4s"}, "xtn2": {0x4E612800, "8h", "4s"}, "xtn.b": {0x0E212800, "8b", "8h"}, "xtn2.b": {0x4E212800, "16b", "8h"},
	"cnt": {0x4E205800, "16b", "16b"}, "rev64": {0x4EA00800, "4s", "4s"}, "neg": {0x6EA0B800, "4s", "4s"},
}

func (f *file) op2(name string, d, n vec) {
	i, ok := twos[name]
	if !ok {
		panic("no instruction " + name)
	}
	mnemonic, _, _ := strings.Cut(name, ".")
	f.word(i.word|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s", mnemonic, d, i.d, n, i.n)
}

func (f *file) move(d, n vec) { f.op("orr", d, n, n) }

// shifts are shifts by constants, of bytes (8) or lanes of 32 bits.
func (f *file) shift(name string, bits int, d, n vec, by int) {
	arrangement := map[int]string{8: "16b", 32: "4s"}[bits]
	base := map[string]uint32{"ushr": 0x6F000400, "sshr": 0x4F000400, "shl": 0x4F005400, "sli": 0x6F005400}[name]
	field := 2*bits - by
	if name == "shl" || name == "sli" {
		field = bits + by
	}
	f.word(base|uint32(field)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, #%d", name, d, arrangement, n, arrangement, by)
}

// high16 widens four halves to the upper halves of lanes: BF16 as float32.
func (f *file) high16(d, n vec) {
	f.word(0x2E613800|uint32(n)<<5|uint32(d), "shll v%d.4s, v%d.4h, #16", d, n)
}

func (f *file) high16upper(d, n vec) {
	f.word(0x6E613800|uint32(n)<<5|uint32(d), "shll2 v%d.4s, v%d.8h, #16", d, n)
}

// bytes sets every byte.
func (f *file) movi(d vec, b byte) {
	f.word(0x4F00E400|uint32(b>>5)<<16|uint32(b&31)<<5|uint32(d), "movi v%d.16b, #0x%x", d, b)
}

func (f *file) zero(d vec) { f.word(0x6F00E400|uint32(d), "movi v%d.2d, #0x0", d) }

// lanes sets every lane of 32 bits to b, moved up by a multiple of eight bits.
func (f *file) lanes(d vec, b byte, shift int) {
	text := fmt.Sprintf("movi v%d.4s, #0x%x", d, b)
	if shift > 0 {
		text += fmt.Sprintf(", lsl #%d", shift)
	}
	f.word(0x4F000400|uint32(b>>5)<<16|uint32(b&31)<<5|uint32(shift/8)<<13|uint32(d), "%s", text)
}

// power sets every lane to 2^-n, n from 0 to 3.
func (f *file) power(d vec, n int) {
	imm := uint32(0x70 - 0x10*n)
	f.word(0x4F00F400|imm>>5<<16|imm&31<<5|uint32(d), "fmov v%d.4s, #%.18e", d, math.Ldexp(1, -n))
}

func (f *file) dup(d, n vec, lane int) {
	f.word(0x4E040400|uint32(lane)<<19|uint32(n)<<5|uint32(d), "dup v%d.4s, v%d.s[%d]", d, n, lane)
}

func (f *file) dupW(d vec, r reg) { f.word(0x4E040C00|uint32(r)<<5|uint32(d), "dup v%d.4s, w%d", d, r) }

// by multiplies by one lane: fmul or fmla.
func (f *file) by(name string, d, n, m vec, lane int) {
	base := map[string]uint32{"fmul": 0x4F809000, "fmla": 0x4F801000}[name]
	f.word(base|uint32(lane&1)<<21|uint32(lane>>1)<<11|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.4s, v%d.4s, v%d.s[%d]", name, d, n, m, lane)
}

// tbl looks the bytes of m up in n.
func (f *file) tbl(d, n, m vec) {
	f.word(0x4E000000|uint32(m)<<16|uint32(n)<<5|uint32(d), "tbl v%d.16b, {v%d.16b}, v%d.16b", d, n, m)
}

func (f *file) ext(d, n, m vec, by int) {
	f.word(0x6E000000|uint32(m)<<16|uint32(by)<<11|uint32(n)<<5|uint32(d), "ext v%d.16b, v%d.16b, v%d.16b, #%d", d, n, m, by)
}

// halfToSingle converts one binary16 number.
func (f *file) halfToSingle(d, n vec) {
	f.word(0x1EE24000|uint32(n)<<5|uint32(d), "fcvt s%d, h%d", d, n)
}

// pairSum adds the lower two lanes.
func (f *file) pairSum(d, n vec) {
	f.word(0x7E30D800|uint32(n)<<5|uint32(d), "faddp s%d, v%d.2s", d, n)
}

// across reduces four lanes to one: fmaxv, fmaxnmv or addv.
func (f *file) across(name string, d, n vec) {
	base := map[string]uint32{"fmaxv": 0x6E30F800, "fmaxnmv": 0x6E30C800, "addv": 0x4EB1B800}[name]
	f.word(base|uint32(n)<<5|uint32(d), "%s s%d, v%d.4s", name, d, n)
}

// widths of what is loaded: the letter of the register and the words of loads and stores with scaled offsets.
var widths = map[byte]struct {
	bytes       int
	load, store uint32
}{'q': {16, 0x3DC00000, 0x3D800000}, 'd': {8, 0xFD400000, 0xFD000000}, 's': {4, 0xBD400000, 0xBD000000}, 'h': {2, 0x7D400000, 0x7D000000}, 'b': {1, 0x3D400000, 0x3D000000}}

// load loads width bytes at base+off into a register; the rest of it becomes zero.
func (f *file) load(width byte, d vec, base reg, off int) { f.access("ld", width, d, base, off) }

func (f *file) store(width byte, d vec, base reg, off int) { f.access("st", width, d, base, off) }

func (f *file) access(name string, width byte, d vec, base reg, off int) {
	w := widths[width]
	word := w.load
	if name == "st" {
		word = w.store
	}
	at := fmt.Sprintf("[x%d]", base)
	if off != 0 {
		at = fmt.Sprintf("[x%d, #%d]", base, off)
	}
	switch {
	case off >= 0 && off%w.bytes == 0 && off/w.bytes < 4096:
		f.word(word|uint32(off/w.bytes)<<10|uint32(base)<<5|uint32(d), "%sr %c%d, %s", name, width, d, at)
	case off >= -256 && off < 256:
		f.word(word&^0x01000000|uint32(off&511)<<12|uint32(base)<<5|uint32(d), "%sur %c%d, %s", name, width, d, at)
	default:
		panic(fmt.Sprintf("offset %d of %c", off, width))
	}
}

// loadQuad loads entry index of a table of 16 bytes each.
func (f *file) loadQuad(d vec, table, index reg) {
	f.word(0x3CE07800|uint32(index)<<16|uint32(table)<<5|uint32(d), "ldr q%d, [x%d, x%d, lsl #4]", d, table, index)
}

// lane0 moves the lowest lane to a general register.
func (f *file) lane0(d reg, n vec) {
	f.word(0x0E043C00|uint32(n)<<5|uint32(d), "mov w%d, v%d.s[0]", d, n)
}

// field extracts n bits from bit at on of s.
func (f *file) field(d, s reg, at, n int) {
	f.line("UBFX $%d, R%d, $%d, R%d", at, s, n, d)
	f.count("ubfx.x")
}

// loadAll loads the float32 at base into every lane.
func (f *file) loadAll(d vec, base reg) {
	f.word(0x4D40C800|uint32(base)<<5|uint32(d), "ld1r {v%d.4s}, [x%d]", d, base)
}

// prefetch asks for the line at base+off for the second-level cache.
func (f *file) prefetch(base reg, off int) {
	at := fmt.Sprintf("[x%d]", base)
	if off != 0 {
		at = fmt.Sprintf("[x%d, #%d]", base, off)
	}
	f.word(0xF9800000|uint32(off/8)<<10|uint32(base)<<5|2, "prfm pldl2keep, %s", at)
}

// constants points at the table of constants.
func (f *file) constants() reg {
	r := f.reg()
	f.line("MOVD $%s(SB), R%d", tableName, r)
	return r
}

const tableName = "neonTable<>"

// constant loads 16 bytes of the table, which b fills.
func (f *file) constant(d vec, base reg, b ...byte) { f.load('q', d, base, f.keep(b)) }

// keep returns where the table has 16 bytes that b fills.
func (f *file) keep(b []byte) int {
	for len(b) < 16 {
		b = append(b, b...)
	}
	b = b[:16]
	at, ok := f.places[string(b)]
	if !ok {
		at = len(f.table)
		f.places[string(b)] = at
		f.table = append(f.table, b...)
	}
	return at
}

// keepTogether appends b to the table as a whole and returns its place. The length of b must be a multiple of 16.
func (f *file) keepTogether(b []byte) int {
	at := len(f.table)
	f.table = append(f.table, b...)
	return at
}

// float32s returns the bytes of numbers.
func float32s(v ...float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// writeTable writes the table.
func (f *file) writeTable() string {
	var b strings.Builder
	for i := 0; i < len(f.table); i += 8 {
		fmt.Fprintf(&b, "DATA %s+%d(SB)/8, $0x%016x\n", tableName, i, binary.LittleEndian.Uint64(f.table[i:]))
	}
	if len(f.table) > 0 {
		fmt.Fprintf(&b, "GLOBL %s(SB), RODATA|NOPTR, $%d\n", tableName, len(f.table))
	}
	return b.String()
}
