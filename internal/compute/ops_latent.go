package compute

// AttendLatent computes the same as Attend. The cache holds a vector c [latent] for each position, followed by elements
// r of a key that all heads share; the operation expands them to head h's key [K_h·c, r] and value V_h·c.
// Cache.Layers[Layer] has one KV head with keys [c, r] and values within them.
//
// It needs 320 multiplications for each head, query and position, where Attend over [c, r] needs 1088 (heads of 128+64
// elements, values of 128, c of 512), and another 131072 for each head and position. It pays for prompts of many
// tokens.
type AttendLatent struct {
	Out    Tensor // [n, heads·value]
	Q      Tensor // [n, heads·(own + shared)]
	Heads  int
	Keys   *Matrix // [heads·own, latent] the heads' K_h
	Values *Matrix // [heads·value, latent] the heads' V_h
	Cache  *Cache
	Layer  int
	How    Attention
}

// Sizes returns the elements of a head's own part of its key, of the part that all heads share, and of its value.
func (o *AttendLatent) Sizes() (own, shared, value int) {
	return o.Keys.Rows / o.Heads, o.Cache.Layers[o.Layer].Key - o.Keys.Cols, o.Values.Rows / o.Heads
}

// Fits reports whether the operands' shapes belong together.
func (o *AttendLatent) Fits() bool {
	if o.Heads < 1 || o.Keys.Rows%o.Heads != 0 || o.Values.Rows%o.Heads != 0 || o.Keys.Cols != o.Values.Cols {
		return false
	}
	own, shared, value := o.Sizes()
	l := o.Cache.Layers[o.Layer]
	return l.Heads == 1 && l.Within && l.Value == o.Keys.Cols && shared >= 0 && o.Q.Cols == o.Heads*(own+shared) && o.Out.Cols == o.Heads*value && o.Q.Rows == o.Out.Rows
}

// Visit implements Op.
func (o *AttendLatent) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.Q, Read)
	v.Matrix(&o.Keys)
	v.Matrix(&o.Values)
	v.Cache(&o.Cache, &o.Layer)
	v.Vector(&o.How.Slopes)
	v.Vector(&o.How.Sinks)
	v.Tensor(&o.How.Seen.Blocks, Read)
}

// AttendLatent does an AttendLatent.
func (v Verbs) AttendLatent(o AttendLatent) {
	v.calls.latent = o
	v.Do(&v.calls.latent)
}
