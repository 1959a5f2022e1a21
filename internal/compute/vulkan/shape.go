package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Recordings are made for rounded numbers of rows. Any number occurs in the steps of a server, which then soon has all
// the recordings that it needs. The rows that a step lacks are padding. It costs few products: matvec.comp is compiled
// for powers of two, then for 12 and multiples of vecTokens, and products of prompts compute tiles of matTile rows. The
// numbers between bound the cost of padding in other operations: at most a third of the rows.

// someRows divides the numbers of single tokens beyond matTile that recordings are made for: a larger one
// would leave more rows unused in every step, a smaller one needs more recordings.
const someRows = 16

// rounded returns the rows of a recording for n: a power of two, or three halves of one, and a multiple of step from
// matTile on.
func rounded(n, step int) int {
	if n > matTile {
		return ceil(n, step) * step
	}
	rows := min(n, 1)
	for rows < n {
		if half := rows / 2; rows > 1 && rows+half >= n {
			return rows + half
		}
		rows *= 2
	}
	return rows
}

// Shape implements compute.Device. Prompts are cut to fill steps, so the rows of a full one are what its single tokens,
// rounded, leave.
func (d *Device) Shape(seg, most compute.Segment) compute.Segment {
	decode := min(rounded(seg.Decode, someRows), most.Rows)
	prompts := min(rounded(seg.Rows-seg.Decode, matTile), most.Rows+d.Spare(most.Rows)-decode)
	decodeOut := min(rounded(seg.DecodeOut, someRows), most.Out-(seg.Out-seg.DecodeOut), decode)
	promptOut := min(rounded(seg.Out-seg.DecodeOut, matTile), most.Out-decodeOut, prompts)
	seg.Rows, seg.Decode, seg.Out, seg.DecodeOut = decode+prompts, decode, decodeOut+promptOut, decodeOut
	return seg
}

// Spare implements compute.Device: rounding adds at most that many rows to single tokens, and the rest of a full step
// to prompts.
func (d *Device) Spare(most int) (rows int) {
	for n := range most {
		rows = max(rows, min(rounded(n, someRows), most)-n)
	}
	return rows
}
