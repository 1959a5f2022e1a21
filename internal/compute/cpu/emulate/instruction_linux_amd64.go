package emulate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Opcodes of map 0F38.
const (
	opTileConfig = 0x49 // configuration, release, zero
	opTileMemory = 0x4b // loads and stores
	opTileDot    = 0x5e // products of bytes
	opTileBF16   = 0x5c
	opDot        = 0x50 // VPDPBUSD
	opDotWords   = 0x52 // VPDPWSSD
)

// The prefixes that VEX holds in two bits.
const (
	prefixNone = iota
	prefix66
	prefixF3
	prefixF2
)

// instruction is a decoded one of VEX in three bytes, map 0F38, W0.
type instruction struct {
	opcode, prefix int
	reg, rm, v     int // registers; rm is -1 where there is memory
	long           bool
	address        uint64
	stride         uint64 // the index register with its scale
	bytes          int
}

var errUnknown = errors.New("no instruction that is emulated")

// decode reads the instruction at the program counter.
func (c *cpu) decode() (instruction, error) {
	var b [16]byte
	if err := c.read(b[:], c.regs.Rip); err != nil {
		return instruction{}, err
	}
	if b[0] != 0xc4 || b[1]&31 != 2 || b[2]&0x80 != 0 {
		return instruction{}, fmt.Errorf("%w: % x", errUnknown, b[:6])
	}
	highR, highX, highB := int(^b[1]>>7&1)*8, int(^b[1]>>6&1)*8, int(^b[1]>>5&1)*8
	in := instruction{opcode: int(b[3]), prefix: int(b[2] & 3), long: b[2]&4 != 0, v: int(^b[2] >> 3 & 15), reg: int(b[4]>>3&7) + highR, bytes: 5}
	mod, rm := b[4]>>6, int(b[4]&7)
	if mod == 3 {
		in.rm = rm + highB
		return in, nil
	}
	in.rm = -1
	base := rm
	if rm == 4 {
		sib := b[5]
		in.bytes++
		base = int(sib & 7)
		if index := int(sib>>3&7) + highX; index != 4 {
			in.stride = c.general(index) << (sib >> 6)
		}
	}
	if mod == 0 && base == 5 {
		return instruction{}, fmt.Errorf("%w: addresses without a base register", errUnknown)
	}
	in.address = c.general(base + highB)
	switch mod {
	case 1:
		in.address += uint64(int64(int8(b[in.bytes])))
		in.bytes++
	case 2:
		in.address += uint64(int64(int32(binary.LittleEndian.Uint32(b[in.bytes:]))))
		in.bytes += 4
	}
	return in, nil
}

// step computes the instruction at the program counter.
func (c *cpu) step() error {
	in, err := c.decode()
	if err != nil {
		return err
	}
	if in.opcode == opDot || in.opcode == opDotWords {
		err = c.dot(&in)
	} else {
		err = c.tile(&in)
	}
	if err == nil {
		c.regs.Rip += uint64(in.bytes)
	}
	return err
}

// dot computes VPDPBUSD, sums of four products of bytes, those of v without a sign, or VPDPWSSD, sums of two products
// of words.
func (c *cpu) dot(in *instruction) error {
	if in.prefix != prefix66 || !in.long {
		return errUnknown
	}
	if err := c.enter(); err != nil {
		return err
	}
	state := c.vectors
	var last [32]byte
	if in.rm >= 0 {
		last = state.ymm(in.rm)
	} else if err := c.read(last[:], in.address+in.stride); err != nil {
		return err
	}
	first, sum := state.ymm(in.v), state.ymm(in.reg)
	for i := 0; i < 32; i += 4 {
		s := int32(binary.LittleEndian.Uint32(sum[i:]))
		if in.opcode == opDotWords {
			for j := i; j < i+4; j += 2 {
				s += int32(int16(binary.LittleEndian.Uint16(first[j:]))) * int32(int16(binary.LittleEndian.Uint16(last[j:])))
			}
		} else {
			for j := i; j < i+4; j++ {
				s += int32(first[j]) * int32(int8(last[j]))
			}
		}
		binary.LittleEndian.PutUint32(sum[i:], uint32(s))
	}
	state.setYMM(in.reg, &sum)
	return nil
}

const (
	tileRows = 16
	rowBytes = 64
)

// tiles is a thread's state of AMX.
type tiles struct {
	config     [64]byte
	configured bool
	data       [8][tileRows][rowBytes]byte
}

// rows and cols are the configured size of tile i, in rows and bytes.
func (t *tiles) rows(i int) int { return int(t.config[48+i]) }
func (t *tiles) cols(i int) int { return int(binary.LittleEndian.Uint16(t.config[16+2*i:])) }

// tile computes an instruction of AMX.
func (c *cpu) tile(in *instruction) error {
	t := c.tiles
	switch {
	case in.long:
		return errUnknown
	case in.opcode == opTileConfig && in.prefix <= prefix66:
		return c.configure(in)
	case in.reg > 7 || in.rm > 7 || !t.configured || t.rows(in.reg) == 0:
		return fmt.Errorf("tile %d is not configured", in.reg)
	}
	switch in.opcode {
	case opTileConfig:
		if in.prefix != prefixF2 || in.rm != 0 {
			return errUnknown
		}
		t.data[in.reg] = [tileRows][rowBytes]byte{}
		return nil
	case opTileMemory:
		return c.moveTile(in)
	case opTileDot, opTileBF16:
		return t.multiply(in)
	}
	return errUnknown
}

