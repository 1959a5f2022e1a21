package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// media are kinds of content that the model cannot be shown.
var media = []string{"image", "audio", "video", "screenshot"}

// IsMedia reports whether a kind of content, such as input_image, is a picture or a sound.
func IsMedia(kind string) bool {
	for _, m := range media {
		if strings.Contains(kind, m) && !strings.HasSuffix(kind, "_call") {
			return true
		}
	}
	return false
}

// Described returns a line of text for a part of a conversation that the model cannot be shown otherwise, such as
// another server's web search: its kind, and its texts. It is empty for parts without text, such as encrypted ones.
func Described(part json.RawMessage) string {
	var kind struct {
		Type string `json:"type"`
	}
	json.Unmarshal(part, &kind) // without a type the line has none
	if IsMedia(kind.Type) {
		return "[" + kind.Type + " that cannot be shown]"
	}
	d := json.NewDecoder(bytes.NewReader(part))
	var texts []string
	describe(d, "", &texts)
	if len(texts) == 0 {
		return ""
	}
	if kind.Type != "" {
		kind.Type += ": "
	}
	return "[" + kind.Type + strings.Join(texts, "; ") + "]"
}

// describe reads one value and appends its texts, each with its name.
func describe(d *json.Decoder, name string, texts *[]string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case string:
		if v = strings.TrimSpace(v); v != "" && !hidden(name, v) {
			if name != "" && name != "text" && name != "content" {
				v = name + ": " + v
			}
			*texts = append(*texts, v)
		}
	case float64:
		if strings.HasSuffix(name, "code") { // an exit code or an error code
			*texts = append(*texts, fmt.Sprint(name, ": ", v))
		}
	case json.Delim:
		for d.More() {
			inner := name
			if v == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				inner = key.(string)
			}
			if err := describe(d, inner, texts); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

// longestWord is the longest word that counts as text: longer ones are encoded data.
const longestWord = 2_000

// hidden reports whether a field says nothing to a model: ids, states and encoded data.
func hidden(name, text string) bool {
	switch name {
	case "type", "id", "status", "signature", "data", "execution", "object", "role", "media_type", "encrypted_index", "detail":
		return true
	}
	if strings.HasSuffix(name, "_id") || strings.HasPrefix(name, "encrypted_") || strings.HasPrefix(text, "data:") {
		return true
	}
	for word := range strings.FieldsSeq(text) {
		if len(word) > longestWord {
			return true
		}
	}
	return false
}

// TextFile returns the text of a file that is given as a data URL of a text.
func TextFile(url string) (string, bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	head, data, found := strings.Cut(rest, ",")
	kind, encoded := strings.CutSuffix(head, ";base64")
	if !ok || !found || !encoded || !strings.HasPrefix(kind, "text/") && !strings.HasPrefix(kind, "application/json") {
		return "", false
	}
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", false
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), true
}
