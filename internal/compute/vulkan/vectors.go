package vulkan

import "github.com/powerinfer-go/powerinfer/internal/quant"

// vectors is the shape of matvec.comp for a number of tokens. A group of lanes sums rows of the matrix with tokens.
// Several groups of a workgroup, one for each team, sum the same rows for other tokens.
type vectors struct {
	rows, tokens, teams int
	local               int // invocations of a workgroup
}

// fewRows is the largest number of single tokens of running sequences that the device computes as it does one: neurons
// by lists for each token, attention in parallel splits.
const fewRows = 64

// mostVectors is the largest number of tokens that go through matvec.comp, in parts of workgroups that are neighbours;
// more go through tiles of as many tokens as rows, matmat.comp.
const mostVectors = 2 * fewRows

const (
	vecTokens = 8        // tokens of a group of lanes, unless a step has many
	vecShared = 16 << 10 // bytes of shared memory that every device has
)

// vectorsFor returns the shape for n tokens and a matrix of that many rows of type t. All shapes give the same bytes.
// From nine tokens on, large GPUs are bound by arithmetic, not memory. On an H200 workgroups of four groups of lanes
// with up to 64 sums in each invocation were the fastest. Larger ones, activations in shared memory, and cooperative
// matrices of bytes were all slower.
func vectorsFor(t quant.Type, rows, n int) vectors {
	v := vectors{rows: vecRows(rows, n), tokens: 1, teams: 1, local: vecLocal}
	switch {
	case n == 1:
		if rows < 32<<10 && t.Quantised() { // loads of x are few: more rows at a time gain nothing
			v.rows = 1
		}
	case n <= vecTokens:
		for v.tokens < n {
			v.tokens *= 2
		}
	case n <= 12:
		v = vectors{rows: 4, tokens: 4, teams: 3, local: 6 * vecLanes}
	case n <= 24:
		teams := ceil(n, vecTokens)
		v = vectors{rows: 4, tokens: vecTokens, teams: teams, local: 2 * teams * vecLanes}
	default:
		v = vectors{rows: 4, tokens: 2 * vecTokens, teams: 2, local: 4 * vecLanes}
	}
	return v
}

// atOnce returns how many of an invocation's sums shared memory has room for.
func (v vectors) atOnce() int {
	n := v.rows * v.tokens
	for 4*n*(vecLanes+1)*v.local/vecLanes+groupSums > vecShared {
		n /= 2
	}
	return n
}

// with completes c for a product of that many rows of a matrix of type t with n tokens.
func (v vectors) with(c *call, t quant.Type, relu uint32, rows, n int) {
	c.local = v.local
	c.spec = []uint32{uint32(t), uint32(v.rows), uint32(v.tokens), relu, 0, uint32(v.teams), uint32(v.atOnce())}
	c.groups = grid(ceil(rows, v.rows*v.local/vecLanes/v.teams) * ceil(n, v.teams*v.tokens))
}

// vecAdded is the constant of matvec.comp that says whether it adds.
const vecAdded = 4
