package nn

import (
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Linear binds the matrix name.weight [out, in], and name.bias [out], of a token mixer or a router: it goes where the
// layer's attention goes. Neurons, experts, tables and the head are bound by FFN, Experts, Embedding and Output.
func (b *Binder) Linear(name string, out, in int, bias Presence) Linear {
	l := b.Adapted(b.Matrix(name+".weight", out, in, compute.Precise))
	l.B, l.factor = b.Bias(name, out, bias), b.factorOf(name)
	if l.B != nil && l.factor != 0 {
		b.Fail("tensor %q: a factor of a product with a bias is not supported", b.prefix+name+FactorSuffix)
	}
	return l
}

// Bias binds the vector name.bias [n]; nil if it is optional and missing.
func (b *Binder) Bias(name string, n int, p Presence) *compute.Vector {
	if name += ".bias"; !b.Present(name, p) {
		return nil
	}
	return b.Vector(name, n)
}

// RMSNorm binds name.weight [n].
func (b *Binder) RMSNorm(name string, n int, eps float32) Norm {
	return Norm{Weight: b.Vector(name+".weight", n), Epsilon: eps}
}

// BiasedRMSNorm binds name.weight and name.bias [n].
func (b *Binder) BiasedRMSNorm(name string, n int, eps float32) Norm {
	norm := b.RMSNorm(name, n, eps)
	norm.Bias = b.Bias(name, n, Required)
	return norm
}

// HeadNorm binds the RMSNorm of each head of queries or keys. All heads share name.weight [key].
func (b *Binder) HeadNorm(name string, key int, eps float32) HeadNorm {
	return HeadNorm{Norm: b.RMSNorm(name, key, eps)}
}

// WideNorm binds the RMSNorm of queries or keys over all heads together.
func (b *Binder) WideNorm(name string, n int, eps float32) HeadNorm {
	return HeadNorm{Norm: b.RMSNorm(name, n, eps), Wide: true}
}

// EachHeadNorms binds the LayerNorms of a's heads of queries and keys, if each head has its own weights in
// attn_q_norm.weight and attn_k_norm.weight [heads, key].
func (b *Binder) EachHeadNorms(a *Attention, eps float32) {
	ones := b.ones(a.Key)
	norm := func(name string, heads int) HeadNorm {
		return HeadNorm{Norm: Norm{Weight: b.rowsVector(name, heads, a.Key), Epsilon: eps, Centered: true}, Ones: ones}
	}
	a.QNorm, a.KNorm = norm("attn_q_norm.weight", a.Heads), norm("attn_k_norm.weight", a.KVHeads)
}

// LayerNorm binds name.weight and name.bias [n].
func (b *Binder) LayerNorm(name string, n int, eps float32, bias Presence) Norm {
	return Norm{Weight: b.Vector(name+".weight", n), Bias: b.Bias(name, n, bias), Epsilon: eps, Centered: true}
}

// QKV binds the matrices of a's queries, keys and values, and their biases. Files may hold the three as one tensor.
func (b *Binder) QKV(a *Attention, width int, bias Presence) {
	q, k, v := a.Heads*a.Key, a.KVHeads*a.Key, a.KVHeads*a.Value
	if a.Gated {
		q *= 2
		if a.Key != a.Value {
			b.Fail("heads of %d elements of keys and %d of values are not supported: each has a gate as wide as its query", a.Key, a.Value)
		}
	}
	a.Q, a.K, a.V = b.qkv(width, q, k, v)
	if b.Has("attn_qkv.bias") {
		if qkv := b.vectors("attn_qkv.bias", q, k, v); qkv != nil {
			a.Q.B, a.K.B, a.V.B = qkv[0], qkv[1], qkv[2]
		}
		return
	}
	a.Q.B, a.K.B, a.V.B = b.Bias("attn_q", q, bias), b.Bias("attn_k", k, bias), b.Bias("attn_v", v, bias)
}

// qkv binds the matrices of queries, keys and values, which have q, k and v rows.
func (b *Binder) qkv(width, q, k, v int) (_, _, _ Linear) {
	if !b.Has("attn_qkv.weight") {
		return b.Linear("attn_q", q, width, NoBias), b.Linear("attn_k", k, width, NoBias), b.Linear("attn_v", v, width, NoBias)
	}
	all := b.slices("attn_qkv.weight", width, compute.Precise, q, k, v)
	if all == nil {
		return Linear{}, Linear{}, Linear{}
	}
	return all[0], all[1], all[2]
}

// QKVOrQK is QKV for families with files that may lack the matrix of values: values are then the keys.
func (b *Binder) QKVOrQK(a *Attention, width int, bias Presence) {
	if b.Has("attn_v.weight") || b.Has("attn_qkv.weight") {
		b.QKV(a, width, bias)
		return
	}
	a.Q, a.K = b.Linear("attn_q", a.Heads*a.Key, width, bias), b.Linear("attn_k", a.KVHeads*a.Key, width, bias)
}

// QueriesOf binds the queries of attention that reads the keys and values of layer from. Files may hold what it would
// need for its own, perhaps in one tensor with the queries.
func (b *Binder) QueriesOf(from int, s HeadShape, width int, bias Presence) *Attention {
	a := &Attention{HeadShape: s, Layer: b.layer, Stored: from, Borrows: true, From: from}
	b.parts[b.layer].Attention = a
	if b.checkHeads(s); from < 0 {
		b.Fail("key %q: layer %d finds no layer of its kind whose keys and values it could read", b.key("attention.shared_kv_layers"), b.layer)
		return a
	}
	if of := b.model.Layer(from).Stored; len(of) > 0 {
		a.Stored = of[0]
	}
	if b.Has("attn_qkv.weight") {
		b.QKV(a, width, bias)
		a.K, a.V = Linear{}, Linear{}
	} else {
		a.Q = b.Linear("attn_q", a.Heads*a.Key, width, bias)
	}
	b.Ignore("attn_k.weight", width, a.KVHeads*a.Key)
	b.Ignore("attn_v.weight", width, a.KVHeads*a.Value)
	b.Ignore("attn_k_norm.weight", a.Key)
	return a
}

// QueriesToTarget binds the queries of a draft model's attention to the keys and values of a layer of its target. of is
// that layer's attention, or nil if only shapes are wanted.
func (b *Binder) QueriesToTarget(of *Attention, s HeadShape, width int, bias Presence) *Attention {
	a := &Attention{HeadShape: s, Layer: b.layer, Borrows: true, From: -1}
	b.parts[b.layer].Attention = a
	if b.checkHeads(s); of != nil {
		if a.Stored = of.Stored; of.KVHeads != s.KVHeads || of.Key != s.Key || of.Value != s.Value {
			b.Fail("layer %d reads keys and values of %d heads of %d and %d elements, and the model has %d of %d and %d: take the draft model that was made for the model", b.layer, s.KVHeads, s.Key, s.Value, of.KVHeads, of.Key, of.Value)
		}
	}
	a.Q = b.Linear("attn_q", a.Heads*a.Key, width, bias)
	return a
}

// ScaledNorm binds the RMSNorm with factor times the vector name as weights. [n]
func (b *Binder) ScaledNorm(name string, n int, eps, factor float32) Norm {
	weights := b.Floats(name, n)
	for i := range weights {
		weights[i] *= factor
	}
	return Norm{Weight: b.numbers(name, weights), Epsilon: eps}
}

// UnitNorm binds an RMSNorm without weights of n elements.
func (b *Binder) UnitNorm(n int, eps float32) Norm { return Norm{Weight: b.ones(n), Epsilon: eps} }

// UnitLayerNorm binds a LayerNorm without weights of n elements.
func (b *Binder) UnitLayerNorm(n int, eps float32) Norm {
	return Norm{Weight: b.ones(n), Epsilon: eps, Centered: true}
}

// Negative binds the numbers of the vector name with the opposite sign. [n]
func (b *Binder) Negative(name string, n int) *compute.Vector {
	x := b.Floats(name, n)
	for i := range x {
		x[i] = -x[i]
	}
	return b.numbers(name, x)
}

// Spread binds the vector name [n], or one number that stands for n.
func (b *Binder) Spread(name string, n int) *compute.Vector {
	if b.Cols(name) != 1 {
		return b.Vector(name, n)
	}
	one := b.Floats(name, 1)
	if one == nil {
		return nil
	}
	return b.numbers(name, slices.Repeat(one, n))
}

// Clip reads the ranges that l clamps its input and output to, if the file has some: scalars in name.input_min,
// name.input_max, name.output_min and name.output_max, which may be absent. name is l's name in files.
func (b *Binder) Clip(name string, l *Linear) {
	all := [2]float32{-math.MaxFloat32, math.MaxFloat32}
	c := clip{all, all}
	for _, of := range []struct {
		name string
		to   *[2]float32
	}{{"input", &c.in}, {"output", &c.out}} {
		for i, end := range []string{"min", "max"} {
			tensor := name + "." + of.name + "_" + end
			if !b.Has(tensor) {
				continue
			}
			if x := b.Floats(tensor, 1); x != nil {
				of.to[i] = min(max(x[0], all[0]), all[1])
			}
		}
		if !(of.to[0] <= of.to[1]) {
			b.Fail("tensors %q and %q: %g to %g is no range", b.prefix+name+"."+of.name+"_min", b.prefix+name+"."+of.name+"_max", of.to[0], of.to[1])
		}
	}
	if c != (clip{all, all}) {
		l.clip = &c
	}
}
