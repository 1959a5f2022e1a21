package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// tokenizerConfig is tokenizer_config.json, filled up from special_tokens_map.json. Everything is optional.
type tokenizerConfig struct {
	path string

	Class          string                          `json:"tokenizer_class"`
	BOS            tokenText                       `json:"bos_token"`
	EOS            tokenText                       `json:"eos_token"`
	UNK            tokenText                       `json:"unk_token"`
	SEP            tokenText                       `json:"sep_token"`
	CLS            tokenText                       `json:"cls_token"`
	MASK           tokenText                       `json:"mask_token"`
	PAD            tokenText                       `json:"pad_token"`
	AddBOS         *bool                           `json:"add_bos_token"`
	AddEOS         *bool                           `json:"add_eos_token"`
	AddPrefixSpace *bool                           `json:"add_prefix_space"`
	Decoder        map[string]tokenizer.AddedToken `json:"added_tokens_decoder"`
	Template       json.RawMessage                 `json:"chat_template"`
}

// tokenText is a special token's text, written as a string, as an object with a content, or as null.
type tokenText struct{ text string }

// UnmarshalJSON implements json.Unmarshaler.
func (t *tokenText) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &t.text); err == nil {
		return nil
	}
	var object struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal(b, &object); err != nil {
		return fmt.Errorf("a special token is neither a string nor an object with a content")
	}
	t.text = object.Content
	return nil
}

func readTokenizerConfig(dir string) (*tokenizerConfig, error) {
	t := &tokenizerConfig{path: filepath.Join(dir, "tokenizer_config.json")}
	if checkpoint.Exists(t.path) {
		if err := checkpoint.ReadJSON(t.path, t); err != nil {
			return nil, err
		}
	}
	if path := filepath.Join(dir, "special_tokens_map.json"); checkpoint.Exists(path) {
		var m tokenizerConfig
		if err := checkpoint.ReadJSON(path, &m); err != nil {
			return nil, err
		}
		t.BOS.text = cmp.Or(t.BOS.text, m.BOS.text)
		t.EOS.text = cmp.Or(t.EOS.text, m.EOS.text)
		t.UNK.text = cmp.Or(t.UNK.text, m.UNK.text)
		t.PAD.text = cmp.Or(t.PAD.text, m.PAD.text)
		t.SEP.text = cmp.Or(t.SEP.text, m.SEP.text)
		t.CLS.text = cmp.Or(t.CLS.text, m.CLS.text)
		t.MASK.text = cmp.Or(t.MASK.text, m.MASK.text)
	}
	return t, nil
}

// added lists the tokens of added_tokens.json (path) and of added_tokens_decoder, which knows more and wins; by id.
func (t *tokenizerConfig) added(path string) ([]tokenizer.AddedToken, error) {
	byID := map[int32]tokenizer.AddedToken{}
	if checkpoint.Exists(path) {
		var ids map[string]int32
		if err := checkpoint.ReadJSON(path, &ids); err != nil {
			return nil, err
		}
		for text, id := range ids {
			if other, ok := byID[id]; ok {
				return nil, fmt.Errorf("%s: id %d is given to %q and %q", path, id, min(text, other.Content), max(text, other.Content))
			}
			byID[id] = tokenizer.AddedToken{ID: id, Content: text}
		}
	}
	for key, a := range t.Decoder {
		id, err := parseID(t.path, key)
		if err != nil {
			return nil, err
		}
		a.ID = id
		byID[id] = a
	}
	var out []tokenizer.AddedToken
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		out = append(out, byID[id])
	}
	return out, nil
}

// chatTemplates reads the folder's chat templates by name. chat_template.jinja and
// additional_chat_templates/NAME.jinja win, as in transformers.
func (t *tokenizerConfig) chatTemplates(dir string) (map[string]string, error) {
	out := map[string]string{}
	var one string
	var many []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	switch {
	case len(t.Template) == 0 || string(t.Template) == "null":
	case json.Unmarshal(t.Template, &one) == nil:
		out["default"] = one
	case json.Unmarshal(t.Template, &many) == nil:
		for _, m := range many {
			out[m.Name] = m.Template
		}
	default:
		return nil, fmt.Errorf("%s: key %q: neither a string nor a list of named templates", t.path, "chat_template")
	}
	if path := filepath.Join(dir, "chat_template.json"); checkpoint.Exists(path) {
		var file struct {
			Template string `json:"chat_template"`
		}
		if err := checkpoint.ReadJSON(path, &file); err != nil {
			return nil, err
		}
		if file.Template != "" {
			out["default"] = file.Template
		}
	}
	if path := filepath.Join(dir, "chat_template.jinja"); checkpoint.Exists(path) {
		text, err := readTemplate(path)
		if err != nil {
			return nil, err
		}
		out["default"] = text
	}
	more := filepath.Join(dir, "additional_chat_templates")
	entries, err := os.ReadDir(more)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".jinja")
		if !ok || e.IsDir() {
			continue
		}
		text, err := readTemplate(filepath.Join(more, e.Name()))
		if err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, nil
}

func readTemplate(path string) (string, error) {
	text, err := checkpoint.ReadFile(path)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(text) {
		return "", fmt.Errorf("%s: it is not UTF-8: download it again", path)
	}
	return string(text), nil
}
