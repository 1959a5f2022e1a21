package lineage

// mapleLimit is the limit of the gates and ups of experts. Configurations do not give it.
const mapleLimit = 7

// maple describes Maple: Qwen 3's models with experts, with clamped gates and ups, and sliding windows in most layers,
// the only ones that are rotated.
func maple() Family {
	f := qwen3MoE()
	f.Name, f.HuggingFace = "maple", []string{"MapleForCausalLM"}
	f.PartialRotary, f.Window, f.FullEvery, f.WindowList = true, true, 4, true
	f.Experts = &Experts{Normalised: true, MinSum: leastSum}
	f.ExpertLimit = mapleLimit
	f.Read = func(c *Config) error {
		switch {
		case c.sharedCount(0) > 0:
			return c.Errorf("num_shared_experts", "shared experts are not supported in this family")
		case c.GlobalTurned != nil && !*c.GlobalTurned:
			return c.Errorf("nope_on_global_attention", "layers without a window whose heads are rotated are not supported in this family")
		}
		c.mixture(c.ExpertWidth)
		return readLlama(c)
	}
	return f
}
