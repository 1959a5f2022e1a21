package server

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// InputTokens is the answer to a request that asks how many tokens its prompt has, in OpenAI's form.
func InputTokens(n int) any {
	return map[string]any{"object": "response.input_tokens", "input_tokens": n}
}

// ReadPrompts reads the prompts of a completion: one or a list. A prompt is a text, an object with a text as
// prompt_string, or a list of tokens and texts; a list without any token is one of prompts.
func (m *Model) ReadPrompts(f *Fields) [][]int32 {
	raw := f.Raw("prompt")
	if raw == nil {
		f.Fail(Invalid("the field prompt is missing"))
		return nil
	}
	all, err := m.promptsOf(f.context(), raw)
	if err != nil {
		f.Fail(err)
	}
	return all
}

func (m *Model) promptsOf(ctx context.Context, raw json.RawMessage) ([][]int32, error) {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || slices.ContainsFunc(parts, func(p json.RawMessage) bool { return !strings.ContainsAny(string(p[:1]), `"[{`) }) {
		ids, err := m.promptOf(ctx, raw)
		return [][]int32{ids}, err
	}
	if len(parts) == 0 {
		return nil, Invalid("the field prompt is an empty list")
	}
	if err := m.canTake(len(parts)); err != nil { // before each takes memory
		return nil, err
	}
	var all [][]int32
	for _, p := range parts {
		ids, err := m.promptOf(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, ids)
	}
	return all, nil
}

// readText reads a text and reports whether it is one; encoding/json takes null for an empty one.
func readText(raw json.RawMessage, text *string) bool {
	return string(raw) != "null" && json.Unmarshal(raw, text) == nil
}

// promptOf returns the tokens of one prompt.
func (m *Model) promptOf(ctx context.Context, raw json.RawMessage) ([]int32, error) {
	var text string
	if readText(raw, &text) {
		return m.Encode(ctx, text, true, true)
	}
	var object struct {
		Text  *string         `json:"prompt_string"`
		Media json.RawMessage `json:"multimodal_data"`
	}
	if json.Unmarshal(raw, &object) == nil && object.Text != nil {
		if len(object.Media) > 0 && string(object.Media) != "[]" {
			return nil, Invalid("the field prompt has multimodal_data; the model reads text")
		}
		return m.Encode(ctx, *object.Text, true, true)
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
