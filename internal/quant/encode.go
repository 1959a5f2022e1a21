package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encode stores src as t in dst, which holds exactly t.RowBytes(len(src)) bytes; len(src) is a multiple of t's block.
//
// Plain blocks of 32 and the ternary types are rounded as ggml's reference quantisers do. The scales of others are
// searched for the least error (fit.go). Block types need finite numbers with a scale that fits binary16.
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

// EncodeWeighted stores one row like Encode, but weighs errors by the importance of the elements: one non-negative
// number each, or nil. Types without a choice ignore it, and so do blocks without importance.
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

// putter writes a superblock of weighted elements.
type putter func(b []byte, x []float32, w *[QKK]float32)

// alone returns an encoder of superblocks with elements weighted by weights.
func alone(weights func(w, x []float32), put putter) func(b []byte, x []float32) {
	return func(b []byte, x []float32) {
		var w [QKK]float32
		weights(w[:], x)
		put(b, x, &w)
	}
}

// byImportance returns an encoder of superblocks with elements weighted by weigh; power is this multiple of the
// superblock's mean square.
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

func encodeI64(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint64(dst[8*i:], uint64(int64(v)))
	}
}

func putHalf(b []byte, v float32) { binary.LittleEndian.PutUint16(b, F16FromF32(v)) }

// inverse returns 1/d, or 0 if d is too small for that.
func inverse(d float32) float32 {
	const least = 0x1p-126
	if abs(d) < least {
		return 0
	}
	return 1 / d
}

// TopMagnitude returns the bits of the largest magnitude of x. Bits are ordered like magnitudes; NaNs are above all
// others.
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
