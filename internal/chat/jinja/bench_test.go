package jinja

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// conversation returns the variables of a conversation of n messages, of about 400 bytes each.
func conversation(n int) *Dict {
	messages := &List{}
	for i := range n {
		m := &Dict{}
		m.Set("role", []string{"user", "assistant"}[i%2])
		m.Set("content", fmt.Sprint(i, strings.Repeat(" What is the weather in Paris?", 14)))
		messages.Items = append(messages.Items, m)
	}
	vars := &Dict{}
	vars.Set("messages", messages)
	vars.Set("add_generation_prompt", true)
	vars.Set("bos_token", "<s>")
	vars.Set("eos_token", "</s>")
	return vars
}

// BenchmarkRender renders a conversation of 100 messages.
func BenchmarkRender(b *testing.B) {
	dir := testenv.Shared(b, "chat-templates")
	vars := conversation(100)
	for _, name := range []string{"chatml", "meta-llama-Llama-3.1-8B-Instruct", "Qwen-Qwen3-0.6B", "openai-gpt-oss-120b", "deepseek-ai-DeepSeek-V3.1"} {
		b.Run(name, func(b *testing.B) {
			source, err := os.ReadFile(filepath.Join(dir, name+".jinja"))
			if err != nil {
				b.Fatal(err)
			}
			tmpl, err := Parse(string(source))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(vars, Options{Now: day}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
