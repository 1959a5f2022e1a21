package convert

// half maps the rows of matrices of n rows to rows of matrices of 2n rows: to their first half (which is 0) or second
// half (1).
func half(n, which int) func(int) int {
	return func(r int) int { return r/n*2*n + which*n + r%n }
}

// packedAt returns the rows at which queries, keys and values begin in a tensor that holds all of them, by output name.
func packedAt(s sizes) map[string]int {
	return map[string]int{"attn_q": 0, "attn_k": s.Heads * s.Key, "attn_v": (s.Heads + s.KVHeads) * s.Key}
}

// chained returns the mapping that applies first, adds offset, and applies then; nil is the identity.
func chained(first func(int) int, offset int, then func(int) int) func(int) int {
	return func(r int) int {
		if first != nil {
			r = first(r)
		}
		if r += offset; then != nil {
			r = then(r)
		}
		return r
	}
}

// interleaved maps rows of a head that is rotated in neighbouring pairs (2j, 2j+1) to rows of a source that is rotated
// in pairs (j, j+headDim/2).
func interleaved(headDim int) func(int) int {
	return func(r int) int {
		i := r % headDim
		return r - i + i/2 + i%2*(headDim/2)
	}
}

// halves maps rows of a head that is rotated in pairs (j, j+dims/2) to rows of a source that is rotated in neighbouring
// pairs (2j, 2j+1) of its first dims elements.
func halves(headDim, dims int) func(int) int {
	return func(r int) int {
		i := r % headDim
		if i >= dims {
			return r
		}
		return r - i + i%(dims/2)*2 + i/(dims/2)
	}
}

// ungrouped maps rows of all q heads, then all k heads, then all v heads to source rows. The source has groups groups
// of equal numbers of q heads, each followed by its k heads and v heads.
func ungrouped(of sizes, groups int) func(int) int {
	q, k, v := of.Heads*of.Key/groups, of.KVHeads*of.Key/groups, of.KVHeads*of.Value/groups // rows of a group
	return func(r int) int {
		part, offset := q, 0
		switch {
		case r >= (q+k)*groups:
			r, part, offset = r-(q+k)*groups, v, q+k
		case r >= q*groups:
			r, part, offset = r-q*groups, k, q
		}
		return r/part*(q+k+v) + offset + r%part
	}
}
