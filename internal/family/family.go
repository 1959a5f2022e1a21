// Package family has a program for each family of models: which tensors of a file it binds, and its forward pass,
// written in the layers of package nn.
package family

import (
	"maps"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// Program is a model of a family.
type Program interface {
	// Forward returns the residual after all blocks. Package model applies the norm and the head that Ends returns. [n,
	// n_embd], or only the rows with wanted logits
	Forward(p *nn.Pass) compute.Tensor
	// Ends returns what comes before the blocks and after them.
	Ends() (*nn.Embedding, *nn.Output)
}

// MTP is a Program with files that may have more layers, which predict further tokens: the first the token after the
// next, the second the one after that. Their blocks are like the others.
type MTP interface {
	Program
	// BindMTP binds such a block. It is layer l, counted from the model's first.
	BindMTP(b *nn.Binder, l int) Block
}

// MTPInputs says which hidden states MTP layers read.
type MTPInputs struct {
	Plain bool // as they are before the last norm; otherwise after it
	Model bool // all of them read the model's; otherwise each reads those of the MTP layer before it
}

// ReadsMTP is an MTP with MTPInputs other than the zero value.
type ReadsMTP interface {
	MTP
	MTPInputs() MTPInputs
}

// AllRows is a Program with a last layer that may have to compute all rows, whatever logits are wanted.
type AllRows interface {
	Program
	AllRows() bool
}

// Block is the block of an MTP layer. Programs without MTP need none.
type Block interface {
	// Forward returns the residual after the block. [n, n_embd]
	Forward(p *nn.Pass, x compute.Tensor) compute.Tensor
	// Store computes only the block's attention, which stores keys and values of x.
	Store(p *nn.Pass, x compute.Tensor)
}

// programs are the families by general.architecture. Families of one constructor are the same program.
var programs = map[string]func(*nn.Keys, *nn.Binder) Program{
	"afmoe":           newAFMoE,
	"apertus":         newApertus,
	"arcee":           newArcee,
	"baichuan":        newBaichuan,
	"bailingmoe":      newBailingMoE,
	"bailingmoe2":     newBailingMoE2,
	"bailingmoe3":     newBailingMoE3,
	"bamboo":          newBamboo,
	"bert":            newBERT,
	"bitnet":          newBitNet,
	"bloom":           newBloom,
	"chatglm":         newChatGLM,
	"cohere2":         newCohere2,
	"cohere2moe":      newCohere2MoE,
	"command-r":       newCommandR,
	"dbrx":            newDBRX,
	"deci":            newDeci,
	"deepseek":        newDeepseek,
	"deepseek2":       newDeepSeek2,
	"deepseek32":      newDeepSeek32,
	"deepseek4":       newDeepSeek4,
	"deepseek2-ocr":   newDeepseekOCR,
	"dots1":           newDots1,
	"dots3note":       newDots3Note,
	"ernie4_5":        newErnie,
	"ernie4_5-moe":    newErnieMoE,
	"eurobert":        newEuroBERT,
	"exaone":          newExaone,
	"exaone-moe":      newExaoneMoE,
	"exaone4":         newExaone4,
	"falcon":          newFalcon,
	"falcon-h1":       newFalconH1,
	"gemma":           newGemma,
	"gemma-embedding": newGemmaEmbedding,
	"gemma2":          newGemma2,
	"gemma3":          newGemma3,
	"gemma3n":         newGemma3n,
	"gemma4":          newGemma4,
	"glm4":            newGLM4,
	"glm-dsa":         newGLMDSA,
	"glm4moe":         newGLM4MoE,
	"gpt-oss":         newGPTOSS,
	"gpt2":            newGPT2,
	"gptneox":         newGPTNeoX,
	"granite":         newGranite,
	"granite_swa":     newGraniteSWA,
	"granitehybrid":   newGraniteHybrid,
	"granitemoe":      newGranite,
	"grok":            newGrok,
	"grovemoe":        newGroveMoE,
	"hunyuan-dense":   newHunyuanDense,
	"hunyuan-moe":     newHunyuanMoE,
	"hy_v3":           newHyV3,
	"hy_v4":           newHyV4,
	"internlm2":       newInternLM2,
	"jais2":           newJais2,
	"kimi-k3":         newKimiK3,
	"kimi-linear":     newKimiLinear,
	"jamba":           newJamba,
	"jina-bert-v2":    newJinaBERTV2,
	"jina-bert-v3":    newJinaBERTV3,
	"laguna":          newLaguna,
	"lfm2":            newLFM2,
	"lfm2moe":         newLFM2,
	"llama":           newLlama,
	"llama-embed":     newLlamaEmbed,
	"llama4":          newLlama4,
	"maincoder":       newMaincoder,
	"mamba":           newMamba,
	"mamba2":          newMamba2,
	"maple":           newMaple,
	"mellum":          newMellum,
	"mimo2":           newMiMo2,
	"minicpm":         newMiniCPM,
	"minicpm3":        newMiniCPM3,
	"minimax-01":      newMiniMax01,
	"minimax-m2":      newMiniMaxM2,
	"minimax-m3":      newMiniMaxM3,
	"mistral3":        newMistral3,
	"mistral4":        newMistral4,
	"modern-bert":     newModernBERT,
	"mpt":             newMPT,
	"nanbeige":        newNanbeige,
	"muse-glimmer":    newMuseGlimmer,
	"nemotron":        newNemotron,
	"nemotron_h":      newNemotronH,
	"nemotron_h_moe":  newNemotronH,
	"nomic-bert":      newNomicBERT,
	"nomic-bert-moe":  newNomicBERTMoE,
	"olmo":            newOLMo,
	"olmo2":           newOLMo2,
	"olmoe":           newOLMoE,
	"openelm":         newOpenELM,
	"opt":             newOPT,
	"orion":           newOrion,
	"pangu-embedded":  newPangu,
	"phi2":            newPhi2,
	"phi3":            newPhi3,
	"phimoe":          newPhiMoE,
	"plamo3":          newPLaMo3,
	"plm":             newPLM,
	"qwen2":           newQwen2,
	"qwen2moe":        newQwen2MoE,
	"qwen2vl":         newQwen2,
	"qwen3":           newQwen3,
	"qwen35":          newQwen35,
	"qwen35moe":       newQwen35,
	"qwen3moe":        newQwen3MoE,
	"qwen3next":       newQwen3Next,
	"qwen3vl":         newQwen3,
	"qwen3vlmoe":      newQwen3MoE,
	"qwen4exp":        newQwen4Exp,
	"rwkv7":           newRWKV7,
	"seed_oss":        newSeedOSS,
	"smallthinker":    newSmallThinker,
	"smollm3":         newSmolLM3,
	"spark2_5":        newSpark25,
	"stablelm":        newStableLM,
	"starcoder":       newStarCoder,
	"starcoder2":      newStarCoder2,
	"step35":          newStep35,
	"xverse":          newXverse,
}

// Names returns the families that are programs, in the order of their names.
func Names() []string { return slices.Sorted(maps.Keys(programs)) }

// Open binds a model of the family k.Arch. Errors are k's and b's.
func Open(k *nn.Keys, b *nn.Binder) Program { return programs[k.Arch](k, b) }

// ends has the layers before the blocks and after them.
type ends struct {
	embed  nn.Embedding
	output nn.Output
}

// Ends returns them.
func (e *ends) Ends() (*nn.Embedding, *nn.Output) { return &e.embed, &e.output }

// bindBlocks binds the blocks of n layers.
func bindBlocks[B any](b *nn.Binder, n int, bind func(b *nn.Binder, i int) B) (blocks []B) {
	for i := range n {
		blocks = append(blocks, bind(b.Layer(i), i))
	}
	return blocks
}

// through passes x through the blocks of a model's layers.
func through[B any, P interface {
	*B
	Forward(p *nn.Pass, x compute.Tensor) compute.Tensor
}](p *nn.Pass, x compute.Tensor, blocks []B) compute.Tensor {
	for i := range blocks {
		p.Layer(i, x) // frees the activations of the layer before
		x = P(&blocks[i]).Forward(p, x)
	}
	return x
}
