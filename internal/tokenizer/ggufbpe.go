package tokenizer

import (
	"fmt"
	"strings"
)

// splitMerges reads merges of a GGUF file: two symbols with a space between them.
func splitMerges(lines []string) ([][2]string, error) {
	out := make([][2]string, len(lines))
	for i, line := range lines {
		left, right, ok := strings.Cut(line, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return nil, fmt.Errorf("merge %d: %.40q is not two symbols with a space between them", i, line)
		}
		out[i] = [2]string{left, right}
	}
	return out, nil
}

// newFileBPE builds the model of a GGUF file like llama.cpp: of equal merges the first counts, and products of merges
// need not be tokens.
func newFileBPE(v *Vocab, ids map[string]int32, pre *preTokenization) (*bpe, error) {
	merges, err := splitMerges(v.Merges)
	if err != nil {
		return nil, err
	}
	if len(merges) > 1<<28 { // three new symbols a merge at most: ids stay within 32 bits
		return nil, fmt.Errorf("%d merges are too many", len(merges))
	}
	b := &bpe{raw: !pre.characters, size: len(v.Tokens), merges: newPairTable(len(merges)), whole: pre.wholeWords, unknown: v.UNK}
	beyond := map[string]int32{}
	symbol := func(text string) int32 {
		if id, ok := ids[text]; ok {
			return id
		}
		id, ok := beyond[text]
		if !ok {
			id = int32(b.size + len(beyond))
			beyond[text] = id
		}
		return id
	}
	for i := range b.bytes {
		b.bytes[i] = symbol(string(byteRune(byte(i))))
	}
	b.findByteIDs(ids)
	if pre.characters {
		b.fallback, b.unknown, b.pairs = true, -1, newPairs()
	}
	for rank, m := range merges {
		left, right, made := symbol(m[0]), symbol(m[1]), symbol(m[0]+m[1])
		if _, _, ok := b.merges.get(left, right); !ok {
			b.merges.set(left, right, int32(rank), made)
		}
		if b.pairs != nil {
			b.pairs.add(m[0] + m[1])
		}
	}
	b.alone = make([]uint32, b.size)
	if b.ids = ids; b.raw {
		b.ids = byteTexts(ids)
	}
	return b, nil
}
