package synth

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Write makes the model that s describes and writes it to path, which appears only when it is complete. The same Spec
// gives the same bytes, whatever the number of threads. Memory holds a few rows at a time. progress may be nil; it is
// told bytes of weights.
func Write(ctx context.Context, path string, s Spec, progress func(done, total int64)) error {
	s, err := s.complete()
	if err != nil {
		return fmt.Errorf("synthetic model: %w", err)
	}
	m := newModel(s)
	if err := m.list(); err != nil {
		return fmt.Errorf("synthetic model: %w", err)
	}
	return gguf.Create(ctx, path, s.Magic, m.keys(), m.tensors(), progress)
}

// keys returns the file's metadata.
func (m *model) keys() []gguf.KV {
	a := func(s string) string { return m.Arch + "." + s }
	fileType, _ := m.Type.FileType()
	keys := []gguf.KV{
		{Key: "general.architecture", Value: m.Arch},
		{Key: "general.type", Value: "model"},
		// for names with "phi3" llama.cpp requires tokens that no synthetic vocabulary has
		{Key: "general.name", Value: fmt.Sprintf("synthetic %s %d x (%d, %d)", strings.Replace(m.Arch, "phi3", "phi 3", 1), m.Layers, m.Embd, m.FF)},
		{Key: "general.description", Value: fmt.Sprintf("random weights: seed %d, sparsity %g, power law %g", m.Seed, m.Sparsity, m.PowerLaw)},
		{Key: "general.file_type", Value: fileType},
		{Key: "general.quantization_version", Value: uint32(2)},
		{Key: a("context_length"), Value: uint32(m.Context)},
		{Key: a("embedding_length"), Value: uint32(m.Embd)},
		{Key: a("block_count"), Value: uint32(m.Layers)},
		{Key: a("feed_forward_length"), Value: m.perLayer(lineage.FeedForward, m.ff())},
		{Key: a("attention.head_count"), Value: m.heads()},
		{Key: a("attention.head_count_kv"), Value: m.perLayer(lineage.Attention, m.cachedHeads())},
	}
	implied := m.fam.Activation.String()
	if m.Magic == "PWRI" {
		implied, _ = prepared.OriginalActivation(m.Arch)
	}
	if m.Activation != implied {
		keys = append(keys, gguf.KV{Key: "powerinfer.activation", Value: m.Activation})
	}
	keys = append(keys, gguf.KV{Key: a(m.fam.EpsilonKey()), Value: float32(1e-5)})
	if m.fam.Rotation != lineage.NotRotated {
		keys = append(keys,
			gguf.KV{Key: a("rope.freq_base"), Value: float32(10000)},
			gguf.KV{Key: a("rope.dimension_count"), Value: uint32(m.RopeDims)})
	}
	if m.fam.Later {
		keys = append(keys, gguf.KV{Key: a("attention.causal"), Value: false})
	}
	switch {
	case m.Labels > 0:
		keys = append(keys, gguf.KV{Key: a("pooling_type"), Value: nn.PoolRank.Number()})
	case m.fam.Later:
		keys = append(keys, gguf.KV{Key: a("pooling_type"), Value: nn.PoolMean.Number()})
	}
	if m.Labels > 1 {
		labels := make([]string, m.Labels)
		for i := range labels {
			labels[i] = fmt.Sprintf("LABEL_%d", i)
		}
		keys = append(keys, gguf.KV{Key: a("classifier.output_labels"), Value: labels})
	}
	if _, ok := m.fam.Outside("token_types.weight"); ok {
		keys = append(keys, gguf.KV{Key: "tokenizer.ggml.token_type_count", Value: uint32(tokenTypes)})
	}
	if m.fam.Clamped && m.fam.Rotation == lineage.NotRotated {
		keys = append(keys, gguf.KV{Key: a("attention.max_alibi_bias"), Value: float32(8)})
	}
	if m.fam.Clamped && m.fam.LayerNorm { // llama.cpp does not clamp in OLMoE
		keys = append(keys, gguf.KV{Key: a("attention.clamp_kqv"), Value: float32(4)})
	}
	if m.fam.Activation == compute.XIELU { // these keys have no architecture before their names
		for _, name := range []string{"alpha_n", "alpha_p", "beta"} {
			keys = append(keys, gguf.KV{Key: "xielu." + name, Value: float32(0.5)})
		}
		keys = append(keys, gguf.KV{Key: "xielu.eps", Value: float32(-1e-6)})
	}
	keys = append(keys, m.latentKeys(a)...)
	keys = append(keys, m.indexerKeys(a)...)
	keys = append(keys, m.stateKeys(a)...)
	if k := m.fam.ParallelKey; k != "" {
		keys = append(keys, gguf.KV{Key: a(k), Value: m.fam.Parallel})
	}
	if !m.fam.OnlyRecurrent() && (m.HeadDim*m.Heads != m.Embd || m.has("attn_q_norm.weight") || m.fam.Latent || m.fam.Compresses()) && !m.fam.KeysByHead() {
		keys = append(keys,
			gguf.KV{Key: a("attention.key_length"), Value: uint32(m.HeadDim)},
			gguf.KV{Key: a("attention.value_length"), Value: uint32(m.HeadDim)})
	}
	if m.fam.Multipliers {
		keys = append(keys,
			gguf.KV{Key: a("embedding_scale"), Value: float32(m.scales.embedding)},
			gguf.KV{Key: a("residual_scale"), Value: float32(m.scales.residual)},
			gguf.KV{Key: a("logit_scale"), Value: float32(1 / m.scales.logits)})
	}
	if m.fam.ProductScale {
		keys = append(keys,
			gguf.KV{Key: a("embedding_scale"), Value: float32(m.scales.embedding)},
			gguf.KV{Key: a("attention.output_scale"), Value: float32(1 / math.Sqrt(float64(m.HeadDim)))})
	}
	if m.fam.ScaledLogits {
		keys = append(keys, gguf.KV{Key: a("logit_scale"), Value: float32(m.scales.logits)})
	}
	keys = append(keys, m.streamKeys(a)...)
	keys = append(keys, m.gatedKeys(a)...)
	keys = append(keys, m.connectionKeys(a)...)
	keys = append(keys, m.expertKeys(a)...)
	if window := a("attention.sliding_window"); m.fam.UsualWindow > 0 && !slices.ContainsFunc(m.Keys, func(k gguf.KV) bool { return k.Key == window }) {
		keys = append(keys, gguf.KV{Key: window, Value: uint32(m.fam.UsualWindow)})
	}
	if m.fam.Sections { // a text's positions are the same in all
		pairs := m.RopeDims / 2
		keys = append(keys, gguf.KV{Key: a("rope.dimension_sections"), Value: []int32{int32(pairs+2) / 3, int32(pairs+1) / 3, int32(pairs) / 3, 0}})
	}
	if m.Magic == "PWRI" {
		keys = append(keys, gguf.KV{Key: "powerinfer.sparse_threshold", Value: float32(0)})
	}
	keys = append(keys, m.Keys...)
	return append(keys, vocabulary(m.Vocab)...)
}

