package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Sums of weighted rows are the down projection of active neurons: row i is neuron i's column, its weight a_i. Rows of
// Q4_0 and Q8_0 are added sixteen at a time: coefficient times block scale is rounded to eight bits of the largest of
// the sixteen, so that products are integers, which costs a quarter of a percent and is four times as fast as floats.

// sumBatch is the number of quantised rows that are added at a time, floatBatch the number of float rows.
const (
	sumBatch   = 16
	floatBatch = 4
)

// A sum's order: for types in superblocks, element i of block b of a superblock is at sumPlace(b, i), the order in
// which the kernels unpack. For float types elements keep their order.
func sumPlace(b, i int) int { return (2*(i/4)+b%4/2)*16 + b/4*8 + b%2*4 + i%4 }

// Sums returns the length of a sum over cols columns.
func Sums(cols int) int { return Super(cols) * quant.QKK }

// Ordered writes a sum of rows of type t to dst [columns], in the columns' order.
func Ordered(t quant.Type, dst, sum []float32) {
	if !summedInt8(t) {
		copy(dst, sum)
		return
	}
	for s := range Super(len(dst)) {
		from, to := (*[quant.QKK]float32)(sum[s*quant.QKK:]), dst[s*quant.QKK:]
		for at := 0; at < min(len(to), quant.QKK); at += 4 {
			*(*[4]float32)(to[at:]) = *(*[4]float32)(from[sumPlace(at/32, at%32):])
		}
	}
}

// summedInt8 reports whether rows of t are added as integers.
func summedInt8(t quant.Type) bool { return t.Traits().Columns }

// adders are a type's kernels; nil where there are none.
type adders struct {
	rows   func(sum *float32, rows *[sumBatch]*byte, coef *[sumBatch]float32, pairs, n uintptr, next *[sumBatch]*byte)
	group  func(sum *float32, rows *[sumBatch]*byte, coef *[sumBatch]int8, pairs, n uintptr, next *[sumBatch]*byte, scales *byte, scale float32, soon *byte)
	floats func(sum *float32, rows *[floatBatch]*byte, coef *[floatBatch]float32, n uintptr, next *[floatBatch]*byte)
}

// RowsHeld bounds the rows that a RowSum holds at once.
const RowsHeld = 2 * sumBatch

// RowSum adds weighted packed rows of one matrix in the order they are given.
type RowSum struct {
	k     *Kernels
	t     quant.Type
	cols  int
	sum   []float32 // [Sums(cols)]
	size  int       // rows of a batch
	least int       // bytes of a row
	n     int       // rows waiting: up to two batches, so that the second is asked for while the first is added
	rows  [RowsHeld]*byte
	coef  [RowsHeld]float32
	wide  [floatBatch][quant.QKK]float32 // superblocks of rows, unpacked
	panel [panelSuper]byte
}

// Begin starts a sum of rows [cols] of type t in sum [Sums(cols)], which it does not clear.
func (s *RowSum) Begin(k *Kernels, t quant.Type, cols int, sum []float32) {
	s.k, s.t, s.cols, s.sum, s.n = k, t, cols, sum[:Sums(cols)], 0
	s.least = SuperAt(t, Super(cols))
	if !t.Quantised() {
		s.least = t.RowBytes(cols)
	}
	s.size = sumBatch
	if !summedInt8(t) {
		s.size = floatBatch
	}
}

// Add adds c times a packed row, which must stay where it is until RowsHeld more were added, or Finish.
func (s *RowSum) Add(row []byte, c float32) {
	_ = row[s.least-1]
	s.rows[s.n], s.coef[s.n] = unsafe.SliceData(row), c
	s.n++
	if s.n == 2*s.size {
		s.batch()
	}
}

// batch adds what waits, up to a batch, and moves the rest up.
func (s *RowSum) batch() {
	n := min(s.n, s.size)
	next := s.n - n
	for i := n; i < s.size; i++ { // a batch is filled up with rows of no weight
		s.rows[i], s.coef[i] = s.rows[0], 0
	}
	s.add(n, s.rows[s.size:])
	copy(s.rows[:next], s.rows[n:s.n])
	copy(s.coef[:next], s.coef[n:s.n])
	s.n = next
}

