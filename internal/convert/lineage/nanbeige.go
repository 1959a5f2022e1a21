package lineage

import "cmp"

// nanbeige describes Nanbeige 4.2: Llama with layers that tokens go through several times.
func nanbeige() Family {
	f := llama()
	f.Name, f.HuggingFace = "nanbeige", []string{"NanbeigeForCausalLM"}
	f.Read = func(c *Config) error {
		c.Loops = cmp.Or(c.Loops, 1)
		return readLlama(c)
	}
	return f
}

// Looped are the keys of models with layers that tokens go through several times.
type Looped struct {
	Loops         int  `json:"num_loops"`
	SkipsLoopNorm bool `json:"skip_loop_final_norm"` // the residual is not normed between the times
}
