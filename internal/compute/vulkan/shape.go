package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Recordings are made for rounded numbers of rows, so that a server, in whose steps any number occurs, soon has all that it needs; the
// rows of a step that are missing are padding. What rounds is the tiles of the shaders, so padding costs no product: matvec.comp is compiled
// for powers of two, and all others compute tiles of matTile rows. Between those, sixteen rows bound what padding costs in all other verbs.
const (
	fewRows  = compute.FewTokens // up to here numbers are powers of two
	someRows = 16                // from there to matTile they are multiples of this, beyond it of matTile
)

// rounded returns the rows of a recording for n, which is in multiples of step from matTile on.
func rounded(n, step int) int {
	switch {
	case n <= fewRows:
		rows := min(n, 1)
		for rows < n {
			rows *= 2
		}
		return rows
	case n <= matTile:
		step = someRows
	}
	return ceil(n, step) * step
}

// Shape implements compute.Shaper. Prompts are cut to fill steps, so the rows of a full one are what its single tokens, rounded, leave.
func (d *Device) Shape(seg, most compute.Segment) compute.Segment {
	decode := min(rounded(seg.Decode, someRows), most.Rows)
	prompts := min(rounded(seg.Rows-seg.Decode, matTile), most.Rows+d.Spare(most.Rows)-decode)
	seg.Rows, seg.Decode, seg.Out = decode+prompts, decode, min(rounded(seg.Out, matTile), most.Out)
	return seg
}

// Spare implements compute.Shaper: single tokens that are rounded may take so many rows more than they are, and prompts the rest of a full step.
func (d *Device) Spare(most int) (rows int) {
	for n := range most {
		rows = max(rows, min(rounded(n, someRows), most)-n)
	}
	return rows
}