// add adds rows[:n]. next are rows to prefetch. Its elements after the last waiting row are left over from earlier
// rows; prefetching them does no harm.
func (s *RowSum) add(n int, next []*byte) {
	a := &s.k.adders[s.t]
	if s.n <= s.size {
		next = s.rows[:s.size]
	}
	switch {
	case a.rows != nil:
		a.rows(&s.sum[0], (*[sumBatch]*byte)(s.rows[:]), (*[sumBatch]float32)(s.coef[:]), uintptr(n+1)/2, uintptr(Super(s.cols)), (*[sumBatch]*byte)(filled(next, s.rows[0])))
	case a.floats != nil && s.cols%32 == 0:
		a.floats(&s.sum[0], (*[floatBatch]*byte)(s.rows[:]), (*[floatBatch]float32)(s.coef[:]), uintptr(s.cols/32), (*[floatBatch]*byte)(filled(next, s.rows[0])))
	case s.k.unpack[s.t].known():
		s.addUnpacked()
	case summedInt8(s.t):
		addRowsGeneric(s.t, s.sum, s.rows[:n], s.coef[:n], Super(s.cols))
	default:
		addFloatsGeneric(s.t, s.sum[:s.cols], s.rows[:s.size], s.coef[:s.size])
	}
}

// addUnpacked adds a batch of rows superblock by superblock, each turned into floats.
func (s *RowSum) addUnpacked() {
	var rows [floatBatch]*byte
	for r := range rows {
		rows[r] = (*byte)(unsafe.Pointer(&s.wide[r]))
	}
	add, size := s.k.adders[quant.F32].floats, layout.Of(s.t).Bytes
	for i := range Super(s.cols) {
		for r := range rows {
			s.k.unpack[s.t].super(&s.wide[r], (*byte)(unsafe.Add(unsafe.Pointer(s.rows[r]), i*size)), &s.panel)
		}
		add(&s.sum[i*quant.QKK], &rows, (*[floatBatch]float32)(s.coef[:]), quant.QKK/32, &rows)
	}
}

// filled is p with row wherever nothing was set yet.
func filled(p []*byte, row *byte) []*byte {
	for i := range p {
		if p[i] == nil {
			p[i] = row
		}
	}
	return p
}

// Finish adds what is waiting.
func (s *RowSum) Finish() {
	for s.n > 0 {
		s.batch()
	}
}

// sumFloor is 2^-100. Blocks with a largest product below it add nothing, because the inverse of that product could be
// infinite.
const sumFloor = 0x1p-100

// addRowsGeneric adds weighted packed rows over n superblocks: the definition of sums of quantised rows.
func addRowsGeneric(t quant.Type, sum []float32, rows []*byte, coef []float32, n int) {
	var w superblock
	for s := range n {
		var product [sumBatch][8]float32
		var most, scale, inverse [8]float32
		for r, p := range rows {
			w.read(t, unsafe.Slice(p, (s+1)*layout.Of(t).Bytes), s)
			for b := range 8 {
				product[r][b] = w.scale[b] * coef[r]
				most[b] = max(most[b], float32(math.Abs(float64(product[r][b]))))
			}
		}
		for b, m := range most {
			if m >= sumFloor {
				scale[b], inverse[b] = m*float32(1.0/127), 127/m
			}
		}
		var total [quant.QKK]int32
		for r, p := range rows {
			w.read(t, unsafe.Slice(p, (s+1)*layout.Of(t).Bytes), s)
			var factor [8]int32
			for b := range factor {
				factor[b] = int32(math.RoundToEven(float64(product[r][b] * inverse[b])))
			}
			for i, q := range w.q {
				total[i] += int32(q) * factor[i%32/4]
			}
		}
		out := sum[s*quant.QKK:][:quant.QKK]
		for e := range total {
			at := sumPlace(e/32, e%32)
			out[at] = fma(float32(total[place(e)]), scale[e/32], out[at])
		}
	}
}

