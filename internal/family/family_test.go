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
	want := strings.Fields(`bamboo bloom chatglm cohere2 command-r ernie4_5 exaone falcon gpt2 gptneox internlm2 jais2 llama mistral3 mpt nemotron opt phi2 phi3 qwen2 qwen2vl qwen3 qwen3vl seed_oss stablelm starcoder2`)
	if got := family.Names(); !slices.Equal(got, want) {
		t.Errorf("programs are %s, not %s", got, want)
	}
	for _, name := range family.Names() {
		if _, ok := arch.Named(name); !ok {
			t.Errorf("%s is no family", name)
		}
	}
}
