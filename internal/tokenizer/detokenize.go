package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Detokenize returns the text of ids as a whole, without control tokens or, with special, with their texts. Unlike
// Decode it removes what Encode puts before a text, and writes U+FFFD for invalid UTF-8, as Hugging Face's library does
// with a Definition and llama.cpp without one.
func (t *Tokenizer) Detokenize(ids []int32, special bool) string {
	if t.pipe == nil {
		text := t.Decode(ids, special)
		if (t.spm != nil || t.v.Model == "t5") && t.v.AddSpacePrefix {
			text = strings.TrimPrefix(text, " ")
		}
		return text
	}
	var tokens []string
	for _, id := range ids {
		if id < 0 || int(id) >= len(t.v.Tokens) || !special && t.pieces[id] == "" && t.v.kind(id) != Normal {
			continue
		}
		tokens = append(tokens, t.pipe.text(id, &t.v))
	}
	if len(t.pipe.decode) == 0 {
		return strings.Join(tokens, " ")
	}
	for _, decode := range t.pipe.decode {
		tokens = decode(tokens)
	}
	return strings.Join(tokens, "")
}

// text returns a token as tokenizer.json writes it.
func (p *pipeline) text(id int32, v *Vocab) string {
	if text, ok := p.added[id]; ok {
		return text
	}
	text := v.Tokens[id]
	if p.further == "" || v.kind(id) != Normal {
		return text
	}
	if begin, ok := strings.CutPrefix(text, space); ok {
		return begin
	}
	return p.further + text
}

// decoders builds the steps that make text of tokens.
func decoders(c *Component) ([]func([]string) []string, error) {
	parts := c.Parts()
	if err := checkParts("decoder", parts); err != nil {
		return nil, err
	}
	var out []func([]string) []string
	grow := make([]growth, len(parts))
	for i := range parts {
		f, err := decoder(&parts[i], &grow[i])
		if err != nil {
			return nil, fmt.Errorf("decoder %s: %w", parts[i].Type, err)
		}
		out = append(out, f)
	}
	return out, checkGrowth("decoder", parts, grow)
}

// decoder returns a step, and sets how it lengthens texts.
func decoder(c *Component, grow *growth) (func([]string) []string, error) {
	switch c.Type {
	case "ByteLevel":
		return joinBytes, nil
	case "ByteFallback":
		return byteFallback, nil
	case "Fuse":
		return func(tokens []string) []string { return []string{strings.Join(tokens, "")} }, nil
	case "Replace":
		r, err := replacer(c)
		if r.apply == nil {
			return func(tokens []string) []string { return tokens }, err
		}
		*grow = r.growth
		return eachToken(func(_, _ int, s string) string { return r.apply(s, mostBytes(len(s))) }), err
	case "Strip":
		return eachToken(func(_, _ int, s string) string {
			for i := 0; i < c.Start && c.Content != "" && strings.HasPrefix(s, c.Content); i++ {
				s = s[len(c.Content):]
			}
			for i := 0; i < c.Stop && c.Content != "" && strings.HasSuffix(s, c.Content); i++ {
				s = s[:len(s)-len(c.Content)]
			}
			return s
		}), nil
	case "Metaspace":
		mark, err := onlyCharacter(c)
		if err != nil {
			return nil, err
		}
		prefixed := c.PrependScheme != "never" && or(c.AddPrefixSpace, true)
		return eachToken(func(i, _ int, s string) string {
			if i == 0 && prefixed {
				return strings.ReplaceAll(s, mark, "")
			}
			return strings.ReplaceAll(s, mark, " ")
		}), nil
	case "WordPiece":
		prefix, clean := c.Prefix, or(c.Cleanup, true)
		return eachToken(func(i, _ int, s string) string {
			if rest, ok := strings.CutPrefix(s, prefix); i > 0 && ok {
				s = rest
			} else if i > 0 {
				s = " " + s
			}
			if clean {
				s = cleanUp(s)
			}
			return s
		}), nil
	case "BPEDecoder":
		suffix := c.Suffix
		if suffix == "" {
			grow.times = 2 // a space before each character
		}
		return eachToken(func(i, n int, s string) string {
			if i == n-1 {
				return strings.ReplaceAll(s, suffix, "")
			}
			return strings.ReplaceAll(s, suffix, " ")
		}), nil
	}
	return nil, fmt.Errorf("this decoder is not supported")
}

// eachToken changes tokens one by one; f gets a token's index and their number.
func eachToken(f func(i, n int, s string) string) func([]string) []string {
	return func(tokens []string) []string {
		for i, s := range tokens {
			tokens[i] = f(i, len(tokens), s)
		}
		return tokens
	}
}

// joinBytes reads tokens in GPT-2's characters for bytes; a token with another character stands for its own text.
func joinBytes(tokens []string) []string {
	var b strings.Builder
	for _, s := range tokens {
		if bytes, ok := allBytes(s); ok {
			s = bytes
		}
		b.WriteString(s)
	}
	return []string{replaceInvalid(b.String(), false)}
}

// byteFallback reads runs of tokens like <0x41>; each byte of a run that is not UTF-8 becomes U+FFFD.
func byteFallback(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		switch {
		case utf8.Valid(run):
			out = append(out, string(run))
		default:
			out = append(out, strings.Repeat("\uFFFD", len(run)))
		}
		run = run[:0]
	}
	for _, s := range tokens {
		if b, ok := byteOf(s); ok {
			run = append(run, b)
			continue
		}
		if len(run) > 0 {
			flush()
		}
		out = append(out, s)
	}
	if len(run) > 0 {
		flush()
	}
	return out
}

// cleanUp removes spaces that English does not have, one rule after the other.
func cleanUp(s string) string {
	for _, r := range [][2]string{
		{" .", "."},
		{" ?", "?"},
		{" !", "!"},
		{" ,", ","},
		{" ' ", "'"},
		{" n't", "n't"},
		{" 'm", "'m"},
		{" do not", " don't"},
		{" 's", "'s"},
		{" 've", "'ve"},
		{" 're", "'re"},
	} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	return s
}
