package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// generation is the content of generation_config.json, by its keys; nil if the folder has none.
type generation map[string]json.RawMessage

// readGeneration reads the folder's generation_config.json. It is only advice, so a file that cannot be read results in
// a note.
func readGeneration(dir string, notes func(string)) (g generation) {
	path := filepath.Join(dir, "generation_config.json")
	if !checkpoint.Exists(path) {
		return nil
	}
	if err := checkpoint.ReadJSON(path, &g); err != nil {
		notes(fmt.Sprintf("%v; it is left out, with the sampling that it advises", err))
		return nil
	}
	return g
}

// keys returns how the folder advises to choose tokens, as llama.cpp reads it.
//
// Source: llama.cpp's gguf-py/gguf/metadata.py (at 18f4bb5e); repetition_penalty is transformers' name.
func (g generation) keys(notes func(string)) (keys []gguf.KV) {
	for _, k := range []struct {
		key   string
		names []string
		value any
	}{
		{"sequence", []string{"sequence"}, ""},
		{"top_k", []string{"top_k"}, int32(0)},
		{"top_p", []string{"top_p"}, float32(0)},
		{"min_p", []string{"min_p"}, float32(0)},
		{"xtc_probability", []string{"xtc_probability"}, float32(0)},
		{"xtc_threshold", []string{"xtc_threshold"}, float32(0)},
		{"temp", []string{"temperature"}, float32(0)},
		{"penalty_last_n", []string{"penalty_last_n"}, int32(0)},
		{"penalty_repeat", []string{"penalty_repeat", "repetition_penalty"}, float32(0)},
		{"mirostat", []string{"mirostat"}, int32(0)},
		{"mirostat_tau", []string{"mirostat_tau"}, float32(0)},
		{"mirostat_eta", []string{"mirostat_eta"}, float32(0)},
	} {
		at := slices.IndexFunc(k.names, func(name string) bool { return len(g[name]) > 0 && !bytes.Equal(g[name], []byte("null")) })
		if at < 0 {
			continue
		}
		raw := g[k.names[at]]
		var number float64
		var err error
		if text, is := k.value.(string); is {
			err = json.Unmarshal(raw, &text)
			k.value = text
		} else {
			err = json.Unmarshal(raw, &number)
		}
		whole := number == math.Trunc(number) && math.Abs(number) <= math.MaxInt32
		switch k.value.(type) {
		case int32:
			k.value = int32(number)
		case float32:
			k.value, whole = float32(number), math.Abs(number) <= math.MaxFloat32
		}
		if err != nil || !whole {
			notes(fmt.Sprintf("generation_config.json: key %q: %.40s is left out, as it is no value for general.sampling.%s", k.names[at], raw, k.key))
			continue
		}
		keys = append(keys, gguf.KV{Key: "general.sampling." + k.key, Value: k.value})
	}
	return keys
}

// tokenIDs reads a list of token ids, one id or null. It leaves out values that are no ids.
func tokenIDs(raw json.RawMessage) (ids []int) {
	var one int
	var list []json.RawMessage
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
	case json.Unmarshal(raw, &one) == nil && one >= 0:
		return []int{one}
	case json.Unmarshal(raw, &list) == nil:
		for _, raw := range list {
			if json.Unmarshal(raw, &one) == nil && one >= 0 {
				ids = append(ids, one)
			}
		}
	}
	return ids
}
