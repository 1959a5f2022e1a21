package family_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/family"
)

// TestNames names the families that are programs. The traces of internal/model hold each to what it computes.
func TestNames(t *testing.T) {
	want := strings.Fields(`arcee baichuan bamboo bert bloom chatglm cohere2 command-r dbrx deepseek deepseek2 deepseek2-ocr
		ernie4_5 ernie4_5-moe eurobert exaone exaone4 falcon falcon-h1 gemma gemma-embedding gemma2 gemma3
		gemma3n gemma4 glm4 glm4moe gpt-oss gpt2 gptneox granite granitehybrid granitemoe hunyuan-dense
		internlm2 jais2 jina-bert-v2 jina-bert-v3 lfm2 lfm2moe llama llama-embed llama4 mamba2 minicpm
		minicpm3 minimax-m2 mistral3 modern-bert mpt nemotron nemotron_h nemotron_h_moe nomic-bert
		nomic-bert-moe olmo2 olmoe opt phi2 phi3 plm qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe
		qwen3next qwen3vl qwen3vlmoe seed_oss smallthinker smollm3 stablelm starcoder2`)
	if got := family.Names(); !slices.Equal(got, want) {
		t.Errorf("programs are %s, not %s", got, want)
	}
	for _, name := range family.Names() {
		if _, ok := arch.Named(name); !ok {
			t.Errorf("%s is no family", name)
		}
	}
}
