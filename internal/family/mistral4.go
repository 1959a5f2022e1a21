package family

import (
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMistral4 binds Mistral Small 4: DeepSeek V2's program with queries that grow with their position.
//
// Source: Mistral AI 2026, the model card and configuration of Mistral Small 4.
func newMistral4(k *nn.Keys, b *nn.Binder) Program {
	return bindDeepSeek2(k, b, deepseek2Spec{temperature: k.Temperature(".attention.temperature_length"), inBoth: true})
}
