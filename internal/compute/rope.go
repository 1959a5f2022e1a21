package compute

// RopeStyle says which elements of a head form a rotated pair.
type RopeStyle int

// The two styles in use.
const (
	Interleaved RopeStyle = iota // (x[2i], x[2i+1]): llama
	Halves                       // (x[i], x[i+n/2]): NeoX, falcon, qwen
)

// Rope describes rotary position embedding over the first Dims elements of a head.
type Rope struct {
	Style RopeStyle
	First int       // the first rotated element of a head
	Dims  int       // rotated elements of a head
	Freqs []float64 // [Dims/2] radians per position, scaling included
	Scale float64   // magnitude of the rotated pair; 1 except for YaRN
	Back  int       // rows are rotated to the position this far before theirs; without Params.Axes it is subtracted, and may give a negative one
	Every int       // positions are rounded down to a multiple of it; 0: they are not rounded
	Axes  []uint8   // [Dims/2] the axis of Params.Axes that rotates a pair; nil: Params.Turn rotates all
}

// rounded returns pos as Every says.
func (r *Rope) rounded(pos int32) int {
	if r.Every > 0 {
		return int(pos) / r.Every * r.Every
	}
	return int(pos)
}

// Angles fills at with the angle of each pair of row i. [Dims/2]
func (p *Params) Angles(at []float64, r *Rope, i int) {
	if r.Axes == nil || p.Axes == nil {
		pos := float64(r.rounded(p.Turn()[i]) - r.Back)
		for j, f := range r.Freqs {
			at[j] = pos * f
		}
		return
	}
	own := 0 // rows before row i that the step has of its sequence, Back at most
	for own < min(r.Back, i) && p.Seq[i-own-1] == p.Seq[i] {
		own++
	}
	for j, f := range r.Freqs {
		axis, pos := r.Axes[j], int32(0)
		if own == r.Back {
			pos = p.Axes[axis][i-own]
		} else {
			behind := p.Behind[axis]
			pos = behind[int(p.Seq[i]+1)*len(behind)/len(p.Pages)-r.Back+own]
		}
		at[j] = float64(r.rounded(pos)) * f
	}
}

// Inverse returns the rotation that undoes r; nil for nil.
func (r *Rope) Inverse() *Rope {
	if r == nil {
		return nil
	}
	back := *r
	back.Scale, back.Freqs = 1/r.Scale, make([]float64, len(r.Freqs))
	for i, f := range r.Freqs {
		back.Freqs[i] = -f
	}
	return &back
}
