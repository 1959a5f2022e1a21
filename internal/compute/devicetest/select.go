package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// selectCase is a choice of blocks: among what, by how many index queries of a group, and with or without weights.
type selectCase struct {
	name    string
	how     compute.Selection
	queries int // index queries of a group
	key     int
	typ     compute.KVType // of the index keys
	weights bool
	rows    bool // the cache has only the last positions of blocks
}

func selectScripts() (all []script) {
	var lone []token
	for _, p := range []int32{0, 4, 63, 300, longest - 1} {
		lone = append(lone, token{0, p})
	}
	for _, c := range []selectCase{
		{"single positions", compute.Selection{Groups: 1, Block: 1, Top: 5, Rectified: true}, 3, 32, compute.KVF16, true, false},
		{"many positions", compute.Selection{Groups: 1, Block: 1, Top: 290, Rectified: true}, 17, 64, compute.KVF32, true, false},
		{"odd keys", compute.Selection{Groups: 3, Block: 1, Top: 33}, 7, 20, compute.KVBF16, true, false},
		{"blocks", compute.Selection{Groups: 2, Block: 16, Top: 4, Local: 2}, 1, 32, compute.KVF16, false, false},
		{"large blocks", compute.Selection{Groups: 2, Block: 128, Top: 3, Local: 1}, 1, 64, compute.KVF32, false, false},
		{"blocks of three", compute.Selection{Groups: 1, Block: 3, Top: 9}, 2, 64, compute.KVF32, true, false},
		{"ends of blocks, and the open one", compute.Selection{Groups: 1, Block: 4, Top: 6, Ends: true, Open: true, Rectified: true}, 3, 32, compute.KVF16, true, false},
		{"ends of blocks", compute.Selection{Groups: 1, Block: 16, Top: 2, Ends: true}, 3, 32, compute.KVF16, true, false},
		{"rows of blocks", compute.Selection{Groups: 1, Block: 4, Top: 20, Ends: true, Rectified: true}, 3, 64, compute.KVF16, true, true},
		{"rows of long blocks", compute.Selection{Groups: 1, Block: 128, Top: 2, Ends: true}, 2, 40, compute.KVF32, true, true},
	} {
		for what, places := range map[string][]token{lonely: lone, "prompts": append(span(0, 240, 25), span(1, 60, 9)...)} {
			all = append(all, script{name: fmt.Sprintf("Select/%s/%s", c.name, what), tokens: len(places), each: what == lonely, play: func(s *stage) { playSelect(s, &c, places) }})
		}
	}
	return all
}

// small returns whole numbers from -3 to 3: sums of their products are exact in every order, and some of them are
// equal.
func (s *stage) small(n int) []float32 {
	x := s.normal(n)
	for i, v := range x {
		x[i] = float32(math.Round(min(max(float64(v), -3), 3)))
	}
	return x
}

// playSelect chooses blocks, and attends to them by several shapes of attention.
func playSelect(s *stage, c *selectCase, places []token) {
	keys := compute.KVShape{Heads: 1, Key: c.key, Value: c.key, KeyType: c.typ, ValueType: c.typ, Within: true}
	if c.rows {
		keys.Every = c.how.Block
	}
	index, err := s.dev.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: 1, Key: 16, Value: 16}, keys}, Pages: attentionPages})
	s.must(err)
	const layer = 1
	s.store(index, layer, conversations(), token{0, 0}, s.small(longest*c.key), nil)
	s.store(index, layer, conversations(), token{1, compute.PagePositions}, s.small((shorter-compute.PagePositions)*c.key), nil)
	for _, p := range places {
		s.params.Seq, s.params.Pos = append(s.params.Seq, p.seq), append(s.params.Pos, p.pos)
	}
	s.params.Pages = conversations()
	queries := c.how.Groups * c.queries
	q := s.input(queries*c.key, s.small(s.all*queries*c.key))
	w := compute.Tensor{}
	if weights := s.small(s.all * queries); c.weights {
		w = s.input(queries, weights)
	}
	blocks := s.output(c.how.Groups * c.how.Row())
	s.run(func(v compute.Verbs) {
		v.Select(compute.Select{Blocks: blocks, Q: q, W: w, Cache: index, Layer: layer, How: c.how})
	})
	s.keep("blocks", blocks, exact)
	if c.how.Ends && !c.how.Open { // a first token sees nothing
		return
	}
	attendTo(s, heads{dim: 64, kv: 2 * c.how.Groups, group: 2}, c.how.Seen(blocks))
	if c.queries == 3 { // other shapes, once
		attendTo(s, heads{dim: 64, kv: c.how.Groups, group: 5, value: 96, types: cacheTypes{compute.KVQ8_0, compute.KVQ4_0}}, c.how.Seen(blocks))
		attendTo(s, heads{dim: 96, kv: c.how.Groups, group: 20, value: 64, within: true}, c.how.Seen(blocks))
	}
}

// attendTo attends to what seen has of the conversation.
func attendTo(s *stage, h heads, seen compute.Seen) {
	c := s.conversation(h)
	n := h.kv * h.group
	q, out := s.input(n*h.dim, s.normal(s.all*n*h.dim)), s.output(n*h.shape().Value)
	sinks := s.vector(s.normal(n))
	for _, how := range []compute.Attention{
		{Scale: float32(1 / math.Sqrt(float64(h.dim))), Seen: seen},
		{Scale: 0.1, SoftCap: 2, Sinks: sinks, Seen: seen},
	} {
		s.run(func(v compute.Verbs) { v.Attend(out, q, c.cache, conversationLayer, how) })
		s.keep(fmt.Sprintf("attention of %s", h), out, s.attended(h.types))
	}
}
