package prepare

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// expertCounter counts which experts tokens of the calibration text use, and which neurons inside them are active. It
// holds only the counts in memory.
type expertCounter struct {
	x      *neuron.Experts
	texts  []int // [document] the text that it belongs to
	lags   []int
	paused bool

	// The step in progress.
	windows []window
	err     error
}

// newExpertCounter returns the counter of a model for documents of texts with the given names; texts maps documents to
// texts.
func newExpertCounter(c model.Config, names []string, texts []int) *expertCounter {
	experts, ff := make([]int, c.Layers), 0
	for l, b := range c.Blocks {
		if b.Experts {
			experts[l] = c.Experts.Count
		}
	}
	if c.Act.Sparse() {
		ff = c.Experts.FF
	}
	return &expertCounter{x: neuron.NewExperts(names, experts, ff), texts: texts, lags: neuron.Lags()}
}

// FeedForward is model.Observer.
func (c *expertCounter) FeedForward(int, model.FFNStep) {}

// Experts is model.ExpertObserver.
func (c *expertCounter) Experts(layer int, s model.ExpertStep) {
	if c.paused || c.err != nil {
		return
	}
	y := &c.x.Layers[layer]
	chosen := func(t int) []int32 { return s.Chosen[t*s.Used:][:s.Used] }
	first := 0
	for _, w := range c.windows {
		uses := y.Uses[c.texts[w.document]]
		for t := range w.tokens {
			own := chosen(first + t)
			for _, e := range own {
				if int(e) >= len(uses) {
					c.err = fmt.Errorf("layer %d: expert %d of %d was chosen", layer, e, len(uses))
					return
				}
				uses[e]++
			}
			for i, lag := range c.lags {
				if t >= lag {
					y.Again[i] += shared(own, chosen(first+t-lag))
				}
			}
		}
		first += len(w.tokens)
	}
	for e, counts := range y.Active {
		for i, n := range s.Active[e*len(counts):][:len(counts)] {
			counts[i] += n
		}
	}
}

// shared returns how many experts are among both a and b.
func shared(a, b []int32) (n uint64) {
	for _, e := range a {
		if slices.Contains(b, e) {
			n++
		}
	}
	return n
}

func (c *expertCounter) step(r *runner, _ role, ws []window) error {
	c.windows = ws
	if err := r.run(ws); err != nil {
		return err
	}
	for _, w := range ws {
		n := len(w.tokens)
		c.x.Texts[c.texts[w.document]].Tokens += uint64(n)
		for i, lag := range c.lags {
			c.x.Pairs[i] += uint64(max(0, n-lag))
		}
	}
	return c.err
}

func (c *expertCounter) pass(role, int)    {}
func (c *expertCounter) pause(paused bool) { c.paused = paused }
func (c *expertCounter) close()            {}

// fields returns everything that was counted, to be written down: tokens of the texts, pairs, and each layer's counts.
func (c *expertCounter) fields() (all []any) {
	for i := range c.x.Texts {
		all = append(all, &c.x.Texts[i].Tokens)
	}
	all = append(all, c.x.Pairs)
	for l := range c.x.Layers {
		y := &c.x.Layers[l]
		for _, uses := range y.Uses {
			all = append(all, uses)
		}
		all = append(all, y.Again)
		for _, counts := range y.Active {
			all = append(all, counts)
		}
	}
	return all
}

// The state: steps done and the fields; sealed.

func (c *expertCounter) save(w *work, steps int) error {
	b := appendFields(nil, uint64(steps))
	return w.write(fileProfile, sealed(appendFields(b, c.fields()...)))
}

func (c *expertCounter) load(w *work) (steps int, err error) {
	b, ok, err := w.read(fileProfile)
	if !ok || err != nil {
		return 0, err
	}
	var done uint64
	b, ok = unsealed(b)
	if ok {
		b, ok = readFields(b, append([]any{&done}, c.fields()...)...)
	}
	if !ok || len(b) > 0 {
		return 0, w.damaged(fileProfile)
	}
	return int(done), nil
}

// takingTurns returns encoded documents in an order in which the file with the fewest tokens so far comes next, so that
// compared texts have about the same length however many tokens are taken.
func takingTurns(docs []document) []document {
	of := map[int][]document{}
	for _, d := range docs {
		of[d.file] = append(of[d.file], d)
	}
	files := slices.Sorted(maps.Keys(of))
	had, out := map[int]int{}, make([]document, 0, len(docs))
	for len(out) < len(docs) {
		next := -1
		for _, f := range files {
			if len(of[f]) > 0 && (next < 0 || had[f] < had[next]) {
				next = f
			}
		}
		d := of[next][0]
		of[next], had[next], out = of[next][1:], had[next]+len(d.tokens), append(out, d)
	}
	return out
}

// partsOfOne is the number of texts that a single file's documents, or generated ones, are divided into.
const partsOfOne = 8

// divideTexts returns the names of the texts with separate counts, and the text of each document. Texts are files,
// joined with neighbours if there are many, or parts of documents if there is at most one file.
func divideTexts(docs []document, files []string) (names []string, texts []int) {
	texts = make([]int, len(docs))
	if len(files) < 2 {
		n, total, done := min(partsOfOne, len(docs)), max(1, countTokens(docs)), 0
		for i, d := range docs {
			texts[i] = done * n / total
			done += len(d.tokens)
		}
		for i := range n {
			names = append(names, fmt.Sprintf("part %d of %d", i+1, n))
		}
		return names, texts
	}
	n := min(neuron.MostTexts, len(files))
	for i, d := range docs {
		texts[i] = d.file * n / len(files)
	}
	for i, f := range files {
		name := strings.ToValidUTF8(filepath.Base(f), "?")
		if i*n/len(files) == len(names) {
			names = append(names, name)
		} else {
			names[len(names)-1] += ", " + name
		}
	}
	return names, texts
}
