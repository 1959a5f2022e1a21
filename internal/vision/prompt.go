package vision

import (
	"context"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Placed are rows in a prompt.
type Placed struct {
	At int // of the prompt's tokens, the first in whose place they are; those tokens are ignored
	*Rows
}

// Marked is a text in which marks stand for pictures, in their order.
type Marked struct {
	Text     string
	Mark     string // of each picture; empty: there are none
	Pictures []*picture.Image
}

// ErrNoTower says that a model cannot be shown pictures.
var ErrNoTower = setting.Errorf("the model reads text and cannot be shown a picture: take a model with an mmproj file, and give that with %s", setting.Tower)

// Prompt returns the tokens of a marked text, and the pictures among them. encode splits a text into tokens, special ones
// included; first says that it is the prompt's beginning. t may be nil, for texts without pictures.
func (t *Tower) Prompt(ctx context.Context, m *Marked, encode func(text string, first bool) ([]int32, error)) (ids []int32, placed []Placed, err error) {
	add := func(text string) error {
		if text == "" && len(ids) > 0 {
			return nil
		}
		more, err := encode(text, len(ids) == 0)
		ids = append(ids, more...)
		return err
	}
	if len(m.Pictures) == 0 {
		err := add(m.Text)
		return ids, nil, err
	}
	if t == nil {
		return nil, nil, ErrNoTower
	}
	texts := strings.Split(m.Text, m.Mark)
	if len(texts) != len(m.Pictures)+1 {
		return nil, nil, errMarks
	}
	// Texts between rows are split into tokens together with what the tower puts around the rows.
	pending := texts[0]
	for i, one := range m.Pictures {
		parts, err := t.Show(ctx, one)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range parts {
			if p.Rows == nil {
				pending += p.Text
				continue
			}
			if err := add(pending); err != nil {
				return nil, nil, err
			}
			pending = ""
			placed = append(placed, Placed{len(ids), p.Rows})
			ids = append(ids, make([]int32, len(p.Rows.Vectors))...)
		}
		pending += texts[i+1]
	}
	err = add(pending)
	return ids, placed, err
}

// errMarks says that a template lost or repeated a picture's mark.
var errMarks = setting.Errorf("the chat template does not show each picture once: take another with %s, or the one that the model was published with", setting.Template)
