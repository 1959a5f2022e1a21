package chat

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Marked is a conversation's text.
type Marked = picture.Marked

// marks are texts in the places of pictures: a random text, which no message can contain, and the picture's number. To
// a template they are part of the message's text, so every template shows them, and whatever moves or joins messages
// keeps them in place.
type marks struct {
	mark     string
	pictures []*picture.Image
}

// markDigits is the number of digits of a picture's number.
const markDigits = 6

func newMarks() *marks { return &marks{mark: "picture" + rand.Text()} }

// put returns messages with marks in their texts instead of pictures.
func (k *marks) put(messages []Message) []Message {
	out := edited(messages, func(m *Message) bool {
		var text strings.Builder
		before := len(k.pictures)
		for _, p := range m.Parts {
			if p.Picture == nil {
				text.WriteString(p.Text)
				continue
			}
			fmt.Fprintf(&text, "%s%0*d", k.mark, markDigits, len(k.pictures))
			k.pictures = append(k.pictures, p.Picture)
		}
		if len(k.pictures) == before {
			return false
		}
		m.Content, m.Parts = text.String(), nil
		return true
	})
	if out == nil {
		return messages
	}
	return out
}

// collect returns a text with the pictures of its marks.
func (k *marks) collect(text string) (Marked, error) {
	if len(k.pictures) == 0 {
		return Marked{Text: text}, nil
	}
	pieces := strings.Split(text, k.mark)
	var b strings.Builder
	b.WriteString(pieces[0])
	m := Marked{Mark: k.mark}
	shown := make([]bool, len(k.pictures))
	for _, piece := range pieces[1:] {
		if len(piece) < markDigits {
			return Marked{}, errMarks
		}
		n, err := strconv.Atoi(piece[:markDigits])
		if err != nil || n < 0 || n >= len(k.pictures) {
			return Marked{}, errMarks
		}
		m.Pictures, shown[n] = append(m.Pictures, k.pictures[n]), true
		b.WriteString(k.mark)
		b.WriteString(piece[markDigits:])
	}
	for _, ok := range shown {
		if !ok {
			return Marked{}, errMarks
		}
	}
	m.Text = b.String()
	return m, nil
}

// errMarks says that a template does not show a picture's mark.
var errMarks = setting.Errorf("the chat template does not show each picture of the conversation: name another with %s, or take the one that the model was published with", setting.Template)
