package devicetest

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// latentScripts attend over latent vectors, in several types of weights and caches.
func latentScripts() (all []script) {
	for _, c := range []struct {
		typ   quant.Type
		cache compute.KVType
		heads int
	}{{quant.F32, compute.KVF32, 3}, {quant.F16, compute.KVF16, 5}, {quant.Q8_0, compute.KVBF16, 2}, {quant.F32, compute.KVQ8_0, 1}} {
		for what, places := range map[string][]token{
			"alone": {{0, 0}, {0, 63}, {0, 130}}, "a prompt": span(0, 0, 33), "a prompt that goes on": span(1, 60, 9), "two sequences": append(span(0, 60, 9), span(1, 3, 9)...),
		} {
			name := fmt.Sprintf("AttendLatent/%s, cache %s, %d heads/%s", c.typ, c.cache, c.heads, what)
			all = append(all, script{name: name, tokens: len(places), play: func(s *stage) { playLatent(s, c.typ, cacheTypes{c.cache, c.cache}, c.heads, places) }})
		}
	}
	return all
}

// latentTolerance bounds the error of an output, as a share of the largest in its row: made keys and values may be
// halves, of 11 bits, and latent vectors may be rounded to eight bits for products.
const latentTolerance = 0.02

// playLatent attends to positions in the cache.
func playLatent(s *stage, typ quant.Type, types cacheTypes, n int, places []token) {
	const latent, own, shared, value = 64, 24, 32, 40
	c := s.conversation(heads{latent + shared, 1, n, latent, types, true})
	for _, p := range places {
		s.params.Seq, s.params.Pos = append(s.params.Seq, p.seq), append(s.params.Pos, p.pos)
	}
	s.params.Pages = conversations()
	keys, values := s.matrix(typ, n*own, latent, s.normal(n*own*latent), compute.Precise), s.matrix(typ, n*value, latent, s.normal(n*value*latent), compute.Precise)
	q, out := s.input(n*(own+shared), s.normal(s.all*n*(own+shared))), s.output(n*value)
	how := compute.Attention{Scale: float32(1 / math.Sqrt(latent*(own+shared)))}
	s.run(func(v compute.Verbs) {
		v.AttendLatent(compute.AttendLatent{Out: out, Q: q, Heads: n, Keys: keys.Matrix, Values: values.Matrix, Cache: c.cache, Layer: conversationLayer, How: how})
	})
	s.keep("attended", out, ofRow(latentTolerance))
}
