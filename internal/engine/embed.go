package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Pooling says how the hidden states of a text's tokens become one embedding.
type Pooling = nn.Pooling

// The ways of pooling.
const (
	PoolNone = nn.PoolNone
	PoolMean = nn.PoolMean
	PoolCLS  = nn.PoolCLS
	PoolLast = nn.PoolLast
	PoolRank = nn.PoolRank
)

// ParsePooling returns the pooling of a name.
func ParsePooling(name string) (Pooling, error) { return nn.ParsePooling(name) }

// PoolingOf returns the pooling that a model's file names, or else the mean.
func PoolingOf(f *gguf.File) (Pooling, error) {
	family, _, err := f.String("general.architecture")
	if err != nil {
		return "", err
	}
	key := family + ".pooling_type"
	v, ok, err := f.Uint(key)
	switch ways := nn.Poolings(); {
	case err != nil:
		return "", err
	case !ok:
		return PoolMean, nil
	case v < uint64(len(ways)):
		return ways[v], nil
	}
	return "", setting.Errorf("%s: key %q: pooling %d is not supported; %s names another", f.Path, key, v, setting.Pooling)
}

// EmbeddingSize returns the length of an embedding.
func (e *Engine) EmbeddingSize() int { return e.head.Width(e.config.Embd) }

// CheckPooling returns an error if p needs a classification head and the model has none.
func (e *Engine) CheckPooling(p Pooling) error {
	if p == PoolRank && !e.head.Ranks() {
		return setting.Errorf("%s: the model has no classification head, so it is no reranker: choose another %s, or a reranker's file", e.path, setting.Pooling)
	}
	return nil
}

// Labels returns the names of PoolRank's numbers, if the model's file has them.
func (e *Engine) Labels() []string { return e.head.Labels }

// Embed returns the embedding of tokens: a vector of EmbeddingSize numbers, not normalised. With PoolNone it returns
// one vector for each token, and with PoolRank the classification head's numbers. It pools the last layer's outputs
// after the norm. When ctx ends, the request leaves and frees its memory.
func (e *Engine) Embed(ctx context.Context, tokens []int32, p Pooling) ([][]float32, error) {
	all, err := e.EmbedAll(ctx, [][]int32{tokens}, p)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// EmbedAll returns Embed's result for each of texts. A step evaluates as many of them together as it has room for.
func (e *Engine) EmbedAll(ctx context.Context, texts [][]int32, p Pooling) ([][][]float32, error) {
	if err := e.CheckPooling(p); err != nil {
		return nil, err
	}
	tasks := make([]*task, len(texts))
	for i, tokens := range texts {
		var err error
		if tasks[i], err = e.pooling(tokens, p); err != nil {
			return nil, err
		}
	}
	if err := e.sched.joinAll(tasks); err != nil {
		return nil, err
	}
	defer func() {
		for _, t := range tasks {
			e.sched.leave(t, nil)
		}
	}()
	all := make([][][]float32, len(texts))
	for i, t := range tasks {
		if err := e.sched.finished(ctx, t); err != nil {
			return nil, err
		}
		all[i] = t.pooled.result()
		for j, s := range all[i] {
			if p == PoolRank {
				all[i][j] = e.head.Rank(s)
			} else {
				all[i][j] = e.head.Project(s)
			}
			if slices.ContainsFunc(all[i][j], func(v float32) bool { return v-v != 0 }) {
				return nil, e.ErrNotFinite()
			}
		}
	}
	return all, nil
}

// pooling returns a task that gathers a text's states.
func (e *Engine) pooling(tokens []int32, p Pooling) (*task, error) {
	if len(tokens) == 0 {
		return nil, errors.New("the text to embed is empty: give at least one token")
	}
	if len(tokens) > e.context {
		return nil, &ContextError{len(tokens), e.context}
	}
	if err := e.checkTokens(tokens); err != nil {
		return nil, err
	}
	t := newTask()
	if p == PoolRank {
		p = e.head.Pooling
		t.types = e.types(tokens)
	}
	t.reuse, t.pooled = ReuseNone, &pooled{way: p}
	if e.config.Later { // a token sees later ones, so one step must have all of them
		if len(tokens) > e.ubatch {
			return nil, setting.Errorf("a text of %d tokens is longer than a step of %d, in which this model must see all of it: give %s", len(tokens), e.ubatch, setting.Step.To(len(tokens)))
		}
		t.whole = true
	}
	for _, id := range tokens {
		t.labels = append(t.labels, kvcache.LabelOf(id, len(tokens) < e.sched.short))
	}
	return t, nil
}

// types returns the types of the tokens of a pair, if the model distinguishes them; nil: all have the first type.
func (e *Engine) types(tokens []int32) []int32 {
	types := e.tok.PairTypes(tokens)
	if slices.ContainsFunc(types, func(typ int32) bool { return int(typ) >= e.config.Types }) {
		return nil
	}
	return types
}

// finished waits until all of a task's states are gathered.
func (s *scheduler) finished(ctx context.Context, t *task) error {
	for read := 0; read < len(t.labels); {
		select {
		case <-t.turn:
		case <-ctx.Done():
			return ctx.Err()
		}
		var err error
		if _, read, err = s.take(t); err != nil {
			return err
		}
	}
	return nil
}

// rerankTemplate is the metadata key of a reranker's prompt, in which {query} and {document} stand for the texts.
const rerankTemplate = "tokenizer.chat_template.rerank"

// EncodePair returns the tokens that ask a reranker how well a document answers a query. It uses the prompt in the
// model's file, or else both texts with the special tokens of pairs.
func (e *Engine) EncodePair(query, document string) []int32 {
	if e.rerank == "" {
		return e.tok.EncodePair(query, document)
	}
	return e.tok.Encode(strings.NewReplacer("{query}", query, "{document}", document).Replace(e.rerank), false, true)
}

// pooled gathers hidden states. The scheduler owns it until the task's tokens are evaluated, and the client afterwards.
type pooled struct {
	way    Pooling
	states [][]float32 // [1 or n][n_embd]
	n      int         // states added
}

// wants reports whether the state of position i of n is pooled.
func (p *pooled) wants(i, n int) bool {
	switch p.way {
	case PoolCLS:
		return i == 0
	case PoolLast:
		return i == n-1
	}
	return true
}

// add adds a copy of the next position's state.
func (p *pooled) add(state []float32) {
	p.n++
	if p.way == PoolNone || p.states == nil {
		p.states = append(p.states, append([]float32(nil), state...))
		return
	}
	sum := p.states[0]
	for i, v := range state {
		sum[i] += v
	}
}

// result returns the embedding.
func (p *pooled) result() [][]float32 {
	if p.way == PoolMean {
		for i := range p.states[0] {
			p.states[0][i] /= float32(p.n)
		}
	}
	return p.states
}

// MaxNorm bounds Normalise's p: to within rounding, larger norms equal the largest magnitude.
const MaxNorm = 32

// Normalise scales an embedding as llama.cpp's --embd-normalize does: p = −1 leaves it as it is, 0 makes its largest
// magnitude 32,760, and p > 0 makes its p-norm 1 (2: Euclid's norm).
func Normalise(v []float32, p int) {
	var sum float64
	for _, x := range v {
		switch a := math.Abs(float64(x)); p {
		case -1:
		case 0:
			sum = max(sum, a/32760)
		case 1:
			sum += a
		default:
			sum += math.Pow(a, float64(p))
		}
	}
	if p > 1 {
		sum = math.Pow(sum, 1/float64(p))
	}
	if p < 0 || sum == 0 {
		return
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / sum)
	}
}
