package server

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// InputTokens is the answer to a request that asks how many tokens its prompt has, in OpenAI's form.
func InputTokens(n int) any {
	return map[string]any{"object": "response.input_tokens", "input_tokens": n}
}

// ReadPrompts reads the prompts of a completion: one or a list. A prompt is a text, an object with a text as
// prompt_string and the pictures of its marks as multimodal_data, or a list of tokens and texts. A list without tokens
// is a list of prompts.
func (m *Model) ReadPrompts(f *Fields) []*Prompt {
	raw := f.Raw("prompt")
	if raw == nil {
		f.Fail(Invalid("the field prompt is missing"))
		return nil
	}
	all, err := m.promptsOf(f, raw)
	if err != nil {
		f.Fail(err)
	}
	return all
}

func (m *Model) promptsOf(f *Fields, raw json.RawMessage) ([]*Prompt, error) {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || slices.ContainsFunc(parts, func(p json.RawMessage) bool { return !strings.ContainsAny(string(p[:1]), `"[{`) }) {
		p, err := m.promptOf(f, raw)
		return []*Prompt{p}, err
	}
	if len(parts) == 0 {
		return nil, Invalid("the field prompt is an empty list")
	}
	if err := m.canTake(len(parts)); err != nil { // before each takes memory
		return nil, err
	}
	var all []*Prompt
	for _, raw := range parts {
		p, err := m.promptOf(f, raw)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// readText reads a text and reports whether it is one; encoding/json takes null for an empty one.
func readText(raw json.RawMessage, text *string) bool {
	return string(raw) != "null" && json.Unmarshal(raw, text) == nil
}

// promptOf returns one prompt.
func (m *Model) promptOf(f *Fields, raw json.RawMessage) (*Prompt, error) {
	var object struct {
		Text  *string         `json:"prompt_string"`
		Media json.RawMessage `json:"multimodal_data"`
	}
	if raw[0] == '{' && json.Unmarshal(raw, &object) == nil && object.Text != nil {
		return m.MarkedPrompt(f, *object.Text, object.Media)
	}
	ids, err := m.tokensOf(f.context(), raw)
	return &Prompt{IDs: ids}, err
}

// MarkedPrompt returns a prompt of a text in which each MediaMark stands for a picture, given the list of pictures, in
// base64.
func (m *Model) MarkedPrompt(f *Fields, text string, list json.RawMessage) (*Prompt, error) {
	var sources []string
	if len(list) > 0 && json.Unmarshal(list, &sources) != nil {
		return nil, Invalid("the field multimodal_data is no list of pictures in base64")
	}
	marked := picture.Marked{Text: text, Mark: MediaMark, Plain: true}
	if len(sources) == 0 {
		marked.Mark = ""
	} else if n := strings.Count(text, MediaMark); n != len(sources) {
		return nil, Invalid("the prompt has %d pictures and %d times %s, which stands for one", len(sources), n, MediaMark)
	}
	pictures := m.Pictures(f)
	for i, s := range sources {
		one, err := pictures.Read(s)
		if err != nil {
			return nil, Invalid("picture %d: %s", i, err)
		}
		marked.Pictures = append(marked.Pictures, one)
	}
	var taken int64
	return m.layMarked(f.context(), marked, nil, &taken, func(text string, more func(int64) error) ([]int32, error) {
		return m.Encode(f.context(), text, true, true)
	})
}

// tokensOf returns the tokens of a prompt that is a text, or a list of tokens and texts.
func (m *Model) tokensOf(ctx context.Context, raw json.RawMessage) ([]int32, error) {
	var text string
	if readText(raw, &text) {
		return m.Encode(ctx, text, true, true)
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return nil, Invalid("the field prompt is neither a text nor a list of tokens and texts")
	}
	var ids []int32
	for i, p := range parts {
		var id float64
		switch {
		case readText(p, &text):
			more, err := m.Encode(ctx, text, i == 0, true)
			if err != nil {
				return nil, err
			}
			ids = append(ids, more...)
		case string(p) != "null" && json.Unmarshal(p, &id) == nil && id == math.Trunc(id) && id >= 0 && int(min(id, math.MaxInt32)) < m.Engine.Config().Vocab:
			ids = append(ids, int32(id))
		default:
			return nil, Invalid("the field prompt has an element that is neither a text nor a token of the vocabulary")
		}
	}
	return ids, nil
}
