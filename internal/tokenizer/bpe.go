package tokenizer

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// bpe merges the bytes or characters of a word to tokens (Sennrich et al., Neural Machine Translation of Rare Words
// with Subword Units, 2016). Its symbols are numbered like the tokens; products of merges that are no tokens, which
// only GGUF files have, have higher numbers.
type bpe struct {
	raw    bool             // words are bytes and ids has tokens by the bytes they stand for; else by their text
	bytes  [256]int32       // raw: byte -> symbol
	ids    map[string]int32 // for finding a word as a whole
	merges *pairTable       // left, right -> line in the list, product
	size   int              // tokens

	whole    bool       // a word that is a token is that token, whatever the merges say
	fallback bool       // a character outside the vocabulary becomes its bytes' tokens
	byteIDs  [256]int32 // of fallback; -1: none
	unknown  int32      // for text without a token; -1: left out
	fuse     bool       // consecutive unknown characters become one token
	prefix   string     // before the characters of a word but the first, when they are looked up
	suffix   string     // after the last
	pairs    *pairs     // characters side by side in what merges make; nil: words are not cut

	alone []uint32 // token -> aloneYes if merging its own text gives it; atomic
}

const aloneYes = 1

// symbol numbers of a word's parts while they are merged, parallel slices by position.
type bpeMerger struct {
	ids, starts []int32
	ranks, made []int32 // of the pair with the next symbol: line in the list (noMerge: none), product
	next, prev  []int32
	queue       rankQueue
	lists       rankLists
}

const noMerge = math.MaxInt32

// rankQueue holds mergeable pairs as rank<<32 | position: the lowest rank first, then the left one.
type rankQueue []uint64

func (q *rankQueue) push(key uint64) {
	*q = append(*q, key)
	a, i := *q, len(*q)-1
	for i > 0 {
		up := (i - 1) / 4
		if key >= a[up] {
			break
		}
		a[i], i = a[up], up
	}
	a[i] = key
}

func (q *rankQueue) pop() uint64 {
	a := *q
	first, n := a[0], len(a)-1
	a[0] = a[n]
	if *q = a[:n]; n > 0 {
		q.sink(0)
	}
	return first
}

// sink moves the key at i down to its place.
func (q rankQueue) sink(i int) {
	key := q[i]
	for {
		down := 4*i + 1
		if down >= len(q) {
			break
		}
		least := down
		for k := down + 1; k < min(down+4, len(q)); k++ {
			if q[k] < q[least] {
				least = k
			}
		}
		if q[least] >= key {
			break
		}
		q[i], i = q[least], least
	}
	q[i] = key
}

// shortWord is the number of symbols up to which scanning all pairs is faster than a queue.
const shortWord = 32

func (b *bpe) pair(m *bpeMerger, left, right int32) {
	rank, made, ok := b.merges.get(m.ids[left], m.ids[right])
	if !ok {
		rank = noMerge
	}
	m.ranks[left], m.made[left] = rank, made
}

// merge joins the symbols in m.ids until no pair is in the list.
func (b *bpe) merge(m *bpeMerger) {
	n := len(m.ids)
	m.ranks, m.made = grow(m.ranks, n), grow(m.made, n)
	for i := range n - 1 {
		b.pair(m, int32(i), int32(i+1))
	}
	if n <= shortWord {
		b.mergeShort(m)
		return
	}
	b.mergeLong(m)
}

func (b *bpe) mergeShort(m *bpeMerger) {
	for n := len(m.ids); n > 1; n-- {
		at, best := -1, int32(noMerge)
		for i, rank := range m.ranks[:n-1] {
			if rank < best {
				at, best = i, rank
			}
		}
		if at < 0 {
			break
		}
		m.ids[at] = m.made[at]
		copy(m.ids[at+1:n-1], m.ids[at+2:n])
		copy(m.starts[at+1:n-1], m.starts[at+2:n])
		copy(m.ranks[at:n-2], m.ranks[at+1:n-1])
		copy(m.made[at:n-2], m.made[at+1:n-1])
		m.ids, m.starts = m.ids[:n-1], m.starts[:n-1]
		if at > 0 {
			b.pair(m, int32(at-1), int32(at))
		}
		if at < n-2 {
			b.pair(m, int32(at), int32(at+1))
		}
	}
}

