package vulkan

import "github.com/powerinfer-go/powerinfer/internal/quant"

// vectors is the shape of matvec.comp for a number of tokens: so many rows of the matrix and tokens are summed by a
// group of lanes, and so many groups of a workgroup, a team each, sum the same rows for other tokens.
type vectors struct {
	rows, tokens, teams int
	local               int  // invocations of a workgroup
	staged              bool // activations pass through shared memory
}

// fewRows is the largest number of single tokens of running sequences that the device computes as it does one: neurons
// by lists for each token, attention in parallel splits.
const fewRows = 64

// mostVectors is the largest number of tokens that go through matvec.comp, in parts of workgroups that are neighbours;
// more go through tiles of as many tokens as rows, matmat.comp.
const mostVectors = 2 * fewRows

const (
	vecTokens = 8        // of a group of lanes
	vecGroup  = 256      // invocations of the largest workgroups
	vecShared = 16 << 10 // bytes of shared memory that every device has
	vecRoom   = 9 << 10  // bytes of it for sums, where activations are staged
)

// vectors returns the shape for n tokens and so many rows of a matrix of type t. Sums are the same bytes in all.
func (d *Device) vectors(t quant.Type, rows, n int) vectors {
	v := vectors{rows: vecRows(rows, n), tokens: 1, teams: 1, local: vecLocal}
	switch {
	case n == 1:
		if rows < 32<<10 && t.Quantised() { // loads of x are few: more rows at a time gain nothing
			v.rows = 1
		}
		return v
	case n <= vecTokens:
		for v.tokens < n {
			v.tokens *= 2
		}
		return v
	case n <= 12:
		v.tokens = 4
	default:
		v.tokens = vecTokens
	}
	v.rows, v.teams = 4, min(ceil(n, v.tokens), vecGroup/vecLanes)
	tiles := 1 // groups of lanes that a team has for other rows
	switch {
	case v.teams < 4:
		tiles = 2
	case v.teams%2 != 0: // a workgroup has a multiple of the largest subgroup
		v.teams++
	}
	v.local = v.teams * tiles * vecLanes
	return v
}

// stagedBytes returns the shared memory of the workgroup's activations for a matrix of type t.
func (v vectors) stagedBytes(t quant.Type) int {
	if !v.staged {
		return 0
	}
	unit := 4 * unitElems(t)
	if t.Quantised() {
		unit = int(packedBytes(quant.QK))
	}
	return v.teams * v.tokens * vecLanes * unit
}

// atOnce returns how many of an invocation's sums there is room for beside staged activations.
func (v vectors) atOnce() int {
	n, room := v.rows*v.tokens, vecShared
	if v.staged {
		room = vecRoom
	}
	for 4*n*(vecLanes+1)*v.local/vecLanes+groupSums > room {
		n /= 2
	}
	return n
}

// with fills in c for a matrix of type t, of which so many rows are multiplied with n tokens.
func (v vectors) with(c *call, t quant.Type, relu uint32, rows, n int) {
	c.local = v.local
	c.spec = []uint32{uint32(t), uint32(v.rows), uint32(v.tokens), relu, 0, uint32(v.teams), uint32(v.atOnce()), truth(v.staged)}
	c.groups = grid(ceil(rows, v.rows*v.local/vecLanes/v.teams) * ceil(n, v.teams*v.tokens))
}

// vecAdded is the constant of matvec.comp that says whether it adds.
const vecAdded = 4
