package ollama

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// maxLogprobs is the largest number of likeliest tokens that an answer lists.
const maxLogprobs = 20

// request is a request for a text.
type request struct {
	name    string // the client's name for the model
	model   *server.Model
	keep    *time.Duration
	stream  bool
	text    server.Generation
	reading *server.Reading // nil: the text is sent as it is
	context bool            // the answer's end has the conversation's tokens
	began   time.Time
	loading time.Duration
}

// begin reads the fields that all requests for a text share. release must be called at the end; it is nil where the
// request was for loading or unloading, and is answered.
func (a *api) begin(ctx context.Context, f *server.Fields, empty bool) (q *request, release func(), reason string, err error) {
	q = &request{name: nameOf(f), keep: readKeep(f), stream: true, began: time.Now()}
	f.Read("stream", &q.stream)
	if err := f.Err(); err != nil { // a field that cannot be read is not an empty one
		return nil, nil, "", err
	}
	name := a.s.Known(q.name)
	if empty && q.keep != nil && *q.keep == 0 {
		if err := a.s.Models.Unload(ctx, name); !errors.Is(err, server.ErrStays) { // the only model has nothing to make room for
			return q, nil, "unload", err
		}
		return q, nil, "unload", nil
	}
	if q.model, release, err = a.s.Models.Use(ctx, name); err != nil {
		return nil, nil, "", err
	}
	q.loading = time.Since(q.began)
	if q.keep != nil {
		err = a.s.Models.Keep(name, *q.keep)
	}
	if empty || err != nil {
		release()
		return q, nil, "load", err
	}
	return q, release, "", nil
}

// readText reads the fields about how a text is generated.
func (a *api) readText(f *server.Fields, q *request) {
	q.text = a.readOptions(f, q.model)
	readFormat(f, q.model, &q.text)
	f.Read("logprobs", &q.text.Logprobs)
	if f.Read("top_logprobs", &q.text.TopLogprobs); q.text.TopLogprobs < 0 || q.text.TopLogprobs > maxLogprobs {
		f.Fail(server.Invalid("the field top_logprobs is not a number from 0 to %d", maxLogprobs))
	}
}

// withImages makes a text after images the content of a message.
func withImages(to *chat.Message, pictures *server.Pictures, images []string, text string) error {
	var content chat.Text
	for i, source := range images {
		one, err := pictures.Read(source)
		if err != nil {
			return server.Invalid("image %d: %s", i, err)
		}
		content.Picture(one)
	}
	content.Add(text)
	content.Fill(to)
	return nil
}

// answer generates the text and sends it in the form of d.
func (q *request) answer(w http.ResponseWriter, r *http.Request, d document) error {
	events, err := q.model.Generate(r.Context(), []server.Generation{q.text})
	if err != nil {
		return err
	}
	t := &text{request: q, document: d}
	if q.reading != nil {
		t.parser = q.reading.NewParser()
		defer t.close()
	}
	if q.stream {
		t.lines = server.NewLineStream(w)
	}
	for e := range events {
		if err := t.take(&e); err != nil {
			return err
		}
		if t.gone {
			return nil
		}
	}
	if !q.stream {
		server.WriteJSON(w, t.last)
	}
	return nil
}
