package talk

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/attachment"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/conversation"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
)

// attachPictures keeps pictures for the next message.
func (t *talk) attachPictures(argument string) error {
	names := attachment.Files(argument)
	if len(names) == 0 {
		return errors.New("/image needs the name of a file")
	}
	return t.keepPictures(names)
}

func (t *talk) keepPictures(names []string) error {
	var more []attachment.Picture
	for _, name := range names {
		p, err := attachment.Read(name)
		if err != nil {
			return err
		}
		more = append(more, p)
	}
	if err := t.tellPictures(more); err != nil {
		return err
	}
	t.pictures = append(t.pictures, more...)
	return nil
}

// tellUnseen notes that the model cannot see the conversation's pictures, if there are any.
func (t *talk) tellUnseen() {
	if n := t.said.Pictures(); n > 0 && !t.model.Sees() {
		t.note("the model reads text only: instead of the conversation's %s it reads %s", quantity.Of(n, "picture"), conversation.Unseen)
	}
}

// tellPictures tells the user which pictures the model sees.
func (t *talk) tellPictures(all []attachment.Picture) error {
	for i := range all {
		line, err := all[i].Describe(t.model.Model)
		if err != nil {
			return err
		}
		t.note("%s", line)
	}
	return nil
}

// pictured finds the paths of pictures in a message. It returns the message with marks in their place, and the
// pictures. done says that there is nothing to answer: the pictures are for the next message.
func (t *talk) pictured(message string) (marked string, pictures []attachment.Picture, done bool, err error) {
	marked, paths := attachment.Find(message)
	switch {
	case !t.interactive || len(paths) == 0 || strings.Contains(message, attachment.Mark):
		return message, nil, false, nil
	case !t.model.Sees():
		t.note("%s is not shown: the model reads text only", filepath.Base(paths[0]))
		return message, nil, false, nil
	case strings.TrimSpace(strings.ReplaceAll(marked, attachment.Mark, "")) == "":
		err := t.keepPictures(paths)
		if err == nil {
			t.note("now ask about it")
		}
		return "", nil, true, err
	}
	for _, path := range paths {
		p, err := attachment.Read(path)
		if err != nil {
			return "", nil, false, err
		}
		pictures = append(pictures, p)
	}
	return marked, pictures, false, t.tellPictures(pictures)
}
