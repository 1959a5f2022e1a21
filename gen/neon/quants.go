package main

import (
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// sources lists the vectors of quants of a row, each with the groups that it holds.
func (k *kernel) sources() (groups [][]int) {
	n := 8
	switch b := k.traits().Bits; {
	case k.panel != "" || b == 8:
	case b < 4:
		n = 2
	default:
		n = 4
	}
	groups = make([][]int, n)
	for v := range 8 {
		groups[v%n] = append(groups[v%n], v)
	}
	return groups
}

// raw loads vector v of row r's quants.
func (k *kernel) raw(d vec, r, v, h int) {
	at := 32*v + 16*h
	if k.panel != "" {
		at += layout.NeonQuants
	}
	k.load('q', d, k.w[r], at)
}

// unpack writes group v of row r, loaded in raw, to d as bytes: signed ones if there is a codebook, otherwise unsigned
// ones with an offset.
func (k *kernel) unpack(d, raw, tmp vec, r, v, h int) {
	b := k.traits().Bits
	high := layout.Of(k.typ).High - layout.Of(k.typ).Quants + 16*h
	switch {
	case b == 8 || k.panel != "":
		if d != raw {
			k.move(d, raw)
		}
		return
	case b < 4 && v/2 == 0:
		k.op("and", d, raw, k.masks[0x03])
	case b < 4:
		k.shift("ushr", 8, d, raw, v/2*2)
		if v/2 < 3 {
			k.op("and", d, d, k.masks[0x03])
		}
	case v < 4:
		k.op("and", d, raw, k.masks[0x0f])
	default:
		k.shift("ushr", 8, d, raw, 4)
	}
	switch b {
	case 3:
		k.insert(d, tmp, r, high, v-2, 0x04)
	case 5:
		k.insert(d, tmp, r, high, v-4, 0x10)
	case 6:
		k.insert(d, tmp, r, high+32*(v%2), v/2*2-4, 0x30)
	}
	if k.traits().Codebook != nil {
		k.tbl(d, k.book, d)
	}
}

// insert sets the bits of mask in d to bits of the vector at at, which are above bits higher there.
func (k *kernel) insert(d, tmp vec, r, at, above int, mask byte) {
	k.load('q', tmp, k.w[r], at)
	switch {
	case above > 0:
		k.shift("ushr", 8, tmp, tmp, above)
	case above < 0:
		k.shift("shl", 8, tmp, tmp, -above)
	}
	k.op("bit", d, tmp, k.masks[mask])
}

// offset returns the offset of unpacked bytes above their values.
func (k *kernel) offset() int {
	if k.panel != "" || k.traits().Bits == 8 || k.traits().Codebook != nil {
		return 0
	}
	return k.traits().Offset
}

// largest returns the largest magnitude of unpacked bytes; in panels, of all types of the form.
func (k *kernel) largest() int {
	if k.panel == "" {
		return magnitude(k.typ, false)
	}
	most := 0
	for _, typ := range quant.Types() {
		if known(typ) && (formOf(typ) == k.panel || isSmall(typ) && k.panel == smallBlocks) {
			most = max(most, magnitude(typ, true))
		}
	}
	return most
}

// smallBlocks is the form Blocks for types with quants of a magnitude of at most 16. Without dot products of bytes,
// more of their products are added in 16 bits.
const smallBlocks = "SmallBlocks"

func isSmall(typ quant.Type) bool { return formOf(typ) == "Blocks" && magnitude(typ, true) <= 16 }

// magnitude returns the largest magnitude of typ's bytes, with their sign or offset above their values.
func magnitude(typ quant.Type, signed bool) int {
	t := typ.Traits()
	switch {
	case t.Bits == 8:
		return 128
	case t.Codebook != nil:
		most := 0
		for _, v := range t.Codebook {
			most = max(most, int(v), -int(v))
		}
		return most
	case signed:
		return max(t.Offset, 1<<t.Bits-1-t.Offset)
	}
	return 1<<t.Bits - 1
}
