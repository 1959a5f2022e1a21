package main

import (
	"math/bits"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
)

// sum is an integer sum of four lanes. Without dot products low and high are the sums of the lower and the upper eight
// bytes, two lanes for a block; products are first added in 16 bits, as many as fit.
type sum struct {
	all       vec
	low, high vec
	waiting   [2]vec
	n         int
	flushed   bool
}

func (k *kernel) newSum() *sum {
	if k.isa == dots {
		return &sum{all: k.vec()}
	}
	s := &sum{low: k.vec(), high: k.vec(), waiting: [2]vec{k.vec(), k.vec()}}
	s.all = s.low
	return s
}

// start sets a sum to the offset's part for the activations' sum. half is 0 for whole blocks, 1 and 2 for the halves.
func (k *kernel) start(s *sum, t, h, half int) {
	if k.isa != dots {
		s.n, s.flushed = 0, false
		return
	}
	if k.offset() == 0 {
		k.zero(s.all)
		return
	}
	k.negative(s.all, t, h, half)
}

// negative loads −offset·Σ of the activations.
func (k *kernel) negative(d vec, t, h, half int) {
	at, unit := layout.ActNeg8, 8
	if half > 0 {
		at, unit = layout.ActLo32, 32
	}
	if half == 2 {
		at = layout.ActHi32
	}
	k.load('q', d, k.x[t], at+16*h)
	switch o := k.offset(); {
	case o < unit:
		k.shift("sshr", 32, d, d, bits.Len(uint(unit/o))-1)
	case o > unit:
		k.shift("shl", 32, d, d, bits.Len(uint(o/unit))-1)
	}
}

// dot adds the products of bytes.
func (k *kernel) dot(s *sum, w, x vec) {
	if k.isa == dots {
		k.op("sdot", s.all, w, x)
		return
	}
	if s.n == 0 {
		k.op("smull", s.waiting[0], w, x)
		k.op("smull2", s.waiting[1], w, x)
	} else {
		k.op("smlal", s.waiting[0], w, x)
		k.op("smlal2", s.waiting[1], w, x)
	}
	if s.n++; s.n == 32767/(127*k.largest()) {
		k.flush(s)
	}
}

// flush adds the products that wait to the sum.
func (k *kernel) flush(s *sum) {
	if s.n == 0 {
		return
	}
	name := "sadalp"
	if !s.flushed {
		name = "saddlp"
	}
	k.op2(name, s.low, s.waiting[0])
	k.op2(name, s.high, s.waiting[1])
	s.n, s.flushed = 0, true
}

// finish leaves a sum in s.all.
func (k *kernel) finish(s *sum, t, h, half int) {
	if k.isa == dots {
		return
	}
	k.flush(s)
	k.op("addp", s.all, s.low, s.high)
	if k.offset() > 0 {
		k.negative(s.high, t, h, half)
		k.op("add", s.all, s.all, s.high)
	}
}

// half adds half h of a superblock to the accumulators acc [r·t].
func (k *kernel) half(h int, acc []vec) {
	mark := k.vecs
	count := 1
	if k.twoSums() {
		count = 2
	}
	sums := make([][]*sum, k.r*k.t)
	for i := range sums {
		for c := range count {
			s := k.newSum()
			half := 0
			if count == 2 {
				half = 1 + c
			}
			k.start(s, i%k.t, h, half)
			sums[i] = append(sums[i], s)
		}
	}
	inner := k.vecs
	if k.filed {
		x := k.vec()
		for g, w := range k.fileCodes(h) {
			if k.traits().Codebook != nil {
				k.tbl(w, k.book, w)
			}
			k.load('q', x, k.x[0], 32*g+16*h)
			k.dot(sums[0][min(g/4, count-1)], w, x)
		}
	} else {
		k.groups(h, count, sums)
	}
	for i, s := range sums {
		for c := range s {
			half := 0
			if count == 2 {
				half = 1 + c
			}
			k.finish(s[c], i%k.t, h, half)
		}
	}
	k.vecs = inner
	for r := range k.r {
		k.vecs = inner
		f := k.factors(r, h)
		s := k.vec()
		for t := range k.t {
			k.accumulate(sums[r*k.t+t], f, s, t, h, acc[r*k.t+t])
		}
	}
	k.vecs = mark
}

// groups adds the products of half h's groups to sums.
func (k *kernel) groups(h, count int, sums [][]*sum) {
	raw, x := k.vecsOf(k.r), k.vec()
	w := raw
	if len(k.sources()) < 8 {
		w = k.vecsOf(k.r)
	}
	for v, groups := range k.sources() {
		for r := range raw {
			k.raw(raw[r], r, v, h)
		}
		for _, g := range groups {
			for r := range raw {
				k.unpack(w[r], raw[r], x, r, g, h)
			}
			for t := range k.t {
				k.load('q', x, k.x[t], 32*g+16*h)
				for r := range raw {
					k.dot(sums[r*k.t+t][min(g/4, count-1)], w[r], x)
				}
			}
		}
	}
}
