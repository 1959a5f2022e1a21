package main

import (
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// A superblock is computed in two halves: lane j of a vector is block j of the first four, or block 4+j. Sums are
// computed as in dotGeneric, lane by lane.

// Instruction sets by the names that kernels end in: ARMv8.0, and with dot products of bytes (ARMv8.2, ARMv8.4 always).
const (
	plain = "NEON"
	dots  = "DOT"
)

// kernel is a tile of r rows and t tokens, or one token's stream of rows.
type kernel struct {
	*file
	isa  string
	typ  quant.Type
	r, t int
	// panel is the form of the rows' panel, which holds signed bytes; empty: there is no panel. Typ is then one of the
	// form's types.
	panel string
	// filed says that rows are as files have them.
	filed bool

	w, x   []reg // rows' superblocks, from their quants on where rows are packed, and tokens'
	n      reg
	table  reg
	masks  map[byte]vec
	book   vec
	shifts vec // shifts for SixBits' fields
	// Operands of the scales' computation. They stay in registers if there are enough; otherwise they are made again.
	kept map[string]vec
}

// scratch returns a register that set fills, or has filled before the loop.
func (k *kernel) scratch(name string, set func(d vec)) vec {
	if v, ok := k.kept[name]; ok {
		return v
	}
	v := k.vec()
	set(v)
	return v
}

// roomy reports whether registers are left in addition to the sums.
func (k *kernel) roomy() bool { return !k.twoSums() || k.r*k.t <= 4 && k.isa == dots || k.r*k.t == 1 }

func (k *kernel) traits() quant.Traits { return k.typ.Traits() }

// twoSums reports whether the halves of a block have scales of their own.
func (k *kernel) twoSums() bool {
	switch k.traits().Scales {
	case quant.HalfBlocks, quant.NibbleMinima, quant.SmallFloats:
		return true
	}
	return false
}

// header returns the offset from the quants of a place disp bytes after the superblock's start.
func (k *kernel) header(disp int) int { return disp - layout.Of(k.typ).Quants }

// known reports whether there are kernels for types like t.
func known(t quant.Type) bool {
	switch t.Traits().Scales {
	case quant.BlockScale, quant.BlockMin, quant.SixBits, quant.HalfBlocks, quant.ByteBlocks, quant.NibbleMinima, quant.Exponents, quant.SuperScale,
		quant.SmallFloats:
		return t.Quantised()
	}
	return false
}

// bytes is the size of a superblock of weights.
func (k *kernel) bytes() int {
	if k.panel != "" {
		return layout.NeonPanel(k.typ)
	}
	if k.filed {
		return k.typ.RowBytes(quant.QKK)
	}
	return layout.Of(k.typ).Bytes
}

// prepare loads what stays in registers.
func (k *kernel) prepare() {
	k.table = k.constants()
	if k.panel != "" {
		return
	}
	k.masks = map[byte]vec{}
	mask := func(b byte) {
		if _, ok := k.masks[b]; !ok {
			k.masks[b] = k.vec()
			k.movi(k.masks[b], b)
		}
	}
	switch k.traits().Bits {
	case 2:
		mask(0x03)
	case 3:
		mask(0x03)
		mask(0x04)
	case 4:
		mask(0x0f)
	case 5:
		mask(0x0f)
		mask(0x10)
	case 6:
		mask(0x0f)
		mask(0x30)
	}
	if values := k.traits().Codebook; values != nil {
		var b []byte
		for _, v := range values {
			b = append(b, byte(v))
		}
		k.book = k.vec()
		k.constant(k.book, k.table, b...)
	}
	k.kept = map[string]vec{}
	if k.roomy() {
		if k.traits().Scales == quant.Exponents {
			k.kept["least"] = k.scratch("least", k.leastExponent)
		}
		if k.traits().Halvings > 0 {
			k.kept["halved"] = k.scratch("halved", k.halved)
		}
		if k.traits().Scales == quant.NibbleMinima {
			k.kept["nibble"] = k.scratch("nibble", k.nibble)
		}
	}
	if k.filed {
		switch k.typ { // scales of six bits
		case quant.Q4_K, quant.Q5_K:
			mask(0x3f)
			fallthrough
		case quant.Q3_K, quant.IQ4_XS:
			mask(0x0f)
			mask(0x30)
		}
		return
	}
	if k.traits().Scales == quant.SixBits {
		k.shifts = k.vec()
		var b []byte
		for j := range 4 {
			b = append(b, byte(-(6 * j % 8)), 0, 0, 0)
		}
		k.constant(k.shifts, k.table, b...)
		k.masks[63] = k.vec()
		k.lanes(k.masks[63], 63, 0)
	}
}
