package powerinfer

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// Picture is a picture that a model can be shown: Width x Height pixels, from the top, of red, green and blue (sRGB).
//
//   - Width, Height int: pixels
//   - Pix []byte: [Height][Width][3]
type Picture = picture.Image

// LargestPicture is the size of the largest file that ReadPicture reads, in bytes.
const LargestPicture = picture.DefaultBytes

// ReadPicture reads a file of a picture: JPEG, PNG, GIF (its first frame), WebP or BMP. The picture is upright, as its
// EXIF data says, and over white where it is transparent. A picture may have 48 Mi pixels.
func ReadPicture(file []byte) (*Picture, error) { return picture.Decode(file, picture.Limits{}) }

// Sees reports whether the model can be shown pictures: see Options.Tower.
func (m *Model) Sees() bool { return m.session.Tower() != nil }

// Places says which tokens of a prompt stand for pictures: see TokenizeMarked.
type Places struct{ prompt *vision.Prompt }

// Tokens returns how many tokens of the prompt stand for pictures.
func (p *Places) Tokens() (n int) {
	if p != nil {
		n = p.prompt.Rows()
	}
	return n
}

// TokenizeMarked returns the tokens of a prompt in which each mark stands for one of pictures, in their order. With
// template it splits the text like TokenizeTemplate, otherwise like Tokenize with control tokens. Generation.Pictures
// takes the places; nothing is computed yet. Pictures for a model without a tower are an error.
func (m *Model) TokenizeMarked(text, mark string, pictures []*Picture, template bool) ([]int32, *Places, error) {
	prompt, err := m.session.Tower().Tokenize(&picture.Marked{Text: text, Mark: mark, Pictures: pictures, Plain: !template}, nil, func(text string, first bool) ([]int32, error) {
		if first && template {
			return m.TokenizeTemplate(text), nil
		}
		return m.Tokenize(text, first, true), nil
	})
	if err != nil {
		return nil, nil, tell(err)
	}
	return prompt.IDs, &Places{prompt}, nil
}

// shown returns the computed pictures of a prompt. It computes those that the cache lacks.
func (m *Model) shown(ctx context.Context, p *Places, progress func(done, total int)) ([]vision.Placed, error) {
	if p.Tokens() == 0 {
		return nil, nil
	}
	return m.session.Tower().Compute(ctx, p.prompt, progress)
}
