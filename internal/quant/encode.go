package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encode stores src as t in dst, which holds exactly t.RowBytes(len(src)) bytes; len(src) is a multiple of t's block.
//
// The plain blocks of 32 and the ternary types are rounded as ggml's reference quantisers do; the scales of others are
// searched for what loses least (fit.go). Block types take finite numbers whose scale fits binary16.
func Encode(t Type, dst []byte, src []float32) {
	if !t.Known() || len(src)%t.BlockElems() != 0 || len(dst) != t.RowBytes(len(src)) {
		panic(fmt.Sprintf("quant: %d elements do not fill %d bytes of %s", len(src), len(dst), t))
	}
	e := t.entry()
	if e.encode == nil {
		panic(fmt.Sprintf("quant: %s has no encoder", t))
	}
	if e.vectors != nil {
		n := e.vectors(dst, src)
		dst, src = dst[t.RowBytes(n):], src[n:]
	}
	if e.blockElems == 1 {
		e.encode(dst, src)
		return
	}
	for len(src) > 0 {
		e.encode(dst[:e.blockBytes], src[:e.blockElems])
		dst, src = dst[e.blockBytes:], src[e.blockElems:]
	}
}

// EncodeWeighted stores one row as Encode does, where errors count by the importance of their elements, numbers that
// are not negative, one for each. Types that have nothing to choose ignore it, as blocks do of which nothing is
// important; nil stands for none.
func EncodeWeighted(t Type, dst []byte, src, importance []float32) {
	weighed := t.entry().weighed
	if importance == nil || weighed == nil {
		Encode(t, dst, src)
		return
	}
	if len(src)%t.BlockElems() != 0 || len(dst) != t.RowBytes(len(src)) || len(importance) != len(src) {
		panic(fmt.Sprintf("quant: a row of %d elements with %d importances does not fill %d bytes of %s", len(src), len(importance), len(dst), t))
	}
	power := meanSquare(src)
	for len(src) > 0 {
		n := min(QKK, len(src))
		size := t.RowBytes(n)
		if absMax(importance[:n]) > 0 {
			weighed(dst[:size], src[:n], importance[:n], power)
		} else {
			Encode(t, dst[:size], src[:n])
		}
		dst, src, importance = dst[size:], src[n:], importance[n:]
	}
}

// Weighable reports whether t's encoding can take importances.
func (t Type) Weighable() bool { return t.entry().weighed != nil }

// putter writes a superblock whose elements have weights.
type putter func(b []byte, x []float32, w *[QKK]float32)

// alone returns an encoder of superblocks whose elements have the weights that weights gives them.
func alone(weights func(w, x []float32), put putter) func(b []byte, x []float32) {
	return func(b []byte, x []float32) {
		var w [QKK]float32
		weights(w[:], x)
		put(b, x, &w)
	}
}

// byImportance returns an encoder of superblocks whose elements have the weights that weigh gives them, where power is
// so many times the mean square of the superblock.
func byImportance(times float32, put putter) func(b []byte, x, importance []float32, _ float32) {
	return func(b []byte, x, importance []float32, _ float32) {
		var w [QKK]float32
		weigh(w[:], x, importance, times*meanSquare(x))
		put(b, x, &w)
	}
}

func encodeF32(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}

func encodeF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F16FromF32(v))
	}
}

func encodeBF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], BF16FromF32(v))
	}
}

func encodeI32(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(int32(v)))
	}
}

func putHalf(b []byte, v float32) { binary.LittleEndian.PutUint16(b, F16FromF32(v)) }

// inverse returns 1/d; of what is too small for that, 0.
func inverse(d float32) float32 {
	const least = 0x1p-126
	if abs(d) < least {
		return 0
	}
	return 1 / d
}

// TopMagnitude returns the bits of the largest magnitude of x, which are ordered as the magnitudes are; what is not a
// number is above all others.
func TopMagnitude(x []float32) uint32 {
	top, n := topVectors(x)
	for _, v := range x[n:] {
		top = max(top, math.Float32bits(v)&^(1<<31))
	}
	return top
}

// absMax returns the first element of largest magnitude.
func absMax(x []float32) (signed float32) {
	var top float32
	for _, v := range x {
		if a := abs(v); a > top {
			top, signed = a, v
		}
	}
	return signed
}