// mergeLong keeps the mergeable pairs in a queue, or in lists for a very long word.
func (b *bpe) mergeLong(m *bpeMerger) {
	n := len(m.ids)
	m.next, m.prev = grow(m.next, n), grow(m.prev, n)
	for i := range n {
		m.next[i], m.prev[i] = int32(i+1), int32(i-1)
	}
	m.ranks[n-1] = noMerge
	m.queue = m.queue[:0]
	if n > longestQueued {
		b.mergeListed(m)
	} else {
		for i, rank := range m.ranks[:n] {
			if rank != noMerge {
				m.queue = append(m.queue, uint64(rank)<<32|uint64(i))
			}
		}
		for i := (len(m.queue) - 2) / 4; i >= 0 && len(m.queue) > 1; i-- {
			m.queue.sink(i)
		}
		b.mergeQueued(m)
	}
	kept := 0
	for i := 0; i < n; i = int(m.next[i]) {
		m.ids[kept], m.starts[kept] = m.ids[i], m.starts[i]
		kept++
	}
	m.ids, m.starts = m.ids[:kept], m.starts[:kept]
}

// mergeQueued merges until the queue is empty.
func (b *bpe) mergeQueued(m *bpeMerger) {
	for len(m.queue) > 0 {
		key := m.queue.pop()
		at := int32(uint32(key))
		if m.ranks[at] != int32(key>>32) { // merged or changed since
			continue
		}
		for _, changed := range b.join(m, at) {
			if changed >= 0 && m.ranks[changed] != noMerge {
				m.queue.push(uint64(m.ranks[changed])<<32 | uint64(changed))
			}
		}
	}
}

// join merges the pair at a place of a long word. It returns the places of the changed pairs on both sides; -1: there
// is none.
func (b *bpe) join(m *bpeMerger, at int32) (changed [2]int32) {
	gone := m.next[at]
	m.ids[at], m.ids[gone] = m.made[at], -1
	after := m.next[gone]
	m.next[at] = after
	m.ranks[gone], m.ranks[at] = noMerge, noMerge
	changed = [2]int32{-1, -1}
	if int(after) < len(m.ids) {
		m.prev[after] = at
		b.pair(m, at, after)
		changed[0] = at
	}
	if before := m.prev[at]; before >= 0 {
		b.pair(m, before, at)
		changed[1] = before
	}
	return changed
}

func grow(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n, n+n/2)
	}
	return s[:n]
}

// encode appends the tokens of a word.
func (b *bpe) encode(e *encoder, word string) {
	if b.pairs == nil || len(word) <= shortest {
		e.remember(word, b)
		return
	}
	if id, ok := b.ids[word]; ok && b.whole {
		e.out = append(e.out, id)
		return
	}
	b.cut(word, func(part string) {
		if b.whole { // the part is not the word
			e.word(part, bpeParts{b})
		} else {
			e.remember(part, b)
		}
	})
}

// encodeNew implements slowEncoder.
func (b *bpe) encodeNew(e *encoder, word string) {
	id, ok := b.ids[word]
	switch {
	case !ok:
		b.mergeWord(e, word)
	case b.whole || atomic.LoadUint32(&b.alone[id]) == aloneYes:
		e.out = append(e.out, id)
	default:
		start := len(e.out)
		b.mergeWord(e, word)
		if len(e.out) == start+1 && e.out[start] == id {
			atomic.StoreUint32(&b.alone[id], aloneYes)
		}
	}
}

// bpeParts encodes parts of words that are not looked up whole.
type bpeParts struct{ *bpe }

func (p bpeParts) encodeNew(e *encoder, word string) { p.mergeWord(e, word) }

// cut cuts a word between two characters that no product of merges has side by side: no merge reaches across.
func (b *bpe) cut(word string, emit func(part string)) {
	for start := 0; start < len(word); {
		prev, n := character(word[start:])
		end := start + n
		for end < len(word) {
			next, n := character(word[end:])
			if !b.pairs.has(prev, next) && !b.fused(word[end-size32(prev):end], word[end:end+n]) {
				break
			}
			prev, end = next, end+n
		}
		emit(word[start:end])
		start = end
	}
}

