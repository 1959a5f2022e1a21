package vision

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
)

// Placed are rows in a prompt.
type Placed struct {
	At int // index of the first token that they replace; the replaced tokens are ignored
	*Rows
}

// A PictureError says why a picture cannot be shown to a model. The fault is the picture's or the model's choice: a server
// answers it with 400.
type PictureError struct{ Err error }

func (e *PictureError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PictureError) Unwrap() error { return e.Err }

// ErrNoTower says that a model cannot be shown pictures.
var ErrNoTower = &PictureError{setting.Errorf("the model reads text and cannot be shown a picture: take a model with an mmproj file, and give that with %s", setting.Tower)}

// Prompt has the tokens of a prompt, and the views of its pictures; no row is computed yet.
type Prompt struct {
	IDs   []int32 // has an ignored token for each row of a picture
	views []placedView
}

// placedView is a view with rows that replace tokens from at on.
type placedView struct {
	at, rows int
	sum      [32]byte // of the rows
	of       *picture.Image
	part     int // which part of the picture it shows
}

// Rows returns how many rows of pictures there are.
func (p *Prompt) Rows() (n int) {
	for _, v := range p.views {
		n += v.rows
	}
	return n
}

// HasPictures reports whether there are pictures in the prompt.
func (p *Prompt) HasPictures() bool { return p != nil && len(p.views) > 0 }

// Places calls f for each view of a picture: the first of its tokens, and how many there are.
func (p *Prompt) Places(f func(at, n int)) {
	if p != nil {
		for _, v := range p.views {
			f(v.at, v.rows)
		}
	}
}

// Prepend replaces the first cut tokens of the prompt by other tokens.
func (p *Prompt) Prepend(before []int32, cut int) {
	p.IDs = slices.Concat(before, p.IDs[cut:])
	for i := range p.views {
		p.views[i].at += len(before) - cut
	}
}

// Views remembers how pictures are shown, for prompts of the same pictures.
type Views map[*picture.Image]viewed

type viewed struct {
	sum   [32]byte // of the picture
	parts []shownPart
}

// shownPart is a text, or the number of rows that a view has. The view itself is made again when its rows are computed,
// since patches take far more memory than pictures.
type shownPart struct {
	text string
	rows int // 0: it is a text
}

// of returns the pieces that show a picture.
func (v Views) of(t *Tower, m *picture.Image) (viewed, error) {
	if known, ok := v[m]; ok {
		return known, nil
	}
	parts, err := t.cut(m)
	if err != nil {
		return viewed{}, err
	}
	shown := viewed{sum: m.Sum()}
	for _, p := range parts {
		one := shownPart{text: p.Text}
		if p.View != nil {
			one.rows = p.View.Rows
		}
		shown.parts = append(shown.parts, one)
	}
	if v != nil {
		v[m] = shown
	}
	return shown, nil
}

// Tokenize returns the prompt of a marked text, and computes no picture. encode splits a text into tokens, special ones
// included; first says that it is the prompt's beginning. t may be nil for texts without pictures, and so may views,
// which caches them.
func (t *Tower) Tokenize(m *picture.Marked, views Views, encode func(text string, first bool) ([]int32, error)) (*Prompt, error) {
	prompt := &Prompt{}
	begun := false
	add := func(text string) error {
		if text == "" && begun {
			return nil
		}
		more, err := encode(text, !begun)
		prompt.IDs, begun = append(prompt.IDs, more...), true
		return err
	}
	if len(m.Pictures) == 0 {
		return prompt, add(m.Text)
	}
	if t == nil {
		return nil, ErrNoTower
	}
	texts := strings.Split(m.Text, m.Mark)
	if m.Mark == "" || len(texts) != len(m.Pictures)+1 {
		return nil, ErrMarks
	}
	// Texts between rows are split into tokens together with the tower's texts around the rows.
	pending := texts[0]
	for i, one := range m.Pictures {
		shown, err := views.of(t, one)
		if err != nil {
			return nil, err
		}
		for k, p := range shown.parts {
			if p.rows == 0 {
				if m.Plain { // as in llama.cpp
					p.text = strings.Trim(p.text, "\n")
				}
				pending += p.text
				continue
			}
			if err := add(pending); err != nil {
				return nil, err
			}
			pending = ""
			prompt.views = append(prompt.views, placedView{len(prompt.IDs), p.rows, t.sumOf(shown.sum, k), one, k})
			prompt.IDs = append(prompt.IDs, make([]int32, p.rows)...)
		}
		pending += texts[i+1]
	}
	return prompt, add(pending)
}

// Compute returns the rows of a prompt's pictures. It computes those that are not cached, until ctx ends. progress,
// which may be nil, gets the work done, and total.
func (t *Tower) Compute(ctx context.Context, prompt *Prompt, progress func(done, total int)) ([]Placed, error) {
	if !prompt.HasPictures() {
		return nil, nil
	}
	var placed []Placed
	var cut *picture.Image // into parts
	var parts []tower.Part
	for i, v := range prompt.views {
		layer := func(l int) {
			if progress != nil {
				progress(i*t.layers+l, len(prompt.views)*t.layers)
			}
		}
		rows, err := t.rows(ctx, v.sum, func() (_ *tower.View, err error) {
			if cut != v.of {
				parts, err = t.cut(v.of)
				cut = v.of
			}
			if err != nil {
				return nil, err
			}
			return parts[v.part].View, nil
		}, layer)
		if err != nil {
			return nil, err
		}
		placed = append(placed, Placed{v.at, rows})
	}
	if n := len(prompt.views) * t.layers; progress != nil {
		progress(n, n)
	}
	return placed, nil
}

// ErrMarks says that a prompt has fewer or more marks than pictures.
var ErrMarks = &PictureError{errors.New("the prompt does not have one mark for each picture: write as many marks as there are pictures")}
