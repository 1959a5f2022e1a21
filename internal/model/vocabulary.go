package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Tokenizer builds the tokenizer that f's metadata describes.
func Tokenizer(f *gguf.File) (*tokenizer.Tokenizer, error) {
	m := &nn.Keys{File: f}
	tokens, _, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		m.Err = err
	}
	var strange []string
	idsOf := func(key string) []int32 {
		key = "tokenizer.ggml." + key
		ids, other, err := f.IDs(key, len(tokens))
		if m.Err = cmp.Or(m.Err, err); other && !slices.Contains(strange, key) {
			strange = append(strange, key)
		}
		return ids
	}
	id := func(key string, def int32) int32 {
		if ids := idsOf(key); len(ids) > 0 {
			return ids[0]
		}
		return def
	}
	flag := func(key string, def bool) bool {
		v, ok, err := f.Bool("tokenizer.ggml." + key)
		if err != nil && m.Err == nil {
			m.Err = err
		}
		if !ok {
			return def
		}
		return v
	}
	pre := "default"
	if f.Magic == "PWRI" {
		pre = "gpt-2" // all that the original PowerInfer knows
	}
	v := tokenizer.Vocab{Model: m.Text("tokenizer.ggml.model", ""), Pre: m.Text("tokenizer.ggml.pre", pre)}
	if m.Err == nil && v.Model == "" {
		m.Fail("key %q is missing: the file has no tokenizer", "tokenizer.ggml.model")
	}
	spm := v.Model == "llama"
	customary := map[string][3]int32{"llama": {0, 1, 2}, "t5": {2, -1, 1}, "bert": {100, 101, 102}, "plamo2": {0, 1, 2}}
	none := [3]int32{-1, -1, -1}
	def, ok := customary[v.Model] // files of these models may lack them
	if !ok {
		def = none
	}
	v.UNK, v.BOS, v.EOS = id("unknown_token_id", def[0]), id("bos_token_id", def[1]), id("eos_token_id", id("eos_token_ids", def[2]))
	for _, kind := range []string{"eos", "eot", "eom"} {
		for _, key := range []string{kind + "_token_id", kind + "_token_ids"} {
			v.Ends = append(v.Ends, idsOf(key)...)
		}
	}
	v.EOT, v.PAD, v.SEP = id("eot_token_id", -1), id("padding_token_id", -1), id("seperator_token_id", -1)
	if v.Model == "bert" && v.SEP >= 0 {
		v.EOS = v.SEP // it ends every text
	}
	v.Infill = tokenizer.Infill{
		Prefix: id("fim_pre_token_id", id("prefix_token_id", -1)), Suffix: id("fim_suf_token_id", id("suffix_token_id", -1)),
		Middle: id("fim_mid_token_id", id("middle_token_id", -1)), Repository: id("fim_rep_token_id", -1), File: id("fim_sep_token_id", -1),
		Pad: id("fim_pad_token_id", -1),
	}
	bert := v.Model == "bert"
	v.AddBOS = flag("add_bos_token", spm || bert || v.Model == "gemma4" || v.Model == "gpt2" && tokenizer.PreTokenizerAddsBOS(v.Pre))
	if v.Model == "gemma4" || v.Model == "gpt2" && v.Pre == "gemma4" { // published files say that it is not; as llama.cpp
		v.AddBOS = true
	}
	v.AddEOS = flag("add_eos_token", bert || v.Model == "t5")
	v.AddSEP = flag("add_sep_token", bert || v.Model == "gpt2" && slices.Contains([]string{"jina-v1-en", "jina-v2-code", "roberta-bpe"}, v.Pre)) // as llama.cpp
	v.AddSpacePrefix = flag("add_space_prefix", spm)
	v.Lowercase = flag("normalizer.lowercase", true)
	v.StripAccents = flag("normalizer.strip_accents", v.Lowercase)
	v.RemoveExtraWhitespaces = flag("remove_extra_whitespaces", false)
	v.Tokens = tokens
	list := func(read func() error) {
		if e := read(); e != nil && m.Err == nil {
			m.Err = e
		}
	}
	list(func() error { v.Scores, _, err = f.Float32s("tokenizer.ggml.scores"); return err })
	list(func() error { v.Types, _, err = f.Int32s("tokenizer.ggml.token_type"); return err })
	list(func() error { v.Merges, _, err = f.Strings("tokenizer.ggml.merges"); return err })
	list(func() error { v.Charsmap, err = byteList(f, "tokenizer.ggml.precompiled_charsmap"); return err })
	if text := m.Text(tokenizer.DefinitionKey, ""); text != "" {
		list(func() error { v.Definition, err = tokenizer.ParseDefinition(text); return err })
	}
	if n := len(v.Tokens); n > 0 { // as in llama.cpp, later numbers are ignored
		v.Scores, v.Types = v.Scores[:min(n, len(v.Scores))], v.Types[:min(n, len(v.Types))]
	}
	if slices.Contains(v.Types, 0) { // GGUF's undefined type
		v.Types = slices.Clone(v.Types)
		for i, kind := range v.Types {
			if kind == 0 {
				v.Types[i] = tokenizer.Normal
			}
		}
	}
	if m.Err == nil && v.Model == "gpt2" && len(v.Merges) == 0 && v.Definition == nil {
		m.Fail("key %q is missing: without it every byte would be a token of its own; convert the model again", "tokenizer.ggml.merges")
	}
	if m.Err != nil {
		return nil, m.Err
	}
	v.Strange = strange
	v.StripAsNamed(m.Text("general.name", ""), m.Text("general.architecture", ""))
	t, err := tokenizer.New(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return t, nil
}

// byteList reads an array of bytes, signed or not.
func byteList(f *gguf.File, key string) ([]byte, error) {
	list, _, err := f.Int32s(key)
	if len(list) == 0 || err != nil {
		return nil, err
	}
	out := make([]byte, len(list))
	for i, x := range list {
		out[i] = byte(x)
	}
	return out, nil
}
