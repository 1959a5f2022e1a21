package compute

// Activation is the nonlinearity of a feed-forward layer.
type Activation struct {
	Kind      Nonlinearity
	Threshold float32 // FATReLU: z > Threshold ? z : 0; SiLU and GELU: act(g) of a magnitude below it is taken as 0
	Slope     float32 // ClampedSwiGLU: s; SiTU: β; XIELU: b
	Limit     float32 // the limited kinds: l, the bound of g and u, or of SiLU(g) and u in CappedSwiGLU; XIELU: e
	Above     float32 // XIELU: p
	Below     float32 // XIELU: n
}

// Nonlinearity names the function in an Activation.
type Nonlinearity int

// The nonlinearities; g is the gate's output (or up's, in ungated layers), u is up's.
const (
	SiLU    Nonlinearity = iota // g·sigmoid(g)·u
	GELU                        // 0.5·g·(1+tanh(√(2/π)(g+0.044715g³)))·u
	ReLU                        // max(g,0)·u
	FATReLU                     // (g > t ? g : 0)·u
	DReLU                       // max(g,0)·max(u,0)
	ReLU2                       // max(g,0)²·u

	// ClampedSwiGLU is min(g,l)·sigmoid(s·min(g,l))·(1+min(max(u,-l),l)), with s Slope and l Limit.
	//
	// Source: OpenAI 2025, gpt-oss-120b & gpt-oss-20b model card; reference implementation.
	ClampedSwiGLU
	Logistic // sigmoid(g)·u, of what attention is multiplied by; no feed-forward layer has it

	LimitedSwiGLU // min(g,l)·sigmoid(min(g,l))·min(max(u,-l),l), with l Limit
	CappedSwiGLU  // min(g·sigmoid(g),l)·min(max(u,-l),l)

	// SiTU is β·tanh(g/β)·sigmoid(g)·l·tanh(u/l), with β Slope and l Limit, which is 0 where u stays as it is.
	SiTU

	Softplus // ln(1+exp(g))·u, of what attention is multiplied by, as Logistic
	Identity // g·u

	// XIELU is (p·g² + b·g)·u above 0, and (n·(expm1(min(g,e)) − g) + b·g)·u elsewhere. Only Activate computes it.
	//
	// Source: Huang and Schlag 2025, Deriving Activation Functions Using Integration.
	XIELU

	GELUErf   // 0.5·g·(1+erf(g/√2))·u. Only Activate computes it, as the next
	GELUQuick // g·sigmoid(1.702g)·u
)

func (n Nonlinearity) String() string {
	return [...]string{"silu", "gelu", "relu", "fatrelu", "drelu", "relu2", "clamped_swiglu", "logistic", "limited_swiglu", "capped_swiglu", "situ", "softplus", "identity", "xielu", "gelu_erf", "gelu_quick"}[n]
}

// Limited reports whether the function has limits, which come from the file or the family.
func (n Nonlinearity) Limited() bool { return n == ClampedSwiGLU || n >= LimitedSwiGLU && n <= SiTU }

// Nonlinearities returns all that feed-forward layers may have.
func Nonlinearities() []Nonlinearity {
	return []Nonlinearity{SiLU, GELU, ReLU, FATReLU, DReLU, ReLU2, ClampedSwiGLU, LimitedSwiGLU, CappedSwiGLU, SiTU}
}

// Sparse reports whether the activation is exactly zero for part of its inputs.
func (a Activation) Sparse() bool { return a.Kind >= ReLU && a.Kind <= ReLU2 || a.Small() }

// Small reports whether activations of a small magnitude count as zero, positive and negative ones.
//
// Source: Lee et al. 2024, CATS: Contextually-Aware Thresholding for Sparsity in Large Language Models.
func (a Activation) Small() bool { return (a.Kind == SiLU || a.Kind == GELU) && a.Threshold > 0 }