// heads returns the number of heads that files state.
func (m *model) heads() uint32 {
	if m.fam.OnlyRecurrent() {
		return 0
	}
	return uint32(m.Heads)
}

// cachedHeads returns the number of KV heads that files state: for latent attention by head the cache's one.
func (m *model) cachedHeads() int {
	if m.fam.KeysByHead() {
		return 1
	}
	return m.KVHeads
}

// indexerKeys returns the keys of indexers.
func (m *model) indexerKeys(a func(string) string) (keys []gguf.KV) {
	add := func(key string, v int) {
		keys = append(keys, gguf.KV{Key: a("attention.indexer." + key), Value: uint32(v)})
	}
	top := indexTop
	switch {
	case m.byBlock():
		add("block_size", indexBlock)
		add("local_blocks", 1)
		top = indexBlocks
	case !m.has("indexer.attn_k.weight"):
		return nil
	}
	add("head_count", m.indexHeads())
	add("key_length", m.indexKey())
	add("top_k", top)
	return keys
}

// latentKeys returns the keys of latent attention.
func (m *model) latentKeys(a func(string) string) (keys []gguf.KV) {
	if !m.fam.Latent {
		return nil
	}
	add := func(key string, v int) { keys = append(keys, gguf.KV{Key: a(key), Value: uint32(v)}) }
	add("attention.kv_lora_rank", m.Latent)
	if m.queryLatent() {
		add("attention.q_lora_rank", m.QueryLatent)
	}
	if m.fam.KeysByHead() {
		add("attention.key_length", m.Latent+m.RopeDims)
		add("attention.value_length", m.Latent)
		add("attention.key_length_mla", m.HeadDim)
		add("attention.value_length_mla", m.HeadDim)
		if m.Experts > 0 {
			return keys
		}
		add("leading_dense_block_count", m.Layers) // llama.cpp requires it even of a model without experts
		add("expert_feed_forward_length", m.FF)
		add("expert_shared_count", 0)
	}
	return keys
}

// ff returns the width of a layer as files state it. In some families with experts it is the width of all of a token's
// experts together.
func (m *model) ff() int {
	if m.Experts > 0 && m.fam.Experts.Divided {
		return m.FF * m.Used
	}
	return m.FF
}

// batchElements is about how many elements a goroutine makes at a time.
const batchElements = 1 << 17

// source returns a tensor. All processors make its rows, which are written in order.
func source(name string, t quant.Type, rows, cols, k int, f fill) gguf.Source {
	return gguf.Source{Name: name, Type: t, Shape: []int{cols, rows}, Write: func(w io.Writer) error {
		each := max(1, batchElements/cols)
		workers := min(runtime.GOMAXPROCS(0), (rows+each-1)/each)
		batches := make([]batch, workers)
		for i := range batches {
			batches[i] = batch{row: make([]float32, cols), scratch: make([]float32, k), bytes: make([]byte, 0, each*t.RowBytes(cols))}
		}
		for at := 0; at < rows; {
			var group sync.WaitGroup
			for i := range batches {
				from, to := min(rows, at+i*each), min(rows, at+(i+1)*each)
				group.Go(func() { batches[i].encode(t, from, to, f) })
			}
			group.Wait()
			for i := range batches {
				if _, err := w.Write(batches[i].bytes); err != nil {
					return err
				}
			}
			at += workers * each
		}
		return nil
	}}
}

// batch is one goroutine's rows.
type batch struct {
	row, scratch []float32
	bytes        []byte
}

func (b *batch) encode(t quant.Type, from, to int, f fill) {
	size := t.RowBytes(len(b.row))
	b.bytes = b.bytes[:(to-from)*size]
	for i := from; i < to; i++ {
		f(i, b.row, b.scratch)
		quant.Imitate(t, b.bytes[(i-from)*size:][:size], b.row)
	}
}
