package lineage

import "github.com/powerinfer-go/powerinfer/internal/compute"

// plm describes PLM: keys and values that follow from a latent vector, and no gate: squared ReLU leaves neurons at
// zero.
func plm() Family {
	f := llama()
	f.Name, f.HuggingFace = "plm", []string{"PLMForCausalLM"}
	f.PartialRotary, f.Latent, f.AlwaysTied, f.Gated, f.Activation = true, true, true, false, compute.ReLU2
	f.Block = without(latentBlock(Tensor{Name: "attn_q.weight", Source: "self_attn.q_proj.weight"}), "ffn_gate.weight")
	f.Read = readPLM
	return f
}

func readPLM(c *Config) error {
	if err := readLatent(c); err != nil {
		return err
	}
	if c.QueryLatent != 0 {
		return c.Errorf("q_lora_rank", "queries that follow from a latent vector are not supported in PLM")
	}
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
	c.nonlinearity("hidden_act", c.Act, "relu2")
	if c.TiedHead = or(c.Tied, true); !c.TiedHead {
		return c.Errorf("tie_word_embeddings", "a head of its own is not supported in PLM")
	}
	return nil
}
