package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
)

// head plans the head. A head that is tied to the embedding, which was planned last, is that tensor.
func (p *plan) head(c *config) {
	head := p.found("", strings.Fields(cmp.Or(p.family.Head, "language_model.lm_head lm_head")), ".weight") + ".weight"
	if p.family.Headless || slices.ContainsFunc(p.family.Outer, func(t lineage.Tensor) bool { return t.Name == "output.weight" }) {
		return
	}
	embeds := c.embeds || strings.HasSuffix(c.Architectures[0], "Model") || c.Architectures[0] == qwenClassifier
	if embeds && p.source.Tensors[head] == nil { // such a folder may omit what it does not need
		return
	}
	if !c.TiedHead {
		t := p.add("output.weight", head, c.Vocab, c.Hidden)
		if c.UnitHead {
			t.change(unitRows{})
		}
		if c.UnitColumns {
			t.change(&unitColumns{})
		}
		p.multiply(c, t, 0, "output.weight")
		return
	}
	if c.SplitHead {
		p.multiply(c, p.add("output.weight", p.tensors[len(p.tensors)-1].stack[0].Name, c.Vocab, c.Hidden), 0, "output.weight")
	}
	if p.pairs == nil && p.source.Tensors[head] != nil {
		p.storedHead(c, head)
	}
}

// storedHead plans a head in the folder that the configuration calls tied to the embedding, which was planned last. If
// they differ, the head was trained separately, and tools that tie them would lose it.
func (p *plan) storedHead(c *config, head string) {
	p.used[head] = true
	if p.err != nil {
		return
	}
	stored, embedding := p.source.Tensors[head], p.source.Tensors[p.embedding]
	_, weights := stored.Type()
	_, both := embedding.Type()
	if !weights || !both || !slices.Equal(stored.Shape, embedding.Shape) {
		p.notes = append(p.notes, fmt.Sprintf("%s: %s is left out: the head is the embedding, as config.json says (tie_word_embeddings), and it has another form", p.source.Path, head))
		return
	}
	same, err := checkpoint.Same(stored, embedding)
	switch {
	case err != nil:
		p.err = err
	case !same:
		p.tensors = slices.DeleteFunc(p.tensors, func(t *tensor) bool { return t.name == "output.weight" })
		p.multiply(c, p.add("output.weight", head, c.Vocab, c.Hidden), 0, "output.weight")
		p.notes = append(p.notes, fmt.Sprintf("%s: %s differs from the embedding and is the head, although config.json says that the embedding is (tie_word_embeddings)", p.source.Path, head))
	}
}
