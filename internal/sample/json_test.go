package sample

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestReadSamplers(t *testing.T) {
	for text, want := range map[string][]string{
		`"kt"`: {"top_k", "temperature"}, `["top_k","temp"]`: {"top_k", "temperature"}, `""`: {}, `[]`: {},
	} {
		if chain, err := ReadSamplers(json.RawMessage(text)); err != nil || chain == nil || !slices.Equal(chain, want) {
			t.Errorf("%s: %v, %v, want %v", text, chain, err, want)
		}
	}
	for text, want := range map[string]string{
		`3`: "neither", `["top_k",null]`: "neither", `["top_k",3]`: "neither", `{"a":1}`: "neither", `"kq"`: "'q'", `["top_k","top_x"]`: `"top_x"`,
		`"` + strings.Repeat("k", 65) + `"`: "more than 64", `["k"` + strings.Repeat(`,"k"`, 64) + `]`: "more than 64",
	} {
		if chain, err := ReadSamplers(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, %v, want %q", text, chain, err, want)
		}
	}
}

func TestAddBiases(t *testing.T) {
	tokensOf := func(text string) (ids []int32) {
		for _, c := range text {
			ids = append(ids, 1000+c)
		}
		return ids
	}
	ban := float32(math.Inf(-1))
	for text, want := range map[string]map[int32]float32{
		`{"7":1.5,"ab":false}`:                 {5: 1, 7: 1.5, 1000 + 'a': ban, 1000 + 'b': ban},
		`[[7,1.5],["ab",false]]`:               {5: 1, 7: 1.5, 1000 + 'a': ban, 1000 + 'b': ban},
		`[[5,2],[5.0,0.5],[0.5e1,-1],["5",4]]`: {5: 6.5},
		`[["",1]]`:                             {5: 1}, `{}`: {5: 1}, `[]`: {5: 1},
	} {
		biases := map[int32]float32{5: 1}
		if err := AddBiases(biases, json.RawMessage(text), tokensOf); err != nil || !maps.Equal(biases, want) {
			t.Errorf("%s: %v, %v, want %v", text, biases, err, want)
		}
	}
	for text, want := range map[string]string{
		`3`: "neither an object nor", `[3]`: "neither an object nor", `[[1,2,3]]`: "no pair", `[[1.5,2]]`: "1.5", `[[-1,2]]`: "-1", `[[3000000000,2]]`: "3000000000",
		`[[true,2]]`: "true", `[[null,2]]`: "null", `{"1":null}`: "null", `{"1":"x"}`: `"x"`, `[[1,true]]`: "true", `[[1,1e39]]`: "1e39",
	} {
		if err := AddBiases(map[int32]float32{}, json.RawMessage(text), tokensOf); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
