package sample

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// maxSamplers bounds the samplers in a request: every token passes all of them.
const maxSamplers = 64

// ReadSamplers reads samplers as llama-server's field samplers has it: a list of names, or a text of letters.
func ReadSamplers(raw json.RawMessage) ([]string, error) {
	var letters string
	var names []*string
	switch {
	case json.Unmarshal(raw, &letters) == nil && len(letters) <= maxSamplers:
		return ParseLetters(letters)
	case letters == "" && (json.Unmarshal(raw, &names) != nil || slices.Contains(names, nil)):
		return nil, errors.New("it is neither a list of names nor a text of letters")
	case max(len(letters), len(names)) > maxSamplers:
		return nil, fmt.Errorf("it has more than %d samplers", maxSamplers)
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = *name
	}
	return readNames(list)
}

// AddBiases adds to biases what llama-server's field logit_bias says: an object of tokens and biases, or a list of
// pairs of both. A token is a number, or a text that stands for all its tokens, which tokensOf returns. A bias of false
// bans.
func AddBiases(biases map[int32]float32, raw json.RawMessage, tokensOf func(text string) []int32) error {
	named := func(text string) []int32 {
		if id, err := strconv.ParseInt(text, 10, 32); err == nil {
			return []int32{int32(id)}
		}
		return tokensOf(text)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		for _, token := range slices.Sorted(maps.Keys(object)) { // sums of floats depend on their order
			if err := addBias(biases, named(token), object[token]); err != nil {
				return fmt.Errorf("token %.80q: %w", token, err)
			}
		}
		return nil
	}
	var pairs [][]json.RawMessage
	if json.Unmarshal(raw, &pairs) != nil {
		return errors.New("it is neither an object nor a list of pairs")
	}
	for _, p := range pairs {
		if len(p) != 2 {
			return errors.New("it has an element that is no pair of a token and a bias")
		}
		var token any
		var ids []int32
		switch _ = json.Unmarshal(p[0], &token); t := token.(type) { // the whole list was valid
		case string:
			ids = named(t)
		case float64:
			if t == math.Trunc(t) && t >= 0 && t <= math.MaxInt32 {
				ids = []int32{int32(t)}
			}
		}
		if _, text := token.(string); ids == nil && !text {
			return fmt.Errorf("%.80s is neither a text nor the number of a token", p[0])
		}
		if err := addBias(biases, ids, p[1]); err != nil {
			return fmt.Errorf("token %.80s: %w", p[0], err)
		}
	}
	return nil
}

// addBias adds a bias, a number or false, to tokens.
func addBias(biases map[int32]float32, ids []int32, raw json.RawMessage) error {
	var bias *float32
	if string(raw) == "false" {
		ban := float32(math.Inf(-1))
		bias = &ban
	} else if json.Unmarshal(raw, &bias) != nil || bias == nil {
		return fmt.Errorf("the bias %.80s is neither a number nor false", raw)
	}
	for _, id := range ids {
		biases[id] += *bias
	}
	return nil
}
