package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
)

// readTokenList reads PLaMo 2's tokenizer.jsonl. Each line is a list that begins with a token, its score and its kind.
// size is the number of embedding rows.
func readTokenList(path string, size int) (*vocabulary, error) {
	data, err := checkpoint.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := &vocabulary{path: path, model: "plamo2", pre: "default", addSpacePrefix: new(bool)}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(v.tokens) == size {
			return nil, fmt.Errorf("%s: line %d: more tokens than the %d rows of the embedding (config.json: vocab_size)", path, number, size)
		}
		if err := v.enterListed(line); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, number, err)
		}
	}
	return v, nil
}

// enterListed enters the token of one line.
func (v *vocabulary) enterListed(line []byte) error {
	var fields []json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil || len(fields) < 2 {
		return errors.New("it is no list of a token, its score and its kind")
	}
	var text, kind string
	var score float32
	err := errors.Join(json.Unmarshal(fields[0], &text), json.Unmarshal(fields[1], &score))
	if len(fields) > 2 {
		err = errors.Join(err, json.Unmarshal(fields[2], &kind))
	}
	if err != nil {
		return fmt.Errorf("%.80q is no token with its score and its kind", line)
	}
	is := tokenNormal
	switch {
	case kind == "UNKNOWN":
		is = tokenUnknown
	case kind == "BYTE":
		is = tokenByte
	case kind == "CONTROL", strings.HasPrefix(text, "<|plamo:") && strings.HasSuffix(text, "|>"):
		is = tokenControl
	}
	v.tokens, v.scores, v.types = append(v.tokens, text), append(v.scores, score), append(v.types, is)
	return nil
}
