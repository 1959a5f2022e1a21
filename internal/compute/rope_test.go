package compute

import "testing"

// TestAnglesBack: rows are rotated to the position two before theirs along each axis, in the same step or an earlier
// one, also at a text's start.
func TestAnglesBack(t *testing.T) {
	const back = 2
	texts := [][][]int32{ // [sequence][axis] of a text with a picture of 2 × 2 at position 2, and of one without pictures
		{{-3, -2, -1, 0, 1, 2, 2, 2, 2, 4, 5}, {-3, -2, -1, 0, 1, 2, 2, 3, 3, 4, 5}, {-3, -2, -1, 0, 1, 2, 3, 2, 3, 4, 5}},
		{{-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}, {-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}, {-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}},
	}
	const start = 3 // the numbers before it are those before the text
	rope := &Rope{Dims: 8, Freqs: []float64{1, 0.5, 0.25, 0.125}, Scale: 1, Back: back, Axes: []uint8{0, 1, 2, 0}}
	for first := range 8 {
		for rows := 1; first+rows <= 8; rows++ {
			for _, kept := range []int{back, back + 1} { // other rotations may go back further
				p := Params{Pages: make([][]int32, len(texts)), Axes: make([][]int32, 3), Behind: make([][]int32, 3)}
				for q, text := range texts {
					for i := range rows {
						p.Pos, p.Seq = append(p.Pos, int32(first+i)), append(p.Seq, int32(q))
					}
					for axis, at := range text {
						p.Axes[axis] = append(p.Axes[axis], at[start+first:][:rows]...)
						p.Behind[axis] = append(p.Behind[axis], at[start+first-kept:][:kept]...)
					}
				}
				p.Turns = p.Axes[0]
				for i := range p.Pos {
					got := make([]float64, len(rope.Freqs))
					p.Angles(got, rope, i)
					for j, f := range rope.Freqs {
						if want := f * float64(texts[p.Seq[i]][rope.Axes[j]][start+int(p.Pos[i])-back]); got[j] != want {
							t.Fatalf("%d rows from %d on: pair %d of position %d of text %d has the angle %g, want %g", rows, first, j, p.Pos[i], p.Seq[i], got[j], want)
						}
					}
				}
			}
		}
	}
}