// Unpack writes superblock s of a packed row of cols elements to dst in the order of sums.
func (k *Kernels) Unpack(t quant.Type, dst *[quant.QKK]float32, row []byte, cols, s int) {
	a := &k.adders[t]
	if t == quant.F16 {
		part := dst[:min(quant.QKK, cols-s*quant.QKK)]
		k.FromF16(part, unsafe.Slice((*uint16)(unsafe.Pointer(&row[2*quant.QKK*s])), len(part)))
		return
	}
	if u := &k.unpack[t]; u.known() {
		scratch := k.scratch.Get().(*blockScratch)
		u.super(dst, &row[s*layout.Of(t).Bytes], (*[panelSuper]byte)(scratch.panel))
		k.scratch.Put(scratch)
		return
	}
	if a.rows == nil {
		unpackSuper(t, dst[:min(quant.QKK, cols-s*quant.QKK)], row, s)
		if summedInt8(t) {
			from := *dst
			for e, v := range from {
				dst[sumPlace(e/32, e%32)] = v
			}
		}
		return
	}
	clear(dst[:])
	var rows [sumBatch]*byte
	coef := [sumBatch]float32{1}
	rows[0] = &row[s*layout.Of(t).Bytes]
	rows[1] = rows[0]
	a.rows(&dst[0], &rows, &coef, 1, 1, &rows)
}

// Place returns the place of element e of a superblock of type t in the order of sums.
func Place(t quant.Type, e int) int {
	if !summedInt8(t) {
		return e
	}
	return sumPlace(e/32, e%32)
}

// addFloatsGeneric adds weighted packed rows, element by element: the definition of sums of all other types.
func addFloatsGeneric(t quant.Type, sum []float32, rows []*byte, coef []float32) {
	var block [quant.QKK]float32
	for r, p := range rows {
		if coef[r] == 0 {
			continue
		}
		row := unsafe.Slice(p, RowBytes(t, len(sum)))
		for i := 0; i < len(sum); i += quant.QKK {
			part := sum[i:min(len(sum), i+quant.QKK)]
			unpackSuper(t, block[:len(part)], row, i/quant.QKK)
			for e, w := range block[:len(part)] {
				part[e] = fma(coef[r], w, part[e])
			}
		}
	}
}

// A matrix with neurons as columns is packed in groups of 32 neurons, the size of a block in the file's rows. Quants do
// not change. A group has first its scales, one f16 for every row in the order of sums, and then one plane of quants
// for every neuron, in the superblocks of packed rows.

// GroupNeurons is the number of neurons in a group.
const GroupNeurons = 32

// planeBytes returns the size of a neuron's quants over rows outputs.
func planeBytes(t quant.Type, rows int) int { return Super(rows) * quantBytes(t) }

// quantBytes returns the size of a packed superblock without its scales. Columns of type t can be neurons.
func quantBytes(t quant.Type) int { return layout.Of(t).Bytes - layout.Of(t).Quants }

// GroupBytes returns the size of a group of a matrix with rows outputs.
func GroupBytes(t quant.Type, rows int) int {
	return Super(rows)*quant.QKK*2 + GroupNeurons*planeBytes(t, rows)
}

// GroupSum adds weighted neurons of a matrix packed in groups.
type GroupSum struct {
	k     *Kernels
	t     quant.Type
	super int // superblocks of outputs
	from  int // the first superblock
	data  []byte
	sum   []float32 // [Sums(rows)]
	group int       // bytes of a group, which begins with scales
	quant int       // bytes of scales before the neurons' quants
	size  int       // bytes of a neuron's quants
	ask   [sumBatch]*byte
	plane [sumBatch]*byte
	coef  [sumBatch]int8
}

