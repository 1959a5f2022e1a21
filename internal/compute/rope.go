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
	Scale float64   // magnitude of the rotated pair; 1 but for YaRN
	Back  int       // subtracted from a row's position, which may become negative
	Every int       // positions are rounded down to a multiple of it; 0: they are not rounded
	Axes  []uint8   // [Dims/2] the axis of Params.Axes that rotates a pair; nil: Params.Turn rotates all
}

// At returns the position that a position is rotated to.
func (r *Rope) At(pos int32) int {
	at := int(pos)
	if r.Every > 0 {
		at = at / r.Every * r.Every
	}
	return at - r.Back
}

// Angles fills at with the angle of each pair of row i. [Dims/2]
func (p *Params) Angles(at []float64, r *Rope, i int) {
	pos := float64(r.At(p.Turn()[i]))
	for j, f := range r.Freqs {
		if r.Axes != nil && p.Axes != nil {
			pos = float64(r.At(p.Axes[r.Axes[j]][i]))
		}
		at[j] = pos * f
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
