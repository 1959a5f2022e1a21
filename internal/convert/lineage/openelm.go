package lineage

import "cmp"

// openELM describes OpenELM: the numbers of heads and neurons differ between layers. Queries, keys and values are one
// matrix.
func openELM() Family {
	f := llama()
	f.Name, f.HuggingFace = "openelm", []string{"OpenELMForCausalLM"}
	f.Rotation, f.AlwaysTied = HalvesApart, true
	f.Root = []string{"transformer."}
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "token_embeddings.weight"},
		{Name: "output_norm.weight", Source: "norm.weight"},
	}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "attn_norm.weight"},
		{Name: "attn_qkv.weight", Source: "attn.qkv_proj.weight"},
		{Name: "attn_q_norm.weight", Source: "attn.q_norm.weight"},
		{Name: "attn_k_norm.weight", Source: "attn.k_norm.weight"},
		{Name: "attn_output.weight", Source: "attn.out_proj.weight"},
		{Name: "ffn_norm.weight", Source: "ffn_norm.weight"},
		{Name: "ffn_gate.weight", Source: "ffn.proj_1.weight", Change: FirstHalf},
		{Name: "ffn_up.weight", Source: "ffn.proj_1.weight", Change: SecondHalf},
		{Name: "ffn_down.weight", Source: "ffn.proj_2.weight"},
	}
	f.Read = readOpenELM
	return f
}

// OpenELM are the keys of that family's configuration.
type OpenELM struct {
	ELMWidth     int       `json:"model_dim"`
	ELMLayers    int       `json:"num_transformer_layers"`
	ELMContext   int       `json:"max_context_length"`
	QueryHeads   []int     `json:"num_query_heads"`
	Multipliers  []float64 `json:"ffn_multipliers"` // neurons of each layer by the width
	WidthDivisor int       `json:"ffn_dim_divisor"` // divides the numbers of neurons
	ELMAct       string    `json:"activation_fn_name"`
	ELMTheta     float64   `json:"rope_freq_constant"`
	ELMNormed    *bool     `json:"normalize_qk_projections"`
	ELMTied      *bool     `json:"share_input_output_layers"`
	ELMGated     *bool     `json:"ffn_with_glu"`
}

func readOpenELM(c *Config) error {
	c.Hidden, c.Layers, c.Context, c.RopeTheta = c.ELMWidth, c.ELMLayers, c.ELMContext, c.ELMTheta
	for _, s := range []struct {
		key   string
		value *bool
	}{{"normalize_qk_projections", c.ELMNormed}, {"share_input_output_layers", c.ELMTied}, {"ffn_with_glu", c.ELMGated}} {
		if !or(s.value, true) {
			return c.Errorf(s.key, "false is not supported in OpenELM")
		}
	}
	for _, l := range []struct {
		key string
		n   int
	}{{"num_query_heads", len(c.QueryHeads)}, {"num_kv_heads", len(c.FalconKV)}, {"ffn_multipliers", len(c.Multipliers)}} {
		if l.n != c.Layers || l.n == 0 {
			return c.Errorf(l.key, "%d numbers for %d layers", l.n, c.Layers)
		}
	}
	divisor := cmp.Or(c.WidthDivisor, 256)
	if divisor < 1 || divisor > 1<<20 {
		return c.Errorf("ffn_dim_divisor", "%d is not supported", divisor)
	}
	c.LayerHeads, c.LayerKV, c.Widths, c.FF = c.QueryHeads, c.FalconKV, nil, 0
	for l, by := range c.Multipliers {
		wanted := by * float64(c.Hidden)
		if !(wanted >= 1 && wanted <= 1<<20) {
			return c.Errorf("ffn_multipliers", "%g in layer %d is not supported", by, l)
		}
		n := max(divisor, int(wanted+float64(divisor)/2)/divisor*divisor)
		if float64(n) < 0.9*wanted {
			n += divisor
		}
		c.Widths, c.FF = append(c.Widths, n), max(c.FF, n)
		if heads, kv := c.QueryHeads[l], c.FalconKV[l]; heads < 1 || heads > 1<<16 || kv < 1 || heads%kv != 0 {
			return c.Errorf("num_kv_heads", "%d heads of layer %d do not share %d KV heads evenly", heads, l, kv)
		}
	}
	c.Heads, c.KVHeads = c.QueryHeads[0], c.FalconKV[0]
	c.RMSEps, c.Act = 1e-6, cmp.Or(c.ELMAct, "swish")
	c.Tied = new(true)
	return readLlama(c)
}