// Begin starts a sum over the neurons of data, groups of a matrix with rows outputs, in sum, which it does not clear: of
// the outputs from superblock from on, as many as sum has.
func (s *GroupSum) Begin(k *Kernels, t quant.Type, data []byte, rows, from int, sum []float32) {
	s.k, s.t, s.data, s.super, s.from, s.sum = k, t, data, len(sum)/quant.QKK, from, sum
	s.group, s.quant, s.size = GroupBytes(t, rows), Super(rows)*quant.QKK*2, planeBytes(t, rows)
}

// askAhead is the distance at which quants are prefetched, in neurons before their turn.
const askAhead = sumBatch

// Ask prefetches the first neurons of list, which are added next.
func (s *GroupSum) Ask(list []int32) {
	if s.k.fetch == nil {
		return
	}
	for _, n := range list[:min(askAhead, len(list))] {
		s.k.fetch(s.quants(n), uintptr(s.super*quantBytes(s.t)/64))
	}
}

// quants returns the address of neuron n's quants.
func (s *GroupSum) quants(n int32) *byte {
	return &s.data[int(n)/GroupNeurons*s.group+s.quant+int(n)%GroupNeurons*s.size+s.from*quantBytes(s.t)]
}

// scales returns the scales of neuron n's group for the sum's outputs.
func (s *GroupSum) scales(n int32) []byte {
	return s.data[int(n)/GroupNeurons*s.group+s.from*quant.QKK*2:][:len(s.sum)*2]
}

// Add adds the first n neurons of list, all of one group. Neuron i has the weight a[i]. list is in ascending order;
// later calls add the rest of it.
func (s *GroupSum) Add(list []int32, n int, a []float32) {
	var most float32
	for _, i := range list[:n] {
		most = max(most, float32(math.Abs(float64(a[i]))))
	}
	if most < sumFloor {
		return
	}
	group := s.scales(list[0])
	next := group // scales of the group that is added after this one
	if n < len(list) {
		next = s.scales(list[n])
	}
	inverse := 127 / most
	for at := 0; at < n; at += sumBatch {
		batch := min(sumBatch, n-at)
		for i := range (batch + 3) &^ 3 { // filled up with rows of no weight
			s.plane[i], s.coef[i] = s.plane[0], 0
			if i < batch {
				neuron := list[at+i]
				s.plane[i] = s.quants(neuron)
				s.coef[i] = int8(math.RoundToEven(float64(a[neuron] * inverse)))
			}
			s.ask[i] = s.plane[i]
			if soon := at + i + askAhead; soon < len(list) {
				s.ask[i] = s.quants(list[soon])
			}
		}
		s.add(batch, group, next, most/127)
	}
}

func (s *GroupSum) add(n int, group, next []byte, scale float32) {
	if f := s.k.adders[s.t].group; f != nil {
		f(&s.sum[0], &s.plane, &s.coef, uintptr(n+1)/2, uintptr(s.super), &s.ask, &group[0], scale, &next[0])
		return
	}
	addGroupGeneric(s.t, s.sum, s.plane[:n], s.coef[:n], group, scale)
}

// addGroupGeneric adds weighted neurons of one group to sum: the definition of sums over groups.
func addGroupGeneric(t quant.Type, sum []float32, planes []*byte, coef []int8, scales []byte, scale float32) {
	quants := quantBytes(t)
	for at := range sum {
		s, p := at/quant.QKK, at%quant.QKK
		b, i := sumElement(p)/32, sumElement(p)%32
		v, e := i/4, i%4
		var total int32
		for r, plane := range planes {
			bytes := unsafe.Slice(plane, (s+1)*quants)[s*quants:]
			q := int32(int8(bytes[32*(v%(quants/32))+4*b+e]))
			if t == quant.Q4_0 {
				q = q>>(v/4*4)&15 - 8
			}
			total += q * int32(coef[r])
		}
		d := quant.F32FromF16(binary.LittleEndian.Uint16(scales[2*at:])) * scale
		sum[at] = fma(float32(total), d, sum[at])
	}
}