// size32 returns how many bytes a character packed by character has.
func size32(packed uint32) int {
	switch {
	case packed < 1<<8:
		return 1
	case packed < 1<<16:
		return 2
	case packed < 1<<24:
		return 3
	}
	return 4
}

// fused reports whether two characters without a token would become one unknown token.
func (b *bpe) fused(left, right string) bool {
	if !b.fuse || b.fallback {
		return false
	}
	_, l := b.ids[left]
	_, r := b.ids[right]
	return !l && !r
}

func (b *bpe) mergeWord(e *encoder, word string) {
	m := &e.bpe
	m.ids, m.starts = m.ids[:0], m.starts[:0]
	if len(word) > longWord && cap(m.ids) < len(word) {
		m.ids, m.starts = make([]int32, 0, len(word)), make([]int32, 0, len(word))
		m.lists.places = make([]rankPlace, 0, 2*len(word))
	}
	if b.raw {
		for i := range len(word) {
			m.ids, m.starts = append(m.ids, b.bytes[word[i]]), append(m.starts, int32(i))
		}
	} else {
		b.characters(m, word)
	}
	if len(m.ids) == 0 {
		return
	}
	b.merge(m)
	for i, id := range m.ids {
		if int(id) < b.size {
			e.out = append(e.out, id)
			continue
		}
		end := len(word)
		if i+1 < len(m.starts) {
			end = int(m.starts[i+1])
		}
		b.spell(e, word[m.starts[i]:end])
	}
}

// spell appends the bytes of a product that is not a token.
func (b *bpe) spell(e *encoder, text string) {
	for i := range len(text) {
		id := b.byteIDs[text[i]]
		if b.raw {
			id = b.bytes[text[i]]
		}
		if id >= 0 && int(id) < b.size {
			e.out = append(e.out, id)
		} else if b.unknown >= 0 {
			e.out = append(e.out, b.unknown)
		}
	}
}

// characters enters the symbols that a word's characters begin as.
func (b *bpe) characters(m *bpeMerger, word string) {
	pending := -1 // begin of an unknown token that is not appended yet
	flush := func() {
		if pending >= 0 {
			m.ids, m.starts = append(m.ids, b.unknown), append(m.starts, int32(pending))
			pending = -1
		}
	}
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		char := word[i : i+n]
		if i > 0 && b.prefix != "" {
			char = b.prefix + char
		}
		if i+n == len(word) && b.suffix != "" {
			char += b.suffix
		}
		if id, ok := b.ids[char]; ok {
			flush()
			m.ids, m.starts = append(m.ids, id), append(m.starts, int32(i))
		} else if b.fallback && b.spellable(char) {
			for j := range len(char) {
				m.ids, m.starts = append(m.ids, b.byteIDs[char[j]]), append(m.starts, int32(i))
			}
		} else if b.unknown >= 0 {
			if !b.fuse {
				flush()
			}
			if pending < 0 {
				pending = i
			}
		}
		i += n
	}
	flush()
}

func (b *bpe) spellable(text string) bool {
	for i := range len(text) {
		if b.byteIDs[text[i]] < 0 {
			return false
		}
	}
	return true
}

// findByteIDs enters the tokens <0x00> to <0xFF>.
func (b *bpe) findByteIDs(ids map[string]int32) {
	for i := range b.byteIDs {
		id, ok := ids[fmt.Sprintf("<0x%02X>", i)]
		if !ok {
			id = -1
		}
		b.byteIDs[i] = id
	}
}

// byteTexts returns the tokens with texts in GPT-2's characters, by the bytes that they stand for.
func byteTexts(ids map[string]int32) map[string]int32 {
	out := make(map[string]int32, len(ids))
	for text, id := range ids {
		if bytes, ok := allBytes(text); ok {
			out[bytes] = id
		}
	}
	return out
}

// allBytes returns the bytes that a text in GPT-2's characters stands for, and whether all of it is in them.
func allBytes(text string) (string, bool) {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		b, ok := runeByte(r)
		if !ok {
			return "", false
		}
		out = append(out, b)
	}
	return string(out), true
}

// spreadBytes writes bytes in GPT-2's characters.
func spreadBytes(bytes string) string {
	var out strings.Builder
	for i := range len(bytes) {
		out.WriteRune(byteRune(bytes[i]))
	}
	return out.String()
}
