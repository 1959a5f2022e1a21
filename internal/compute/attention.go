package compute

// Attention holds the parameters by which a layer's attention weighs the positions that a token sees.
type Attention struct {
	Scale   float32 // factor of the scores q·k
	Window  int     // sliding window: positions that a token sees, its own being the last; 0: all up to its own
	Parts   bool    // chunked attention: positions are divided into chunks of Window, and a token sees those of its own chunk up to its own
	Later   bool    // bidirectional: a token also sees later positions of its sequence in the step; half of a window is before its own position, half after it
	SoftCap float32 // a score s becomes SoftCap·tanh(s/SoftCap); 0: scores stay as they are
	Slopes  *Vector // [heads] ALiBi: a capped score falls by its head's slope for each position between the token and the one it sees; nil: none does
	Sinks   *Vector // [heads] a score for each query head that takes its share of the softmax and has no value; nil: none
	Bounded bool    // a token sees the positions of Params.Bounds, at most Window back, instead of all up to its own; then Parts and Later are false
	Seen    Seen    // a token sees only these of the positions up to its own; then Window is 0, Later false and Slopes nil
}

// Span returns the positions [from, to) that a token at position pos sees; last is the last position of its sequence in
// the step.
func (a Attention) Span(pos, last int) (from, to int) {
	switch {
	case a.Parts && a.Window > 0:
		return pos / a.Window * a.Window, pos + 1
	case a.Later && a.Window > 0:
		return max(0, pos-a.Window/2), min(last, pos+a.Window/2) + 1
	case a.Later:
		return 0, last + 1
	case a.Window > 0:
		return max(0, pos+1-a.Window), pos + 1
	}
	return 0, pos + 1
}

// Bounds are positions From to To-1.
type Bounds struct{ From, To int32 }

// Span returns the positions [from, to) that row i sees in a layer with attention a; last is as in Attention.Span.
func (p *Params) Span(i int, a *Attention, last int) (from, to int) {
	from, to = a.Span(int(p.Pos[i]), last)
	if !a.Bounded {
		return from, to
	}
	return max(from, int(p.Bounds[i].From)), int(p.Bounds[i].To)
}

// Last returns the last position in the step of a sequence.
func (p *Params) Last(seq int32) int {
	last := int32(0)
	for i, s := range p.Seq {
		if s == seq {
			last = max(last, p.Pos[i])
		}
	}
	return int(last)
}
