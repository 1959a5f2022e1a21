package model

// ActivationBytes is about what a step of n tokens takes: the residual and its neighbours, q, k, v, attention's output,
// gates and ups.
func (c Config) ActivationBytes(n int) int64 {
	latent := 0
	if c.Family.Latent {
		b := c.Blocks[0]
		latent = c.QueryLatent + b.Heads*(b.Key+2*b.Latent+b.Rotated)
	}
	if c.Family.GatedAttention {
		latent = 3 * c.Heads * c.HeadDim
	}
	experts, states := 0, 0
	if c.Recurrent() {
		states = 2 * (c.States.Inner + c.States.Channels())
	}
	if e := &c.Experts; e.Count > 0 {
		experts = e.Count + 2*c.Embd + e.Used*(c.Embd+2*e.FF)
	}
	return 4 * int64(n) * int64(4*c.Embd+2*(c.Heads+c.KVHeads)*c.HeadDim+3*c.FF+latent+experts+states)
}
