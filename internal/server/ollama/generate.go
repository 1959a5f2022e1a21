package ollama

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// generated is a document of an answer to /api/generate.
type generated struct {
	head
	Response string `json:"response"`
	Thinking string `json:"thinking,omitempty"`
	tail
}

func generatedOf(h head, p *piece, t tail) any { return generated{h, p.content, p.thinking, t} }

func (a *api) generate(w http.ResponseWriter, r *http.Request, f *server.Fields) error {
	var prompt, suffix, system, template string
	var images []string
	var before []int32
	raw := false
	f.Read("prompt", &prompt)
	f.Read("suffix", &suffix)
	f.Read("system", &system)
	f.Read("template", &template)
	f.Read("raw", &raw)
	f.Read("images", &images)
	f.Read("context", &before)
	q, release, done, err := a.begin(r.Context(), f, prompt == "" && suffix == "" && images == nil)
	if err != nil {
		return err
	}
	if release == nil {
		server.WriteJSON(w, generatedOf(head{q.name, time.Now().UTC()}, &piece{}, tail{Done: true, Reason: done}))
		return nil
	}
	defer release()
	a.readText(f, q)
	if suffix != "" {
		f.Fail(server.Invalid("%q does not support insert; POST /infill takes llama-server's form of it", q.name))
	}
	if template != "" {
		f.Fail(server.Invalid("the field template is not supported: the model's own chat template is used, or with raw none"))
	}
	server.Unused[bool](f, "truncate", "shift")
	checkTokens(f, q.model, before)
	c := q.model.NewConversation()
	readThink(f, q.model, q.name, c)
	if raw {
		list, _ := json.Marshal(images) // texts
		p, err := q.model.MarkedPrompt(f, strings.Repeat(server.MediaMark, len(images))+prompt, list)
		if err != nil {
			f.Fail(err)
		}
		if err := f.Close(); err != nil {
			return err
		}
		q.text.Ask(p)
		return q.answer(w, r, generatedOf)
	}
	asked := chat.Message{Role: "user"}
	if err := withImages(&asked, q.model.Pictures(f), images, prompt); err != nil {
		f.Fail(err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	if system != "" {
		c.Messages = append(c.Messages, chat.Message{Role: "system", Content: system})
	}
	c.Messages = append(c.Messages, asked)
	if q.reading, err = q.model.Prepare(c, &q.text); err != nil {
		return err
	}
	q.context = !q.text.HasPictures() // which tokens do not hold
	if len(before) > 0 {
		tok, next, cut := q.model.Engine.Tokenizer(), q.text.Prompt, 0
		if tok.AddsBOS() && len(next) > 0 && next[0] == tok.BOS() {
			cut = 1
		}
		q.text.Continue(before, cut)
	}
	return q.answer(w, r, generatedOf)
}

// checkTokens refuses a context of tokens that are none of the model's.
func checkTokens(f *server.Fields, m *server.Model, ids []int32) {
	for _, id := range ids {
		if id < 0 || int(id) >= m.Engine.Config().Vocab {
			f.Fail(server.Invalid("the field context has %d, which is no token of the model's", id))
			return
		}
	}
}
