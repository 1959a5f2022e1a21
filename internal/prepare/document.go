package prepare

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// document is one text: a tale, an article, a chapter. Text is held out by whole documents.
type document struct {
	text   string
	file   int               // number of the file that it was read from
	hash   [sha256.Size]byte // of text
	tokens []int32           // without BOS
}

// mostText bounds a file of documents, in bytes.
const mostText = 4 * wholefile.Text

// readDocuments reads the documents of some files. Each is kept once, however often it occurs, so that none is on both
// sides of a division. cut means that large ones were cut into parts.
func readDocuments(paths []string) (docs []document, cut bool, err error) {
	var all []document
	for i, p := range paths {
		data, err := wholefile.Read(p, mostText)
		if err != nil {
			return nil, false, err
		}
		for _, t := range eval.SplitDocuments(string(data)) {
			all = append(all, document{text: t, file: i})
		}
	}
	parts := cutLarge(all)
	seen := map[[sha256.Size]byte]bool{}
	for _, d := range parts {
		d.hash = sha256.Sum256([]byte(d.text))
		if !seen[d.hash] {
			seen[d.hash] = true
			docs = append(docs, d)
		}
	}
	return docs, len(parts) > len(all), nil
}

// cutLarge cuts large documents into parts.
func cutLarge(docs []document) []document {
	total := 0
	for _, d := range docs {
		total += len(d.text)
	}
	var parts []document
	for _, d := range docs {
		for _, t := range eval.CutDocument(d.text, total) {
			parts = append(parts, document{text: t, file: d.file})
		}
	}
	return parts
}

// byHash sorts documents by their hashes: an order that has nothing to do with their place in the text, and is the same
// every time.
func byHash(docs []document) {
	slices.SortFunc(docs, func(a, b document) int { return bytes.Compare(a.hash[:], b.hash[:]) })
}

// divide encodes docs and holds documents out until they have wanted tokens or a tenth of all, whichever is less but at
// least a number; then it takes up to most tokens of others for calibration. Both are spread over the whole text.
func divide(tok *tokenizer.Tokenizer, docs []document, least, wanted, most int) (calibration, heldOut []document) {
	byHash(docs)
	total := encode(tok, docs)
	heldOut, rest := holdOut(docs, max(min(wanted, total/10), least), max(total/10, least))
	calibration, rest = take(rest, most)
	if len(calibration) == 1 && len(rest) > 0 { // training holds a document out of these
		calibration[0].tokens = calibration[0].tokens[:most/2]
		more, _ := take(rest, most-most/2)
		calibration = append(calibration, more...)
	}
	return calibration, heldOut
}

// holdOut takes n tokens from the beginnings of documents, from as many of them as fit most tokens in total: a window
// of each, or as many as n needs. Many documents predict a new one better than few. rest are the untouched documents.
func holdOut(docs []document, n, most int) (taken, rest []document) {
	if n <= 0 {
		return nil, docs
	}
	whole, tokens := 0, 0
	for whole < len(docs) && (tokens < most || tokens < n) {
		tokens += len(docs[whole].tokens)
		whole++
	}
	lengths := make([]int, whole)
	for got, left := 0, true; got < n && left; { // a window more of each
		left = false
		for i, d := range docs[:whole] {
			more := min(windowTokens, len(d.tokens)-lengths[i], n-got)
			lengths[i] += more
			got += more
			left = left || more > 0
		}
	}
	last := 0
	for i, d := range docs[:whole] {
		if lengths[i] > 0 {
			d.tokens, last = d.tokens[:lengths[i]], i+1
			taken = append(taken, d)
		}
	}
	return taken, docs[last:]
}

// encode tokenises docs and returns their tokens in all.
func encode(tok *tokenizer.Tokenizer, docs []document) int {
	total := 0
	for i := range docs {
		docs[i].tokens = tok.Encode(docs[i].text, false, false)
		total += len(docs[i].tokens)
	}
	return total
}

// take returns the first documents with n tokens; the last one's tokens are cut, its text is not. It returns none for n
// = 0.
func take(docs []document, n int) (taken, rest []document) {
	for i, d := range docs {
		if n <= 0 {
			return taken, docs[i:]
		}
		d.tokens = d.tokens[:min(n, len(d.tokens))]
		n -= len(d.tokens)
		taken = append(taken, d)
	}
	return taken, nil
}

func countTokens(docs []document) int {
	n := 0
	for _, d := range docs {
		n += len(d.tokens)
	}
	return n
}

// hashOf returns the SHA-256 of the documents' text in the order of their use, in hexadecimal digits.
func hashOf(docs []document) string {
	h := sha256.New()
	for _, d := range docs {
		h.Write([]byte(d.text))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// withoutShared drops the documents of docs that others has too.
func withoutShared(docs, others []document) []document {
	has := map[[sha256.Size]byte]bool{}
	for _, d := range others {
		has[d.hash] = true
	}
	return slices.DeleteFunc(slices.Clone(docs), func(d document) bool { return has[d.hash] })
}

// window is a run of a document's tokens that is evaluated as its own sequence.
type window struct {
	document int32
	tokens   []int32
}

// windows cuts documents into windows of at most size tokens; each begins with bos unless that is negative.
func windows(docs []document, size int, bos int32) []window {
	var out []window
	for i, d := range docs {
		body := size
		if bos >= 0 {
			body--
		}
		for part := range slices.Chunk(d.tokens, body) {
			var w []int32
			if bos >= 0 {
				w = append(w, bos)
			}
			out = append(out, window{int32(i), append(w, part...)})
		}
	}
	return out
}

// packs groups windows into steps of at most stepTokens tokens and maxSequences windows, in their order.
func packs(ws []window) [][]window {
	var out [][]window
	begin, tokens := 0, 0
	for i, w := range ws {
		if i > begin && (tokens+len(w.tokens) > stepTokens || i-begin == maxSequences) {
			out = append(out, ws[begin:i])
			begin, tokens = i, 0
		}
		tokens += len(w.tokens)
	}
	if begin < len(ws) {
		out = append(out, ws[begin:])
	}
	return out
}

// tokensOf returns the tokens of windows, BOS included.
func tokensOf(ws []window) int {
	n := 0
	for _, w := range ws {
		n += len(w.tokens)
	}
	return n
}
