package grammar

import "unicode/utf8"

// byteRange is the bytes from lo to hi, both included.
type byteRange struct{ lo, hi byte }

// utf8Sequences calls emit with the sequences of byte ranges that together match the UTF-8 of normalised ranges and
// nothing else. emit must not keep its argument. The ranges are cut where the length of the encoding changes, and then
// wherever a prefix is not followed by all continuation bytes, as in Russ Cox, "Regular Expression Matching in the
// Wild", 2010.
func utf8Sequences(ranges []runeRange, emit func([]byteRange)) {
	for _, r := range ranges {
		lo := r.lo
		for _, last := range []rune{0x7F, 0x7FF, 0xFFFF, lastRune} {
			if lo <= min(last, r.hi) {
				sameLength(lo, min(last, r.hi), emit)
				lo = min(last, r.hi) + 1
			}
		}
	}
}

// sameLength does this for a range of code points with the same number of bytes.
func sameLength(lo, hi rune, emit func([]byteRange)) {
	n := utf8.RuneLen(lo)
	for bits := 6; bits < 6*n; bits += 6 {
		low := rune(1)<<bits - 1 // the bits of the last continuation bytes
		if lo&^low == hi&^low {
			continue
		}
		if lo&low != 0 {
			sameLength(lo, lo|low, emit)
			sameLength(lo|low+1, hi, emit)
			return
		}
		if hi&low != low {
			sameLength(lo, hi&^low-1, emit)
			sameLength(hi&^low, hi, emit)
			return
		}
	}
	var a, b [utf8.UTFMax]byte
	var seq [utf8.UTFMax]byteRange
	utf8.EncodeRune(a[:], lo)
	utf8.EncodeRune(b[:], hi)
	for i := range n {
		seq[i] = byteRange{a[i], b[i]}
	}
	emit(seq[:n])
}
