package quant

import (
	"encoding/binary"
	"math"
)

// Blocks of 32 elements with importances are encoded several at once, so that vector kernels have one in each lane.

// blocksAtOnce is the number of blocks of 32 that are encoded together.
const blocksAtOnce = QKK / QK

// encodeQ4_0: the value of largest magnitude becomes -8.
func encodeQ4_0(b []byte, x []float32) {
	d := absMax(x) / -8
	id := inverse(d)
	putHalf(b, d)
	low, high := x[:QK/2], x[QK/2:QK]
	for i := range b[2 : 2+QK/2] {
		b[2+i] = byte(min(15, int32(float32(low[i]*id)+8.5))) | byte(min(15, int32(float32(high[i]*id)+8.5)))<<4
	}
}

func weighedQ4_0(b []byte, x, importance []float32, power float32) {
	symmetricBlocks(x, importance, power, 8, func(block int, d float32, q *[QK]uint8) {
		at := b[block*18:][:18]
		putHalf(at, d)
		putHalves(at[2:], q)
	})
}

// encodeQ5_0: the value of largest magnitude becomes -16.
func encodeQ5_0(b []byte, x []float32) {
	d := absMax(x) / -16
	id := inverse(d)
	putHalf(b, d)
	var q [QK]uint8
	for i, v := range x {
		q[i] = uint8(max(0, min(31, int(float32(v*id)+16.5))))
	}
	putFiveBits(b[2:], &q)
}

func weighedQ5_0(b []byte, x, importance []float32, power float32) {
	symmetricBlocks(x, importance, power, 16, func(block int, d float32, q *[QK]uint8) {
		at := b[block*22:][:22]
		putHalf(at, d)
		putFiveBits(at[2:], q)
	})
}

// encodeQ4_1: the smallest value becomes 0 and the largest 15, as in ggml's reference quantiser; halves are rounded up.
func encodeQ4_1(b []byte, x []float32) {
	var q [QK]uint8
	d, least := spread(&q, x, 15)
	putHalf(b, d)
	putHalf(b[2:], least)
	putHalves(b[4:], &q)
}

func weighedQ4_1(b []byte, x, importance []float32, power float32) {
	minimumBlocks(x, importance, power, 15, func(block int, d, m float32, q *[QK]uint8) {
		at := b[block*20:][:20]
		putHalf(at, d)
		putHalf(at[2:], m)
		putHalves(at[4:], q)
	})
}

// encodeQ5_1: the smallest value becomes 0 and the largest 31.
func encodeQ5_1(b []byte, x []float32) {
	var q [QK]uint8
	d, least := spread(&q, x, 31)
	putHalf(b, d)
	putHalf(b[2:], least)
	putFiveBits(b[4:], &q)
}

func weighedQ5_1(b []byte, x, importance []float32, power float32) {
	minimumBlocks(x, importance, power, 31, func(block int, d, m float32, q *[QK]uint8) {
		at := b[block*24:][:24]
		putHalf(at, d)
		putHalf(at[2:], m)
		putFiveBits(at[4:], q)
	})
}

// spread lays whole numbers from 0 to most over the elements' range; halves are rounded up.
func spread(q *[QK]uint8, x []float32, most float32) (d, least float32) {
	if rowVectors() {
		return spreadVectors(q, x, most)
	}
	return spreadGeneric(q, x, most)
}

func spreadGeneric(q *[QK]uint8, x []float32, most float32) (d, least float32) {
	least, top := x[0], x[0]
	for _, v := range x {
		least, top = min(least, v), max(top, v)
	}
	least, top = least+0, top+0 // the positive one of two zeros
	d = (top - least) / most
	id := inverse(d)
	for i, v := range x {
		q[i] = uint8(min(int(most), int(float32((v-least)*id)+0.5)))
	}
	return d, least
}

// symmetricBlocks fits blocks of quants from −most to most−1 and hands each to put, the quants raised by most.
func symmetricBlocks(x, importance []float32, power, most float32, put func(block int, d float32, q *[QK]uint8)) {
	var w [QKK]float32
	var scale [blocksAtOnce]float32
	n := len(x) / QK
	weigh(w[:len(x)], x, importance, power)
	fitScales(scale[:n], x, w[:len(x)], most)
	for j, d := range scale[:n] {
		var q [QK]uint8
		roundScale(q[:], x[j*QK:][:QK], asHalf(d), most)
		put(j, d, &q)
	}
}

// minimumBlocks fits blocks of quants from 0 to most over a minimum and hands each to put; m is added.
func minimumBlocks(x, importance []float32, power, most float32, put func(block int, d, m float32, q *[QK]uint8)) {
	var w [QKK]float32
	var scale, least [blocksAtOnce]float32
	n := len(x) / QK
	weigh(w[:len(x)], x, importance, power)
	fitMinima(scale[:n], least[:n], x, w[:len(x)], most, weighedGrids())
	for j, d := range scale[:n] {
		var q [QK]uint8
		roundMinimum(q[:], x[j*QK:][:QK], asHalf(d), asHalf(least[j]), most)
		put(j, d, -least[j], &q)
	}
}

// putHalves packs quants of four bits: the first half of the block are the low nibbles.
func putHalves(b []byte, q *[QK]uint8) {
	const low4 = 0x0f0f0f0f0f0f0f0f
	le := binary.LittleEndian
	for i := 0; i < QK/2; i += 8 {
		le.PutUint64(b[i:], le.Uint64(q[i:])&low4|le.Uint64(q[i+QK/2:])&low4<<4)
	}
}

// putFiveBits packs the fifth bits of quants in four bytes, and then the low nibbles.
func putFiveBits(b []byte, q *[QK]uint8) {
	const bit0, gather = 0x0101010101010101, 0x0102040810204080 // the product has bit 0 of byte k at 56+k
	for i := range 4 {
		b[i] = uint8(binary.LittleEndian.Uint64(q[8*i:]) >> 4 & bit0 * gather >> 56)
	}
	putHalves(b[4:], q)
}

// encodeQ8_0: the largest magnitude becomes ±127; halves round away from zero.
func encodeQ8_0(b []byte, x []float32) {
	d := abs(absMax(x)) / 127
	id := inverse(d)
	putHalf(b, d)
	for i, v := range x {
		b[2+i] = byte(awayFromZero(v * id))
	}
}

// awayFromZero rounds to a whole number, halves away from zero.
func awayFromZero(v float32) int8 {
	const nearlyHalf = 0.5 - 0x1p-25 // the largest float32 below a half: anything less than a half stays below, and a half is rounded up to one
	return int8(v + math.Float32frombits(math.Float32bits(nearlyHalf)|math.Float32bits(v)&(1<<31)))
}
