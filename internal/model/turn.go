package model

import (
	"errors"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// TurnKeys turns the keys at positions p.Pos of the sequences p.Seq by p.Turns positions, in every layer that rotates
// them. [n] of each, n at most a step's rows. A key that was kept in a rounded type is rounded once more.
func (m *Model) TurnKeys(p *compute.Params) error {
	return m.run(nn.RotateKeys, p)
}

// unscaled returns r without its factor of magnitude, which keys have already; nil for nil.
func (w *weights) unscaled(r *compute.Rope) *compute.Rope {
	if r == nil {
		return nil
	}
	if w.turns[r] == nil {
		if w.turns == nil {
			w.turns = map[*compute.Rope]*compute.Rope{}
		}
		turn := *r
		turn.Scale = 1
		w.turns[r] = &turn
	}
	return w.turns[r]
}

func (m *Model) rotateKeys(p *nn.Pass) {
	for i := range m.parts {
		for _, a := range append([]*nn.Attention{m.parts[i].Attention}, m.parts[i].Again...) {
			if a != nil && a.Rope != nil && !a.Borrows {
				a.RotateKeys(p, m.unscaled(a.Rope))
			}
		}
	}
}

// CheckTurns returns why TurnKeys is not enough to change the positions of a text, because something else in the model
// depends on them, or nil.
func (m *Model) CheckTurns() error {
	rotated := false
	for i := range m.parts {
		l := &m.parts[i]
		a := l.Attention
		switch {
		case l.Recurrent != nil:
			return errors.New("the model has recurrent layers, which go through positions one by one")
		case l.Latent != nil:
			return errors.New("the model has latent attention, whose keys are not kept as they are rotated")
		case l.Compressed != nil:
			return errors.New("the model has compressed attention, whose blocks of positions cannot move")
		case a == nil:
		case a.Scores.Window > 0:
			return errors.New("the model has layers with windows of positions, which see no further in a longer context")
		case a.Scores.Slopes != nil:
			return errors.New("the model's scores fall with the distance of positions (ALiBi)")
		case a.Temperature.Scale != 0:
			return errors.New("the model's queries grow with their positions")
		case a.Indexer != nil:
			return errors.New("the model sees blocks of positions, whose borders would move")
		case a.Scores.Later:
			return errors.New("the model's tokens see those behind them")
		}
		rotated = rotated || a != nil && a.Rope != nil
	}
	switch {
	case m.embed.Positions != nil || !rotated:
		return errors.New("the model does not rotate keys to their positions")
	}
	return nil
}
