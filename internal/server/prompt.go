package server

import (
	"encoding/json"
	"math"
)

// InputTokens is the answer to a request that asks how many tokens its prompt has, in OpenAI's form.
func InputTokens(n int) any {
	return map[string]any{"object": "response.input_tokens", "input_tokens": n}
}

// ReadPrompt reads the prompt of a completion: a text, or a list of tokens and texts. Clients that send lists of prompts may send one.
func (m *Model) ReadPrompt(f *Fields) []int32 {
	raw := f.Raw("prompt")
	if raw == nil {
		f.Fail(Invalid("the field prompt is missing"))
		return nil
	}
	ids, err := m.promptOf(raw, true)
	if err != nil {
		f.Fail(err)
	}
	return ids
}

func (m *Model) promptOf(raw json.RawMessage, listed bool) ([]int32, error) {
	tok := m.Engine.Tokenizer()
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return tok.Encode(text, true, true), nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return nil, Invalid("the field prompt is neither a text nor a list of tokens and texts")
	}
	if len(parts) == 1 && listed && len(parts[0]) > 0 && (parts[0][0] == '"' || parts[0][0] == '[') {
		return m.promptOf(parts[0], false)
	}
	var ids []int32
	tokens := 0
	for i, p := range parts {
		var id float64
		switch {
		case json.Unmarshal(p, &text) == nil:
			ids = append(ids, tok.Encode(text, i == 0, true)...)
		case json.Unmarshal(p, &id) == nil && id == math.Trunc(id) && id >= 0 && int(min(id, math.MaxInt32)) < m.Engine.Config().Vocab:
			ids = append(ids, int32(id))
			tokens++
		default:
			return nil, Invalid("the field prompt has an element that is neither a text nor a token of the vocabulary")
		}
	}
	if tokens == 0 && len(parts) > 0 {
		return nil, Invalid("the field prompt has several prompts; send them as requests of their own")
	}
	return ids, nil
}
