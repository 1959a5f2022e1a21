package convert

// half maps rows of matrices of n rows to those of matrices of 2n rows, of which they are the first half (which is 0)
// or the second (1).
func half(n, which int) func(int) int {
	return func(r int) int { return r/n*2*n + which*n + r%n }
}

// packedAt returns where queries, keys and values begin in a tensor that holds all of them, by the names of those that
// it becomes.
func packedAt(s sizes) map[string]int {
	return map[string]int{"attn_q": 0, "attn_k": s.Heads * s.Key, "attn_v": (s.Heads + s.KVHeads) * s.Key}
}

// behind returns the mapping that applies first, adds offset, and applies then; nil is the identity.
func behind(first func(int) int, offset int, then func(int) int) func(int) int {
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

// interleaved gives, for rotation of neighbours (2j, 2j+1), the row of a head whose rotation pairs (j, j+headDim/2).
func interleaved(headDim int) func(int) int {
	return func(r int) int {
		i := r % headDim
		return r - i + i/2 + i%2*(headDim/2)
	}
}

// halves gives, for rotation of pairs (j, j+dims/2), the row of a head whose rotation pairs neighbours (2j, 2j+1) of its
// first dims elements.
func halves(headDim, dims int) func(int) int {
	return func(r int) int {
		i := r % headDim
		if i >= dims {
			return r
		}
		return r - i + i%(dims/2)*2 + i/(dims/2)
	}
}

// ungrouped gives the source row of a row of all q heads, then all k heads, then all v heads. The source lies in so many
// groups, each of as many q heads, followed by their k heads and v heads.
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
