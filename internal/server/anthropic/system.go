package anthropic

import (
	"encoding/json"
	"regexp"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// billing is the line that Claude Code writes before its system prompt, such as "x-anthropic-billing-header:
// cc_version=2.1; cch=a5145;". It says nothing to a model, and changes with each request, so that no conversation would
// find its beginning in the cache.
var billing = regexp.MustCompile(`^x-anthropic-billing-header:(?:[ \t]*[\w-]+=[^;\n]*(?:;|\n|$))*[ \t]*\n?`)

// systemOf returns the system prompt, a text or blocks, without Claude Code's line.
func systemOf(raw json.RawMessage) (string, error) {
	blocks, err := blocksOf(raw)
	if err != nil {
		return "", server.Invalid("system: %s", err)
	}
	var text chat.Text
	for i := range blocks {
		b := &blocks[i]
		if err := b.refused(i); err != nil {
			return "", server.Invalid("system: %s", err)
		}
		if b.Type == "text" {
			*b.Text = billing.ReplaceAllString(*b.Text, "")
		}
		b.addTo(&text)
	}
	return text.String(), nil
}
