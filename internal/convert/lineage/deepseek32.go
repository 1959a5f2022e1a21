package lineage

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Indexing holds what config.json says of indexers, which choose the positions that attention sees.
type Indexing struct {
	IndexHeads   int      `json:"index_n_heads"`
	IndexHead    int      `json:"index_head_dim"` // elements
	IndexTop     int      `json:"index_topk"`
	IndexerTypes []string `json:"indexer_types"` // full or shared, of each layer

	BlockIndexing *BlockIndexing `json:"sparse_attention_config"`
	DenseFF       int            `json:"dense_intermediate_size"` // neurons of layers without experts
}

// BlockIndexing has the keys by which MiniMax M3 describes its indexers.
type BlockIndexing struct {
	Heads int `json:"sparse_num_index_heads"`
	Key   int `json:"sparse_index_dim"`
	Top   int `json:"sparse_topk_blocks"`
	Block int `json:"sparse_block_size"`  // positions
	Local int `json:"sparse_local_block"` // the last blocks, which are always seen
}

// deepseek32 describes DeepSeek V3.2: DeepSeek V3 with indexers.
func deepseek32() Family {
	f := deepseek2()
	f.Name, f.HuggingFace = "deepseek32", []string{"DeepseekV32ForCausalLM"}
	f.Experts = &Experts{Optional: true, Score: compute.Softmax, MinSum: leastSum, Counted: true}
	f.Block = append(required(without(f.Block, "attn_q.weight"), "attn_q_*"), indexerTensors(false)...)
	f.Read = readDeepSeek32
	return f
}

// glmDSA describes GLM 5: of 5.2 some layers have no indexer.
func glmDSA() Family {
	f := deepseek32()
	f.Name, f.HuggingFace = "glm-dsa", []string{"GlmMoeDsaForCausalLM"}
	f.Experts.Score = compute.Sigmoid
	f.Block = optional(f.Block, "indexer.*")
	f.Read = func(c *Config) error {
		if c.Scoring == "" {
			c.Scoring = "sigmoid"
		}
		if c.TopKMethod == "" {
			c.TopKMethod = "noaux_tc"
		}
		if n := len(c.IndexerTypes); n != 0 && n != c.Layers {
			return c.Errorf("indexer_types", "%d kinds of %d layers", n, c.Layers)
		}
		return readDeepSeek32(c)
	}
	return f
}

// indexerTensors returns the tensors of an indexer with queries from the latent vector of attention's queries.
func indexerTensors(optional bool) []Tensor {
	const in = "self_attn.indexer."
	return []Tensor{
		{Name: "indexer.attn_q_b.weight", Source: in + "wq_b.weight", Optional: optional},
		{Name: "indexer.attn_k.weight", Source: in + "wk.weight", Optional: optional},
		{Name: "indexer.k_norm.weight", Source: in + "k_norm.weight", Optional: optional},
		{Name: "indexer.k_norm.bias", Source: in + "k_norm.bias", Optional: optional},
		{Name: "indexer.proj.weight", Source: in + "weights_proj.weight", Optional: optional},
	}
}

func readDeepSeek32(c *Config) error {
	if err := c.readIndexing(); err != nil {
		return err
	}
	if c.QueryLatent == 0 {
		return c.Errorf("q_lora_rank", "it is missing")
	}
	return readDeepSeek2(c)
}

// readIndexing checks what config.json says of indexers.
func (c *Config) readIndexing() error {
	const most = 1 << 20
	switch {
	case c.IndexHeads < 1 || c.IndexHead < 1 || c.IndexHeads > most || c.IndexHead > most:
		return c.Errorf("index_n_heads", "indexers of %d heads of %d elements are not supported", c.IndexHeads, c.IndexHead)
	case c.IndexTop < 1 || c.IndexTop > most:
		return c.Errorf("index_topk", "%d is outside 1…%d", c.IndexTop, most)
	}
	return nil
}
