package prepare

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

//go:embed seeds.txt
var seedText string

// seeds returns the first sentences of generated documents.
func seeds() []string { return strings.Split(strings.TrimSpace(seedText), "\n") }

// Generated text is drawn at temperature 1, so that it has the model's own distribution, without the tails that no text
// of the model's would have.
const (
	generatedTopP = 0.95
	maxBatches    = 256 // of maxSequences documents
)

// generator makes calibration text with the model itself.
type generator struct {
	load func() (*runner, error)
	r    *runner // once loaded
	tok  *tokenizer.Tokenizer
	seed uint64
}

// batch generates the n-th batch of documents, one of each of maxSequences seeds, up to limit tokens each.
func (g *generator) batch(ctx context.Context, n, limit int) ([][]int32, error) {
	texts := make([][]int32, maxSequences)
	samplers := make([]*sample.Sampler, maxSequences)
	all := seeds()
	for s := range texts {
		id := n*maxSequences + s
		texts[s] = g.tok.Encode(all[id%len(all)], true, false)
		if len(texts[s]) == 0 || len(texts[s]) > stepTokens/maxSequences {
			texts[s] = texts[s][:min(len(texts[s]), stepTokens/maxSequences)]
		}
		o := sample.DefaultOptions()
		o.Seed, o.Temperature, o.TopK, o.TopP, o.MinP = g.seed+uint64(id), 1, 0, generatedTopP, 0
		var err error
		if samplers[s], err = sample.New(o, g.r.Vocab); err != nil {
			return nil, err
		}
	}
	done := make([]int, maxSequences) // tokens evaluated; negative: the text has ended
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := g.r.begin()
		var live []int
		for s, t := range texts {
			if done[s] < 0 || len(t) >= min(limit, g.r.window) {
				continue
			}
			g.r.add(s, done[s], t[done[s]:])
			p.Out = append(p.Out, int32(len(p.Tokens)-1))
			live = append(live, s)
		}
		if len(live) == 0 {
			return texts, nil
		}
		if err := g.r.Forward(p); err != nil {
			return nil, err
		}
		for i, s := range live {
			done[s] = len(texts[s])
			row, err := g.r.Logits(i)
			if err != nil {
				return nil, err
			}
			next := samplers[s].Sample(row)
			if g.tok.IsEOG(next) {
				done[s] = -1
				continue
			}
			texts[s] = append(texts[s], next)
		}
	}
}

// generate makes documents with at least this many tokens in all, and saves them in the work folder after every batch.
func (g *generator) generate(ctx context.Context, w *work, tokens int, progress func(done, total int64)) ([]document, error) {
	texts, err := w.readTexts()
	if err != nil {
		return nil, err
	}
	count := func() int {
		n := 0
		for _, t := range texts {
			n += len(t)
		}
		return n
	}
	for n := len(texts) / maxSequences; count() < tokens; n++ {
		if n == maxBatches {
			return nil, fmt.Errorf("the model ended its texts after %d tokens on average; give calibration text with -f", count()/len(texts))
		}
		if g.r, err = g.load(); err != nil {
			return nil, err
		}
		batch, err := g.batch(ctx, n, windowTokens)
		if err != nil {
			return nil, err
		}
		texts = append(texts, batch...)
		if err := w.writeTexts(texts); err != nil {
			return nil, err
		}
		progress(int64(min(count(), tokens)), int64(tokens))
	}
	var docs []document
	for _, t := range texts {
		if g.tok.AddsBOS() {
			t = t[1:]
		}
		text := g.tok.Decode(t, true)
		docs = append(docs, document{text: text, hash: sha256.Sum256([]byte(text)), tokens: t})
	}
	docs, _ = take(docs, tokens)
	return docs, nil
}

// Generated texts are stored in one file: for each the number of its tokens and their ids, i32 little endian.

func (w *work) writeTexts(texts [][]int32) error {
	var b []byte
	for _, t := range texts {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t)))
		for _, id := range t {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	return w.write(fileTexts, b)
}

func (w *work) readTexts() ([][]int32, error) {
	b, ok, err := w.read(fileTexts)
	if !ok || err != nil {
		return nil, err
	}
	var texts [][]int32
	for len(b) > 0 {
		n := 0
		if len(b) >= 4 {
			n = int(binary.LittleEndian.Uint32(b))
			b = b[4:]
		}
		if n < 1 || n > len(b)/4 {
			return nil, w.damaged(fileTexts)
		}
		t := make([]int32, n)
		for i := range t {
			t[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
		}
		texts, b = append(texts, t), b[4*n:]
	}
	if len(texts)%maxSequences != 0 {
		return nil, w.damaged(fileTexts)
	}
	return texts, nil
}

var errNoSeed = errors.New("the tokenizer makes no token of the seed sentences; give calibration text with -f")
