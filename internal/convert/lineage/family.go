// Package lineage describes what the makers of models publish, each lineage in a file of its own: the names of tensors
// on Hugging Face and how they change in GGUF files, config.json's keys, and the keys that files have for them.
// Conversion and synthetic models use it to write files. The programs in package family say what a model computes and
// which shapes its tensors have.
package lineage

import (
	"slices"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Rotation says whether a family's heads are rotated to their positions, and which elements form a pair.
type Rotation int

// The rotations.
const (
	NotRotated  Rotation = iota // position_embd is added to the embedding, where the family has it
	Neighbours                  // (x[2i], x[2i+1])
	HalvesApart                 // (x[i], x[i+n/2])
)

// Style returns the rotation as package compute names it.
func (r Rotation) Style() compute.RopeStyle {
	if r == HalvesApart {
		return compute.Halves
	}
	return compute.Interleaved
}

// Family describes the models of one general.architecture.
type Family struct {
	Name        string   // general.architecture
	HuggingFace []string // what config.json names in "architectures"
	Layout      string   // tensor_data_layout, where the family has one
	MaxContext  int      // for synthetic models
	Drafts      bool     // files hold draft models, which compute with the states of their target
	// Really, if it is set, returns the name of the family that a folder of one of HuggingFace's names is instead of
	// this one; empty: it is this one.
	Really func(c *Config) string
	// Read completes what config.json says with the family's own names and defaults, and refuses variants by name.
	Read func(c *Config) error

	Naming
	Positions
	Normalizing
	Windows
	Attending
	Feeding
	Scaling
	Recurrence
	Residual
}

// Naming says how the folders of a lineage name tensors, and how each is converted.
type Naming struct {
	Root    []string // prefixes of Outer on Hugging Face; the first one with the embedding counts
	Layer   string   // prefix of Block there after the root, with %d for the layer; spaces separate alternatives, and the first one found counts
	Head    string   // the head there, without ".weight" and without the root; spaces separate alternatives; empty: lm_head
	QKV     string   // the tensor there, after Layer and without ".weight", with q, k and v together; GGUF files store them separately; empty: there is none
	Grouped bool     // QKV has as many groups as the configuration has KV heads, each of query heads followed by a key and a value head; else all queries, all keys, all values
	Buffers []string // ends of names there that hold no weights, such as masks
	Outer   []Tensor // tensors outside the blocks, in the order of synthetic files
	Block   []Tensor // tensors of one block, in that order
	// Classifier lists what a classification head becomes that reads one state of a text, by the names of the whole
	// checkpoint.
	Classifier []Tensor
}

// Positions says how a lineage encodes positions.
type Positions struct {
	Rotation       Rotation
	PartialRotary  bool // only the first elements of a head may be rotated
	SaysRotated    bool // files may say which layers are rotated
	PerhapsRotated bool // files may say that no head is rotated (rope.scaling.finetuned)
	YarnScores     bool // YaRN's magnitude multiplies scores, not rotated pairs, and files hold a tenth of it
	Sections       bool // pictures have positions of their own in sections of a head (M-RoPE); a text's are the same in all
	MaySection     bool // folders may name sections. Files with sections have the pairs of a head as halves, even if the family's are neighbours
	Tempered       bool // files may say that queries are scaled by their position
	LearnedOffset  int  // rows of position_embd before position 0
}

// Normalizing says which norms a lineage has.
type Normalizing struct {
	LayerNorm bool   // norms are LayerNorms; else RMSNorms
	BareNorms bool   // norms have no weights, and files no tensors for them
	NormSum   bool   // norms after parts are of the residual plus the part's output, and become the residual; else they are of the output
	FFNNorm   string // the norm before the feed-forward layer; empty: ffn_norm
}

// Windows says which layers of a lineage have sliding windows.
type Windows struct {
	Window      bool    // attention.sliding_window is applied
	FullEvery   int     // among layers with windows, one of each FullEvery sees all positions instead; 0: none does. Files may say otherwise
	FullFirst   bool    // the first of FullEvery layers sees all positions, not the last
	WindowList  bool    // files list which layers have windows
	UsualWindow int     // window of a file that does not say it; 0: none
	WindowBase  float64 // RoPE base of sliding-window layers, in a file that does not say it; 0: the global base
	WindowHeads bool    // sliding-window layers have heads of another size
}

// Attending says how the heads of a lineage attend.
type Attending struct {
	Later          bool    // bidirectional: tokens also see later positions, unless the file says otherwise
	Clamped        bool    // files may clamp queries, keys and values
	Latent         bool    // latent attention: keys and values are computed from a latent vector, which the cache stores with the rotated part of keys that all heads share
	ScoreScale     float64 // factor of the scores q·k in a file that does not say it; 0: 1/√key
	SharedKV       bool    // the last layers read the keys and values of the last layer of their kind that has some
	OwnHeads       bool    // there is a KV head for every query head, whatever files say
	HeadsFillWidth bool    // heads·key must be the width of the residual stream
	// HeadGate says that attn_gate has a row for each head; else it has one for each element that heads read.
	HeadGate bool
}

// Feeding says how the feed-forward layers of a lineage are.
type Feeding struct {
	Parallel      bool                 // attention and the feed-forward layer both read the block's input; else one after the other
	ParallelKey   string               // the key by which files say whether Parallel holds; empty: it always does, or never
	PerhapsBeside bool                 // files may lack ffn_norm; their family is then Beside
	Gated         bool                 // feed-forward layers have a gate
	FusedGate     bool                 // ffn_up holds the gates' rows, then the ups'
	TopK          bool                 // layers may set all but the largest of their gates to zero
	Activation    compute.Nonlinearity // for a GGUF file without powerinfer.activation
	ExpertLimit   float32              // limit of experts' gates and ups, which files say; 0: none
	Experts       *Experts             // layers with experts; nil: no model of the family has some
}

// Scaling says by what a lineage multiplies.
type Scaling struct {
	ScaledInput  bool // embeddings are multiplied by √n_embd
	Multipliers  bool // files scale embeddings, attention, what a part adds to the residual, and divide logits
	ScaledLogits bool // files give a factor of logits
	ProductScale bool // files give factors of embeddings and of the products q·k
	// Factors returns the multipliers of a file that does not say them; nil: they are 1.
	Factors func(layers, embd int) Factors
	// Multiplied, if it is set, returns by what conversion multiplies the rows of a tensor, by its name in GGUF, in
	// blocks after "blk.N."; nil: by nothing.
	Multiplied func(c *Config, layer int, name string) []Multiplied
}

// Recurrence says which recurrent layers a lineage has.
type Recurrence struct {
	// StateSpace says that layers without KV heads are recurrent instead: Mamba-2, with ShortConv short convolutions
	// with gates, or with Delta gated delta nets. Files of the latter tell how far apart layers with attention are
	// instead.
	StateSpace bool
	ShortConv  bool
	Delta      bool
	// Tiled says that in files head h of a delta net uses group h modulo the number of groups; otherwise a group's
	// heads are neighbours. A group's heads share queries and keys.
	Tiled bool
	// OnePart says that a layer is one part, recurrent, attention or a feed-forward layer, with the norm attn_norm.
	// Files give its numbers of KV heads and of neurons; at least one of them is 0.
	OnePart bool
	// AllLayers are the parts of every layer, in families with recurrent layers and equal layers: attention and the
	// recurrent layer read the same norm, and both are added to the residual. 0: files say the kind of each layer.
	AllLayers Part
}

// Residual describes a lineage's residual, and where it ends.
type Residual struct {
	AltUp       bool // the residual has several streams, and blocks compute one of them
	LayerInputs bool // tokens may also have an embedding for each layer
	// GatedStreams says that the residual is several streams, which hyper-connections of low rank read and write, and
	// that attention has an indexer.
	GatedStreams bool
	Headless     bool // there are no logits: hidden states are the result
	AlwaysTied   bool // files hold no output.weight: the head is the embedding
	// Further says that files hold MTP layers if Hugging Face folders do.
	Further bool
}

// Factors multiply the embedding, the output of each part of a block, and logits.
type Factors struct{ Embedding, Residual, Logits float64 }

// Multiplied is a factor of that many rows of a tensor; Rows is 0 if it is for all rows.
type Multiplied struct {
	Rows int
	By   float64
}

// Tensor is a tensor's name on both sides, and what happens to it on the way.
type Tensor struct {
	Name     string // in GGUF; in blocks after "blk.N."
	Source   string // on Hugging Face, after the prefix; spaces separate alternatives, and the first one found counts
	Optional bool   // files may lack it
	Rootless bool   // Source has no root before it
	Change   Change // at conversion
}

// Change is a change of a tensor's elements at conversion from Hugging Face.
type Change int

// The changes.
const (
	Same          Change = iota
	Pairs                // rows of each head, from halves apart to neighbours
	Ungroup              // from groups of query heads, each followed by its key and value head, to all queries, all keys, all values
	PlusOne              // 1 is added: the checkpoint stores a norm's weight less 1
	PlusFifth            // 1/5 is added
	PlusEleventh         // 1/√5³ is added
	Stacked              // several tensors, with numbers for %d in their name, become one
	Computed             // it is not in the checkpoint, but follows from config.json
	Transposed           // columns become rows
	LatentKeys           // all heads' keys and values: the rows of the keys; each head's columns become rows
	LatentValues         // all heads' keys and values: the rows of the values
	FirstHalf            // the first half of the rows of each matrix, of one or several
	SecondHalf           // the second half
	BehindPadding        // rows of padding, which come first, are left out
	Outputs              // matrices of inputs by outputs, or their biases: the outputs become rows; in MXFP4 they are rows already
	EvenOutputs          // the same, every second output, from the first on
	OddOutputs           // the same, from the second on
	NegatedExp           // −exp of each element
	Exp                  // exp of each element
	Product              // the product of two vectors, element by element
	Column               // a vector becomes a column
	Taps                 // a convolution per channel loses the dimension of its inputs
	Groups               // a vector becomes a row for each group
	Joined               // the rows of several matrices, one after the other
	JoinedColumns        // each matrix's columns become rows, one matrix after the other
	FirstOutputs         // matrices of inputs by outputs: the first half of the outputs become rows
	SecondOutputs        // the second half
	GroupedMixed         // rows of each group's queries, keys, values and gates: all queries, all keys, all values
	GroupedGates         // rows of each group's queries, keys, values and gates: the gates
	IndexQueries         // rows of an indexer's queries and then its key: the queries
	IndexKeys            // rows of an indexer's queries and then its key: the key
	Shards               // the rows of several matrices in a row, in the order of the numbers that follow Source in their names
	Flat                 // the elements of a tensor, whatever its shape is
	Gathered             // the elements of several tensors in a row; spaces separate their names
	Numbers              // whole numbers
	TokenMap             // differences to tokens' numbers become those numbers
	LayerNumbers         // a number for each layer, after Layer in its name; files have a key with all of them
	Ternary              // each element becomes −1, 0 or 1, whichever is nearest, times the mean magnitude of all
)

// Drafting returns the families of draft models. They are not in All, because they compute nothing alone.
func Drafting() []Family { return []Family{gemma4Assistant(), eagle3(), dflash()} }

// All returns every family, by name.
func All() []Family {
	return []Family{
		afmoe(), apertus(), arcee(), baichuan(), bailingMoE3(), bamboo(), bert(), bitNet(), bloom(), chatglm(), cohere2(),
		cohere2MoE(), commandR(), dbrx(), deci(), deepseek(), deepseek2(), deepseek32(), deepseek4(), deepseekOCR(),
		dots3Note(), ernie(), ernieMoE(), euroBERT(), exaone(), exaone4(), exaoneMoE(), falcon(), falconH1(), gemma(),
		gemma2(), gemma3(), gemma3n(), gemma4(), gemmaEmbedding(), glm4(), glm4MoE(), glmDSA(), gpt2(), gptneox(),
		gptOSS(), granite(), graniteHybrid(), graniteMoE(), hunyuanDense(), hunyuanMoE(), hyV3(), hyV4(), internlm2(),
		jais2(), jamba(), jinaBERTV2(), jinaBERTV3(), kimiK3(), kimiLinear(), laguna(), lfm2(), lfm2MoE(), llama4(),
		llamaEmbed(), mamba(), mamba2(), mimo2(), minicpm(), minicpm3(), minimax01(), minimaxM2(), minimaxM3(), mistral3(),
		mistral4(), mixtral(), modernBERT(), mpt(), museGlimmer(), nanbeige(), nemotron(), nemotronH(), nemotronHMoE(),
		nomicBERT(), nomicBERTMoE(), olmo2(), olmoe(), openELM(), opt(), phi2(), phi3(), plm(), qwen2(), qwen2MoE(),
		qwen2VL(), qwen3(), qwen35(), qwen35MoE(), qwen3MoE(), qwen3Next(), qwen3VL(), qwen3VLMoE(), qwen4Exp(), rwkv7(),
		seedOSS(), smallThinker(), smollm3(),
		stablelm(), starcoder2(), step35(),
		bailingMoE(), bailingMoE2(), dots1(), graniteSWA(), grok(), groveMoE(), maincoder(), maple(), mellum(), olmo(), orion(), pangu(), phiMoE(), plamo3(), spark25(), starcoder(),
		xverse(),
	}
}

// Named returns the family of that general.architecture.
func Named(name string) (Family, bool) {
	return find(func(f *Family) bool { return f.Name == name })
}

// Converted returns the family of a Hugging Face architecture.
func Converted(architecture string) (Family, bool) {
	return find(func(f *Family) bool { return slices.Contains(f.HuggingFace, architecture) })
}

// known returns the families of All and Drafting, which are made once, because families are looked up for every tensor.
// Callers do not change what a family's fields point to.
var known = sync.OnceValue(func() []Family { return append(All(), Drafting()...) })

func find(is func(*Family) bool) (Family, bool) {
	all := known()
	for i := range all {
		if is(&all[i]) {
			return all[i], true
		}
	}
	return Family{}, false
}

// Names lists the families that are wanted, for messages. wanted may be nil: all.
func Names(wanted func(Family) bool) string {
	var names []string
	for _, f := range All() {
		if wanted == nil || wanted(f) {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Sources lists the Hugging Face architectures that can be converted, for messages.
func Sources() string {
	var names []string
	for _, f := range known() {
		names = append(names, f.HuggingFace...)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// InBlock returns the block's tensor of that name.
func (f *Family) InBlock(name string) (Tensor, bool) {
	return named(f.Block, name)
}

func named(tensors []Tensor, name string) (Tensor, bool) {
	if i := slices.IndexFunc(tensors, func(t Tensor) bool { return t.Name == name }); i >= 0 {
		return tensors[i], true
	}
	return Tensor{}, false
}

// Beside returns the family with the feed-forward layer parallel to attention, reading the same norm.
func (f Family) Beside() Family {
	f.Parallel = true
	f.Block = without(f.Block, "ffn_norm.*")
	return f
}

// KeysByHead reports whether files hold two matrices for each head that make its keys and its values from the latent
// vector. In such files attention.key_length and value_length are the widths of the cache's rows, and key_length_mla
// and value_length_mla those of the heads.
func (f *Family) KeysByHead() bool {
	_, ok := f.InBlock("attn_k_b.weight")
	return ok
}

// NormWeight returns the name of the weight of a norm in blocks.
func (f *Family) NormWeight(norm string) string {
	if _, bare := f.InBlock(norm); bare {
		return norm
	}
	return norm + ".weight"
}

// Outside returns the tensor of that name outside the blocks.
func (f *Family) Outside(name string) (Tensor, bool) {
	return named(f.Outer, name)
}

// PreNorm reports whether the parts of a block read the norm of the residual, not the residual itself.
func (f *Family) PreNorm() bool {
	_, ok := f.InBlock("attn_norm.weight")
	return ok || f.BareNorms
}

// NormBiases reports whether norms have biases.
func (f *Family) NormBiases() bool {
	return slices.ContainsFunc(f.Outer, func(t Tensor) bool { return t.Name == "output_norm.bias" })
}

// LastNorm returns the name of the norm before the head.
func (f *Family) LastNorm() string {
	if f.ShortConv { // files name it so that readers which look for output_norm do not find it
		return "token_embd_norm"
	}
	return "output_norm"
}

// NormsEmbeddings reports whether tokens' embeddings are normed.
func (f *Family) NormsEmbeddings() bool {
	_, ok := f.Outside("token_embd_norm.weight")
	return ok && f.LastNorm() != "token_embd_norm"
}

// EpsilonKey returns the key of the norms' epsilon, after the family's name.
func (f *Family) EpsilonKey() string {
	if f.LayerNorm {
		return "attention.layer_norm_epsilon"
	}
	return "attention.layer_norm_rms_epsilon"
}
