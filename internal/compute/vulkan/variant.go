package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
)

// variant is a shape of the tiles in which an arithmetic computes products of prompts. All variants of an arithmetic
// give the same bytes, so that the choice between them is free.
type variant struct {
	by           Arithmetic
	rows, tokens int // size of a workgroup's tile

	step int // columns that are multiplied at a time, by matrices

	// With Matrices, subgroups divide the tile:
	subRows, subTokens int // size of a subgroup's part
	buffers            int // 2: the next step's columns get into shared memory while these are multiplied
	way                int // in which sums get to memory: cooperative.glsl

	local int // invocations of a workgroup, of Groups
}

func (v variant) String() string {
	switch {
	case v.by == Groups:
		return fmt.Sprintf("%d×%d, %d columns, %d invocations", v.rows, v.tokens, v.step, v.local)
	case v.by != Matrices:
		return fmt.Sprintf("%d×%d", v.rows, v.tokens)
	}
	way := [...]string{"in phases", "one by one", "directly"}[v.way]
	return fmt.Sprintf("%d×%d by %d×%d, %d columns, %d buffers, %s", v.rows, v.tokens, v.subRows, v.subTokens, v.step, v.buffers, way)
}

// matrixVariants are the variants of Matrices, the smallest first.
var matrixVariants = func() (all []variant) {
	for _, v := range []variant{
		{rows: 64, tokens: 64, step: 64, subRows: 32, subTokens: 32, buffers: 2},
		{rows: 128, tokens: 64, step: 64, subRows: 32, subTokens: 32, buffers: 1},
		{rows: 128, tokens: 128, step: 64, subRows: 64, subTokens: 32, buffers: 1},
		{rows: 128, tokens: 128, step: 32, subRows: 64, subTokens: 64, buffers: 2},
	} {
		for _, way := range []int{inPhases, oneByOne, directly} {
			v.by, v.way = Matrices, way
			all = append(all, v)
		}
	}
	return all
}()

// The ways of sums to memory.
const (
	inPhases = iota // by shared memory, as many matrices at once as fit there
	oneByOne        // by shared memory
	directly        // whole tiles
)

// The shapes of Mixed and Packed.
const narrowTile, wideTile = 64, 128

// specAdded is the place in a call's spec of longproduct.glsl's constant ADDED.
const specAdded = 5

// shader returns the shader that computes v, the invocations of its workgroups, and the specialisation constants of its
// own.
func (v variant) shader(m driver.Matrices) (name string, local int, spec []uint32) {
	switch v.by {
	case Groups:
		return "workgroup", v.local, []uint32{uint32(v.step)}
	case Integers:
		return "matmat_integers", matLocal, nil // without the dots of a device that has none: dotting
	case Mixed, Packed:
		return "matmat_half", matLocal, []uint32{truth(v.by == Packed)}
	}
	return driver.MatricesShader, v.subgroups() * m.Subgroup, []uint32{uint32(m.M), uint32(m.N), uint32(m.K), uint32(v.subRows), uint32(v.step), uint32(v.buffers), uint32(v.way)}
}

// subgroups returns how many a workgroup has.
func (v variant) subgroups() int { return v.rows / v.subRows * v.tokens / v.subTokens }

// groupSums are the bytes of shared memory that every shader has: common.glsl.
const groupSums = 256

// shared returns the bytes of shared memory of a workgroup, without those that the driver takes for Groups.
func (v variant) shared(m driver.Matrices) int {
	const pad = 8 // halves that keep rows apart
	if v.by == Groups {
		return groupSums
	}
	if v.by == Integers {
		const unit, line, scale, tokenScale = 32, 16, 24, 8 // bytes: matmat_integers.glsl
		return groupSums + (v.rows+v.tokens)*(2*unit+line) + 2*v.rows*scale + 2*v.tokens*tokenScale
	}
	if v.by != Matrices {
		return groupSums + 2*(v.rows+v.tokens)*(shaders.LeastStep+pad)
	}
	weights := max(v.rows*(v.step+pad), v.step*(v.rows+pad)) // by row or by neuron
	return groupSums + max(2*v.buffers*(weights+v.tokens*(v.step+pad)), 4*v.subgroups()*m.M*m.N)
}

// variants returns the variants of a that the device has room for and that have not failed.
func (d *Device) variants(a Arithmetic) (fit []variant) {
	all := []variant{{by: a, rows: narrowTile, tokens: narrowTile}, {by: a, rows: wideTile, tokens: wideTile}}
	switch a {
	case Groups:
		all = groupVariants
	case Matrices:
		all = matrixVariants
	case Integers:
		all = []variant{{by: a, rows: narrowTile, tokens: narrowTile}, {by: a, rows: narrowTile, tokens: wideTile}, {by: a, rows: wideTile, tokens: wideTile}}
	case Ordered:
		return []variant{{by: Ordered, rows: matTile, tokens: matTile}}
	}
	for _, v := range all {
		if d.long.left[v] != nil {
			continue
		}
		if a == Groups && !d.gpu.Workgroup.Multiplies(v.rows, v.tokens, v.step, v.local) {
			continue
		}
		_, local, _ := v.shader(d.gpu.Matrices)
		if v.shared(d.gpu.Matrices) <= int(d.gpu.Limits.MaxComputeSharedMemorySize) && local <= int(d.gpu.Limits.MaxComputeWorkGroupInvocations) {
			fit = append(fit, v)
		}
	}
	return fit
}

// From enoughTiles tiles on, wide tiles, which read less, keep the largest GPUs busy.
const enoughTiles = 96

// likely returns the variant out of all, smallest first, for this many rows and tokens, without timing.
func likely(all []variant, rows, n int) variant {
	v := all[0]
	for _, w := range all[1:] {
		if ceil(rows, w.rows)*ceil(n, w.tokens) >= enoughTiles {
			v = w
		}
	}
	return v
}