// configure computes LDTILECFG, TILERELEASE and STTILECFG.
func (c *cpu) configure(in *instruction) error {
	t := c.tiles
	switch {
	case in.prefix == prefix66 && in.rm < 0:
		return c.write(t.config[:], in.address+in.stride)
	case in.prefix == prefix66:
		return errUnknown
	case in.rm >= 0:
		*t = tiles{}
		return nil
	}
	*t = tiles{}
	if err := c.read(t.config[:], in.address+in.stride); err != nil {
		return err
	}
	if t.config[0] != 1 || t.config[1] != 0 {
		return fmt.Errorf("palette %d and start row %d: 1 and 0 are known", t.config[0], t.config[1])
	}
	for i := range 8 {
		if t.rows(i) > tileRows || t.cols(i) > rowBytes || (t.rows(i) == 0) != (t.cols(i) == 0) {
			return fmt.Errorf("tile %d of %d rows of %d bytes", i, t.rows(i), t.cols(i))
		}
	}
	t.configured = true
	return nil
}

// moveTile computes TILELOADD, TILELOADDT1 and TILESTORED.
func (c *cpu) moveTile(in *instruction) error {
	if in.rm >= 0 || in.prefix == prefixNone {
		return errUnknown
	}
	t := c.tiles
	for r := range t.rows(in.reg) {
		row, at := &t.data[in.reg][r], in.address+uint64(r)*in.stride
		move := c.read
		if in.prefix == prefixF3 {
			move = c.write
		} else {
			*row = [rowBytes]byte{}
		}
		if err := move(row[:t.cols(in.reg)], at); err != nil {
			return err
		}
	}
	if in.prefix != prefixF3 {
		clear(t.data[in.reg][t.rows(in.reg):])
	}
	return nil
}

// multiply computes the products of tiles: of rm's rows with v's columns, of which four bytes lie in a row.
func (t *tiles) multiply(in *instruction) error {
	d, a, b := in.reg, in.rm, in.v
	if a < 0 || b > 7 || d == a || d == b || a == b {
		return errUnknown
	}
	if t.rows(a) != t.rows(d) || t.cols(a) != 4*t.rows(b) || t.cols(b) != t.cols(d) || t.cols(a)%4 != 0 {
		return fmt.Errorf("tiles of %dx%d and %dx%d bytes do not multiply to %dx%d", t.rows(a), t.cols(a), t.rows(b), t.cols(b), t.rows(d), t.cols(d))
	}
	for m := range t.rows(d) {
		row := &t.data[d][m]
		for n := 0; n < t.cols(d); n += 4 {
			sum := binary.LittleEndian.Uint32(row[n:])
			if in.opcode == opTileBF16 {
				if in.prefix != prefixF3 {
					return errUnknown
				}
				sum = math.Float32bits(t.pairs(a, b, m, n, math.Float32frombits(sum)))
			} else {
				sum = uint32(t.bytes(a, b, m, n, in.prefix, int32(sum)))
			}
			binary.LittleEndian.PutUint32(row[n:], sum)
		}
	}
	clear(t.data[d][t.rows(d):])
	return nil
}

// bytes adds a row's products of bytes; prefix says which have signs.
func (t *tiles) bytes(a, b, m, n, prefix int, sum int32) int32 {
	aSigned, bSigned := prefix == prefixF2 || prefix == prefixF3, prefix == prefixF2 || prefix == prefix66
	// TDPBSSD F2, TDPBSUD F3, TDPBUSD 66, TDPBUUD none
	for k := range t.rows(b) {
		for i := range 4 {
			sum += number(t.data[a][m][4*k+i], aSigned) * number(t.data[b][k][n+i], bSigned)
		}
	}
	return sum
}

func number(b byte, signed bool) int32 {
	if signed {
		return int32(int8(b))
	}
	return int32(b)
}

// pairs adds a row's products of BF16: even and odd ones are summed apart, each step rounded once, and then added, all
// with denormals as zero.
func (t *tiles) pairs(a, b, m, n int, sum float32) float32 {
	var acc [2]float32
	for k := range t.rows(b) {
		for i := range acc {
			x := bf16(t.data[a][m][4*k+2*i:])
			y := bf16(t.data[b][k][n+2*i:])
			acc[i] = flushed(float32(math.FMA(float64(x), float64(y), float64(acc[i]))))
		}
	}
	return flushed(flushed(sum) + flushed(acc[0]+acc[1]))
}

func bf16(b []byte) float32 {
	return flushed(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
}

// flushed is v, or zero of its sign where v is denormal.
func flushed(v float32) float32 {
	if math.Float32bits(v)&0x7f800000 == 0 {
		return float32(math.Copysign(0, float64(v)))
	}
	return v
}
