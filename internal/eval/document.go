package eval

import (
	"bytes"
	"crypto/sha256"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Measurements of a text are given for each document, such as a tale, an article or a chapter, because what holds on
// average need not hold for each: see MostKLD. A model reads windows of one length, as in base files.

// separators are lines that end a document; two or more empty lines and a form feed do so too.
var separators = []string{"<|doc|>", "<|endoftext|>", "<|end_of_text|>", "</s>"}

// largeShare is the share of all text above which a document is cut into parts that count as documents. Texts of one to
// three documents always are.
const largeShare = 0.25

// leastPart is the size of a part in bytes.
const leastPart = 4 << 10

// Documents returns the documents of a text, large ones in parts, each once, in the order of their SHA-256, which is
// independent of their place.
func Documents(text string) (docs []string) {
	split := SplitDocuments(text)
	total := 0
	for _, d := range split {
		total += len(d)
	}
	hashes := map[string][sha256.Size]byte{}
	for _, d := range split {
		for _, part := range CutDocument(d, total) {
			if _, seen := hashes[part]; !seen {
				hashes[part] = sha256.Sum256([]byte(part))
				docs = append(docs, part)
			}
		}
	}
	slices.SortFunc(docs, func(a, b string) int {
		x, y := hashes[a], hashes[b]
		return bytes.Compare(x[:], y[:])
	})
	return docs
}

// SplitDocuments cuts a text at its separators.
func SplitDocuments(text string) (docs []string) {
	var b strings.Builder
	end := func() {
		if t := strings.TrimSpace(b.String()); t != "" {
			docs = append(docs, t)
		}
		b.Reset()
	}
	empty := 0
	for line := range strings.Lines(text) {
		switch t := strings.TrimSpace(line); {
		case slices.Contains(separators, t) || strings.HasPrefix(line, "\f"):
			end()
			if !strings.HasPrefix(line, "\f") {
				continue
			}
		case t == "":
			if empty++; empty == 2 {
				end()
			}
		default:
			empty = 0
		}
		b.WriteString(line)
	}
	end()
	return docs
}

// CutDocument returns the parts of a document that is large compared with all text, of total bytes: cut at ends of
// lines, or else of words, into parts of 4 KiB and more. Any other is returned as it is.
func CutDocument(t string, total int) (parts []string) {
	if float64(len(t)) <= largeShare*float64(total) {
		return []string{t}
	}
	for len(t) >= 2*leastPart {
		at := leastPart
		if i := strings.IndexByte(t[at:], '\n'); i >= 0 && i < leastPart {
			at += i
		} else if i := strings.IndexByte(t[at:], ' '); i >= 0 && i < leastPart {
			at += i
		} else {
			break
		}
		parts, t = append(parts, strings.TrimSpace(t[:at])), strings.TrimSpace(t[at:])
	}
	return append(parts, t)
}

// LeastDocuments is the number of documents from which on their spread is known; with fewer, windows count as
// documents.
const LeastDocuments = 8

// Windows is a text in windows of one length.
type Windows struct {
	Tokens    []int32 // one window after the other
	Of        []int   // [windows] the number of the document that each belongs to
	Documents int
	Single    bool // there are so few documents that each window counts as one
}

// Lay joins documents' whole windows. The remainders of all documents follow, and each window of them counts as a
// document. If there are more than most windows, unless that is 0, each document has its first ones: one, or two, or as
// many as fit, because many documents predict a new one better than few.
func Lay(docs [][]int32, window, most int) Windows {
	var y Windows
	var rest []int32
	for i, n := range shares(docs, window, most) {
		d := docs[i]
		y.Tokens = append(y.Tokens, d[:n*window]...)
		for range n {
			y.Of = append(y.Of, y.Documents)
		}
		y.Documents += min(n, 1)
		rest = append(rest, d[len(d)/window*window:]...)
	}
	for len(rest) >= window && (most == 0 || len(y.Of) < most) {
		y.Tokens, rest = append(y.Tokens, rest[:window]...), rest[window:]
		y.Of, y.Documents = append(y.Of, y.Documents), y.Documents+1
	}
	if y.Single = y.Documents < LeastDocuments; y.Single {
		for i := range y.Of {
			y.Of[i] = i
		}
		y.Documents = len(y.Of)
	}
	return y
}

// LayText lays the documents of a text in windows.
func LayText(tok *tokenizer.Tokenizer, text string, window, most int) Windows {
	var docs [][]int32
	for _, d := range Documents(text) {
		docs = append(docs, tok.Encode(d, false, false))
	}
	return Lay(docs, window, most)
}

// shares returns how many windows of each document are laid.
func shares(docs [][]int32, window, most int) []int {
	n := make([]int, len(docs))
	for all, more := 0, true; more; { // a window more of each
		more = false
		for i, d := range docs {
			if (n[i]+1)*window <= len(d) && (most == 0 || all < most) {
				n[i]++
				all++
				more = true
			}
		}
	}
	return n
}

// Join returns documents' values from windows' values [windows].
func (y *Windows) Join(windows []Document) []Document {
	docs := make([]Document, y.Documents)
	for i, w := range windows {
		d := &docs[y.Of[i]]
		n := float64(w.Count) / float64(d.Count+w.Count)
		d.KLD += n * (w.KLD - d.KLD)
		d.SameTop += n * (w.SameTop - d.SameTop)
		d.Count += w.Count
	}
	return docs
}

// MeanError returns the standard error of the mean divergence. It comes from the spread of documents, because
// predictions in a document are correlated.
func MeanError(docs []Document) float64 {
	var count, sum, squares float64
	for _, d := range docs {
		count += float64(d.Count)
		sum += d.KLD * float64(d.Count)
	}
	n := float64(len(docs))
	if n < 2 || count == 0 {
		return 0
	}
	for _, d := range docs {
		v := (d.KLD - sum/count) * float64(d.Count)
		squares += v * v
	}
	return math.Sqrt(squares*n/(n-1)) / count
}
