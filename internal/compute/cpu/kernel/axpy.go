package kernel

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// RowSum adds scaled rows of one matrix, in the order they are given: the down projection of active neurons. The sums of
// types with a kernel of their own lie in lane order (element i of block j of a superblock at 8i+j) until Finish.
type RowSum struct {
	t     quant.Type
	cols  int
	sum   []float32 // [SumLen(cols)]
	add1  func(sum *float32, rows *[1]*byte, coef *[1]float32, n uintptr)
	add4  func(sum *float32, rows *[4]*byte, coef *[4]float32, n uintptr)
	steps uintptr
	row   []float32 // scratch of types without a kernel [cols]
	k     *Kernels
	n     int // rows waiting
	rows  [4]*byte
	coef  [4]float32
}

// SumLen is the length of the memory that a RowSum over cols columns needs.
func SumLen(cols int) int { return Super(cols) * quant.QKK }

// rowAdders are a type's kernels.
type rowAdders struct {
	one   func(sum *float32, rows *[1]*byte, coef *[1]float32, n uintptr)
	four  func(sum *float32, rows *[4]*byte, coef *[4]float32, n uintptr)
	lanes bool
}

// Begin starts a sum of rows [cols] of type t in sum [SumLen(cols)], which it clears. scratch [cols] is for types without a
// kernel of their own.
func (s *RowSum) Begin(k *Kernels, t quant.Type, cols int, sum, scratch []float32) {
	*s = RowSum{t: t, cols: cols, sum: sum[:SumLen(cols)], row: scratch[:cols], k: k}
	clear(s.sum)
	a := &k.adders[t]
	if a.one == nil || !a.lanes && cols%8 != 0 {
		return
	}
	s.add1, s.add4, s.steps = a.one, a.four, uintptr(cols/8)
	if a.lanes {
		s.steps = uintptr(Super(cols))
	}
}

// Add adds c times a packed row.
func (s *RowSum) Add(row []byte, c float32) {
	if s.add1 == nil {
		addRowGeneric(s.t, s.sum, row, s.row, c)
		return
	}
	s.rows[s.n], s.coef[s.n] = unsafe.SliceData(row), c
	s.n++
	if s.n == len(s.rows) {
		s.add4(&s.sum[0], &s.rows, &s.coef, s.steps)
		s.n = 0
	}
}

// Finish adds what is waiting and puts the sum into dst [cols].
func (s *RowSum) Finish(dst []float32) {
	for i := range s.n {
		s.add1(&s.sum[0], (*[1]*byte)(s.rows[i:]), (*[1]float32)(s.coef[i:]), s.steps)
	}
	s.n = 0
	if !Quantised(s.t) {
		copy(dst, s.sum[:s.cols])
		return
	}
	for i := range dst[:s.cols] {
		dst[i] = s.sum[i&^255|i%32*8|i/32%8]
	}
}

// addRowGeneric adds c times row to sum, in lane order where t is quantised: the definition.
func addRowGeneric(t quant.Type, sum []float32, row []byte, scratch []float32, c float32) {
	if !Quantised(t) {
		UnpackRow(t, scratch, row)
		for i, w := range scratch {
			sum[i] = fma(c, w, sum[i])
		}
		return
	}
	var w superblock
	for s := range len(sum) / quant.QKK {
		w.read(t, row, s)
		out := sum[s*quant.QKK:][:quant.QKK]
		for e, v := range w.q {
			at := e%32*8 + e/32
			out[at] = fma(float32(v), c*w.scale[e/32]*float32(w.half[e/16]), out[at])
			if min := w.min[e/32]; min != 0 {
				out[at] = fma(-c, min, out[at])
			}
		}
	}
}
