package lineage

// graniteHybrid describes Granite 4's hybrids: most layers are recurrent (Mamba-2), the others have attention without
// rotation. Both are followed by experts with a shared one, or in the dense models by only the shared one.
func graniteHybrid() Family {
	f := graniteMoE()
	f.Name, f.HuggingFace = "granitehybrid", []string{"GraniteMoeHybridForCausalLM"}
	f.StateSpace, f.PerhapsRotated = true, true
	f.Experts = &Experts{Optional: true, Normalised: true, MinSum: leastSum}
	const shared = "shared_mlp."
	f.Block = append(with(f.Block,
		Tensor{Name: "ffn_gate.weight", Source: shared + "input_linear.weight", Change: FirstHalf},
		Tensor{Name: "ffn_up.weight", Source: shared + "input_linear.weight", Change: SecondHalf},
		Tensor{Name: "ffn_down.weight", Source: shared + "output_linear.weight"}), stateSpaceBlock("mamba.")...)
	read := f.Read
	f.Read = func(c *Config) error {
		if err := c.readGraniteHybrid(); err != nil {
			return err
		}
		return read(c)
	}
	return f
}

// Mamba are the keys of recurrent layers, in addition to those of attention.
type Mamba struct {
	Heads    int  `json:"mamba_n_heads"`
	HeadSize int  `json:"mamba_d_head"`
	Groups   int  `json:"mamba_n_groups"`
	State    int  `json:"mamba_d_state"`
	Taps     int  `json:"mamba_d_conv"`
	Bias     bool `json:"mamba_proj_bias"`
}

func (c *Config) readGraniteHybrid() error {
	m := &c.Mamba
	c.refuse(m.Bias, "mamba_proj_bias", "biases of recurrent layers' products are not supported")
	switch {
	case m.Groups != 1: // the definition's norm is over all groups together
		return c.Errorf("mamba_n_groups", "%d groups are not supported; one is", m.Groups)
	case c.PositionType == "rope":
		return c.Errorf("position_embedding_type", "rotated heads beside recurrent layers are not supported")
	case len(c.LayerTypes) != c.Layers:
		return c.Errorf("layer_types", "it names %d layers of %d", len(c.LayerTypes), c.Layers)
	}
	recurrent := false
	for l, kind := range c.LayerTypes {
		switch kind {
		case "mamba":
			c.LayerParts, recurrent = append(c.LayerParts, Recurrent|FeedForward), true
		case "attention":
			c.LayerParts = append(c.LayerParts, Attention|FeedForward)
		default:
			return c.Errorf("layer_types", "layer %d of the kind %q is not supported; mamba and attention are", l, kind)
		}
	}
	if !recurrent {
		return c.Errorf("layer_types", "models of this architecture without recurrent layers are not supported")
	}
	if c.LocalExperts == 0 {
		c.FF, c.Widths = c.SharedMLP, nil
	}
	c.Unrotated = true
	c.StateSpace = StateSpace{Inner: m.Heads * m.HeadSize, StateSize: m.State, StateHeads: m.Heads, Groups: m.Groups, Taps: m.Taps}
	return nil
}
