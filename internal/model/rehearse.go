package model

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// CachePages returns the number of pages of a KV cache for the given number of positions. One page is spare, for
// copying a shared page.
func CachePages(positions int) int {
	return (positions+compute.PagePositions-1)/compute.PagePositions + 1
}

// Encoder reports whether the model evaluates a text in one step and returns only states.
func (c *Config) Encoder() bool { return c.Later && c.Headless }

// storage returns for each layer the layer with the part of the cache that holds its keys and values. An encoder needs
// them only while the layer runs, so layers of one shape use the same part if they are in one place. places may be nil:
// then they are.
func (c *Config) storage(places []compute.Place) []int {
	out := make([]int, c.Layers)
	for l, b := range c.Blocks {
		out[l] = b.KV
		for before := 0; before < l && c.Encoder(); before++ {
			if c.Blocks[before].kv() == b.kv() && (places == nil || places[before].Tier == places[l].Tier && places[before].Attention == places[l].Attention) {
				out[l] = out[before]
				break
			}
		}
	}
	return out
}

// Rehearse makes the model's device allocate what steps of every size need, so that a lack of memory shows now or
// never. Each step is the largest of its kind: of a prompt's rows, and of rows with the arithmetic of single tokens, as
// short prompts have. It has a sequence with all of the cache's pages, and the largest number of rows of logits.
func (m *Model) Rehearse() error {
	kind := m.usual()
	return m.dev.Rehearse(func() error {
		most := m.pool.Tokens()    // rows of the largest segment, including padding
		if kind == nn.LastStates { // steps that embed texts are of the other kind
			if err := m.rehearse(nn.WithMTP, most, 0, most); err != nil {
				return err
			}
		}
		if err := m.rehearse(kind, most, 0, most); err != nil {
			return err
		}
		if m.output.Head.Bound() {
			if _, err := m.Logits(0); err != nil { // so that devices know what is read after steps
				return err
			}
		}
		for _, n := range m.dev.Steps(most) {
			if err := m.rehearse(kind, n, n, n); err != nil {
				return err
			}
			if m.draft == nil || n > m.most.Out { // draft tokens are made from rows with wanted logits
				continue
			}
			for depth := range max(1, m.shape.Most) {
				if err := m.rehearseAt(depth, nn.OnlyMTP, n, n, n); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// usual returns the kind of most steps.
func (m *Model) usual() nn.Kind {
	switch {
	case m.draft == nil:
		return nn.Logits
	case m.shape.Last:
		return nn.LastStates
	}
	return nn.WithMTP
}

// rehearse prepares a step of n rows. decode of them are single tokens and, if a step may have that many, out have
// logits.
func (m *Model) rehearse(kind nn.Kind, n, decode, out int) error {
	return m.rehearseAt(0, kind, n, decode, out)
}

// rehearseAt is rehearse for a draft that has depth tokens.
func (m *Model) rehearseAt(depth int, kind nn.Kind, n, decode, out int) error {
	pages := [][]int32{make([]int32, m.cache.Pages)}
	p := compute.Params{
		Tokens: make([]int32, n), Pos: make([]int32, n), Seq: make([]int32, n), Out: make([]int32, min(out, m.most.Out)), Pages: pages, Near: pages, States: []int32{0},
		Decode: decode, Draft: kind == nn.OnlyMTP, Depth: depth, Scales: slices.Repeat([]float32{1}, len(m.Scales)), // as any request may have
	}
	return m.runAs(p.Segment(m.begin(kind, &p)), &p)
}

// UsualSteps returns functions that each make the model's device prepare one of the usual steps: prompts of various
// lengths with one row of logits, and single tokens of several sequences. The shortest come first.
func (m *Model) UsualSteps() (all []func() error) {
	add := func(n, decode, sequences int) {
		all = append(all, func() error {
			return m.dev.Rehearse(func() error {
				pages := make([][]int32, sequences)
				pages[0] = make([]int32, m.cache.Pages) // together they have no more
				return m.run(m.usual(), &compute.Params{
					Tokens: make([]int32, n), Pos: make([]int32, n), Seq: make([]int32, n), Out: make([]int32, sequences), Pages: pages, Near: pages, States: make([]int32, sequences), Decode: decode,
				})
			})
		})
	}
	for power := 1; power <= m.most.Rows; power *= 2 {
		for _, n := range [...]int{power, power + power/2} { // as devices round them
			if n > m.most.Rows {
				continue
			}
			if n <= m.most.Out {
				add(n, n, n)
			}
			if n <= compute.ShortPrompt { // a prompt that goes by the arithmetic of single tokens
				add(n, n, 1)
			}
			add(n, 0, 1)
		}
	}
	return all
}
