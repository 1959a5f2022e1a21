// Package attachment reads the pictures that a user shows to a model, and finds the files that a message or a command
// names. Names may be in quotes, have backslashes as in shells, or come from dragging a file into the terminal.
package attachment

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// Mark stands for a picture in a text that a user gives, as in llama.cpp.
const Mark = "<__media__>"

// Picture is a picture for a message.
type Picture struct {
	Name string // the file's path
	File []byte // its content
	*powerinfer.Picture
}

// Read reads a file of a picture.
func Read(path string) (Picture, error) {
	file, err := wholefile.Read(path, powerinfer.LargestPicture)
	if err != nil {
		return Picture{}, err
	}
	p, err := powerinfer.ReadPicture(file)
	if err != nil {
		return Picture{}, fmt.Errorf("%s: %w", path, err)
	}
	return Picture{path, file, p}, nil
}

// Describe returns a line about the picture: its size and the tokens that it takes.
func (p *Picture) Describe(m *powerinfer.Model) (string, error) {
	_, places, err := m.TokenizeMarked(Mark, Mark, []*powerinfer.Picture{p.Picture}, false)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("picture: %s, %dx%d, %s", filepath.Base(p.Name), p.Width, p.Height, quantity.Of(places.Tokens(), "token")), nil
}

// Parts splits a message's text at its marks and puts the pictures there, or before the text if there are no marks.
func Parts(text string, pictures []Picture) ([]chat.Part, error) {
	var parts []chat.Part
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			parts = append(parts, chat.Part{Type: "text", Text: text})
		}
	}
	texts := strings.Split(text, Mark)
	if len(texts) == 1 {
		texts = append(make([]string, len(pictures)), text)
	}
	if n := len(texts) - 1; n != len(pictures) {
		are := "are"
		if len(pictures) == 1 {
			are = "is"
		}
		return nil, fmt.Errorf("the text has %s %s, each of which stands for a picture, and there %s %s", Mark, quantity.Of(n, "time"), are, quantity.Of(len(pictures), "picture"))
	}
	for i, p := range pictures {
		add(texts[i])
		parts = append(parts, chat.Part{Type: "image", Picture: p.Picture})
	}
	add(texts[len(pictures)])
	return parts, nil
}

// DataURI returns a picture's file as an address.
func DataURI(file []byte) string {
	return "data:" + http.DetectContentType(file) + ";base64," + base64.StdEncoding.EncodeToString(file)
}

// FileOf returns the file in a picture's address.
func FileOf(uri string) ([]byte, error) {
	_, data, ok := strings.Cut(uri, ";base64,")
	if !ok || !strings.HasPrefix(uri, "data:") {
		return nil, errors.New("the picture is not in the file: its address is no data URI in base64")
	}
	return base64.StdEncoding.DecodeString(data)
}
