package compute

// AttendLatent computes what Attend does, over keys and values that are made for the step from what is cached in their
// place: of each position a vector c [latent] and behind it elements r of a key that all heads share. Head h has the
// key [K_h·c, r] and the value V_h·c. Cache.Layers[Layer] is one KV head whose keys are [c, r] and whose values lie
// within them.
//
// It does with 320 multiplications a head, query and position what Attend over [c, r] does with 1088 (heads of 128+64
// elements, values of 128, c of 512), and with 131072 a head and position more: for prompts of many tokens.
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
