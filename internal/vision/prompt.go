package vision

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Placed are rows in a prompt.
type Placed struct {
	At int // of the prompt's tokens, the first in whose place they are; those tokens are ignored
	*Rows
}

// A PictureError says why a picture cannot be shown to a model. The fault is the picture's or the model's choice: a server
// answers it with 400.
type PictureError struct{ Err error }

func (e *PictureError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *PictureError) Unwrap() error { return e.Err }

// ErrNoTower says that a model cannot be shown pictures.
var ErrNoTower = &PictureError{setting.Errorf("the model reads text and cannot be shown a picture: take a model with an mmproj file, and give that with %s", setting.Tower)}

// Laid are the tokens of a prompt in which pictures have their places, and no row is computed yet.
type Laid struct {
	IDs   []int32
	views []placedView
}

// placedView is a view whose rows come in the place of tokens from at on.
type placedView struct {
	at, rows int
	sum      [32]byte // of the rows
	of       *picture.Image
	part     int // of what is shown of the picture
}

// Rows returns how many rows of pictures there are.
func (l *Laid) Rows() (n int) {
	for _, v := range l.views {
		n += v.rows
	}
	return n
}

// HasPictures reports whether there are pictures in the prompt.
func (l *Laid) HasPictures() bool { return l != nil && len(l.views) > 0 }

// Places calls f for each view of a picture: the first of its tokens, and how many there are.
func (l *Laid) Places(f func(at, n int)) {
	if l != nil {
		for _, v := range l.views {
			f(v.at, v.rows)
		}
	}
}

// Prepend puts tokens before the prompt, in the place of its first cut ones.
func (l *Laid) Prepend(before []int32, cut int) {
	l.IDs = slices.Concat(before, l.IDs[cut:])
	for i := range l.views {
		l.views[i].at += len(before) - cut
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
	rows int // 0: there is a text
}

// of returns how a picture is shown.
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

// Lay returns the tokens of a marked text, in which pictures have their places. encode splits a text into tokens, special
// ones included; first says that it is the prompt's beginning. t may be nil, for texts without pictures, and so may views,
// which remembers them.
func (t *Tower) Lay(m *picture.Marked, views Views, encode func(text string, first bool) ([]int32, error)) (*Laid, error) {
	l := &Laid{}
	begun := false
	add := func(text string) error {
		if text == "" && begun {
			return nil
		}
		more, err := encode(text, !begun)
		l.IDs, begun = append(l.IDs, more...), true
		return err
	}
	if len(m.Pictures) == 0 {
		return l, add(m.Text)
	}
	if t == nil {
		return nil, ErrNoTower
	}
	texts := strings.Split(m.Text, m.Mark)
	if m.Mark == "" || len(texts) != len(m.Pictures)+1 {
		return nil, ErrMarks
	}
	// Texts between rows are split into tokens together with what the tower puts around the rows.
	pending := texts[0]
	for i, one := range m.Pictures {
		shown, err := views.of(t, one)
		if err != nil {
			return nil, err
		}
		for k, p := range shown.parts {
			if p.rows == 0 {
				pending += p.text
				continue
			}
			if err := add(pending); err != nil {
				return nil, err
			}
			pending = ""
			l.views = append(l.views, placedView{len(l.IDs), p.rows, t.sumOf(shown.sum, k), one, k})
			l.IDs = append(l.IDs, make([]int32, p.rows)...)
		}
		pending += texts[i+1]
	}
	return l, add(pending)
}

// Place returns the rows of a prompt's pictures. It computes those that are not kept; the end of ctx ends the waiting for
// others' pictures.
func (t *Tower) Place(ctx context.Context, l *Laid) ([]Placed, error) {
	if l == nil {
		return nil, nil
	}
	var placed []Placed
	var cut *picture.Image // into parts
	var parts []family.Part
	for _, v := range l.views {
		rows, err := t.rows(ctx, v.sum, func() (_ *family.View, err error) {
			if cut != v.of {
				parts, err = t.cut(v.of)
				cut = v.of
			}
			if err != nil {
				return nil, err
			}
			return parts[v.part].View, nil
		})
		if err != nil {
			return nil, err
		}
		placed = append(placed, Placed{v.at, rows})
	}
	return placed, nil
}

// Prompt returns the tokens of a marked text, and the pictures among them: see Lay and Place.
func (t *Tower) Prompt(ctx context.Context, m *picture.Marked, encode func(text string, first bool) ([]int32, error)) (ids []int32, placed []Placed, err error) {
	l, err := t.Lay(m, nil, encode)
	if err != nil {
		return nil, nil, err
	}
	placed, err = t.Place(ctx, l)
	return l.IDs, placed, err
}

// ErrMarks says that a prompt has fewer or more marks than pictures.
var ErrMarks = &PictureError{errors.New("the prompt does not have one mark for each picture: write as many marks as there are pictures")}
