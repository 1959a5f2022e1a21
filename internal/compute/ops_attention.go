package compute

import "math"

// RoPE rotates, in place, every head of X to its token's position in Params.Turn.
type RoPE struct {
	X       Tensor // [n, heads·HeadDim]
	HeadDim int
	Rope    *Rope
}

// Visit implements Op.
func (o *RoPE) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// RoPE does a RoPE.
func (v Verbs) RoPE(x Tensor, headDim int, r *Rope) {
	v.calls.rope = RoPE{x, headDim, r}
	v.Do(&v.calls.rope)
}

// StoreKV writes keys and values to the tokens' positions in a layer of a cache. It skips positions that have no row
// there: see KVShape.Every.
type StoreKV struct {
	Cache *Cache
	Layer int
	K     Tensor // [n, kv_heads·key]
	V     Tensor // [n, kv_heads·value]; without Mem if values are within keys or are to stay unchanged
}

// Visit implements Op.
func (o *StoreKV) Visit(v Visitor) {
	v.Cache(&o.Cache, &o.Layer)
	v.Tensor(&o.K, Read)
	v.Tensor(&o.V, Read)
}

// StoreKV does a StoreKV.
func (v Verbs) StoreKV(c *Cache, layer int, key, value Tensor) {
	v.calls.storeKV = StoreKV{c, layer, key, value}
	v.Do(&v.calls.storeKV)
}

// LoadKeys reads the keys at the tokens' positions in a layer of a cache: K is what attention takes them for.
type LoadKeys struct {
	Cache *Cache
	Layer int
	K     Tensor // [n, kv_heads·key]
}

// Visit implements Op.
func (o *LoadKeys) Visit(v Visitor) {
	v.Cache(&o.Cache, &o.Layer)
	v.Tensor(&o.K, Write)
}

// LoadKeys does a LoadKeys.
func (v Verbs) LoadKeys(c *Cache, layer int, key Tensor) {
	v.calls.loadKeys = LoadKeys{c, layer, key}
	v.Do(&v.calls.loadKeys)
}

// Attend computes attention over the sequence of each token, causal unless How says otherwise: Out =
// softmax(score(Q·Kᵀ))·V, with the scores that How says. With Cache.Layers[Layer] = {kv_heads, key, value}, query head
// h reads KV head h·kv_heads/heads.
type Attend struct {
	Out   Tensor // [n, heads·value]
	Q     Tensor // [n, heads·key]
	Cache *Cache
	Layer int
	How   Attention
}

// Visit implements Op.
func (o *Attend) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.Q, Read)
	v.Cache(&o.Cache, &o.Layer)
	v.Vector(&o.How.Slopes)
	v.Vector(&o.How.Sinks)
	v.Tensor(&o.How.Seen.Blocks, Read)
}

// Attend does an Attend.
func (v Verbs) Attend(out, q Tensor, c *Cache, layer int, how Attention) {
	v.calls.attend = Attend{out, q, c, layer, how}
	v.Do(&v.calls.attend)
}

// Temper multiplies row i of X by 1 + Scale·ln(1 + ⌊(Pos[i]+Offset)/Length⌋): queries that see many positions attend
// more sharply.
type Temper struct {
	X   Tensor // [n, cols]
	How Temperature
}

// Temperature holds the parameters of a Temper.
type Temperature struct {
	Scale  float32
	Length int // positions after which the factor grows
	Offset int // in positions
}

// Factor returns the factor at a position.
func (t Temperature) Factor(pos int) float64 {
	return 1 + float64(t.Scale)*math.Log(float64(1+(pos+t.Offset)/t.Length))
}

// Visit implements Op.
func (o *Temper) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// Temper does a Temper.
func (v Verbs) Temper(x Tensor, how Temperature) {
	v.calls.temper = Temper{x, how}
	v.Do(&v.calls.temper)
}
