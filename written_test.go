package powerinfer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
)

// TestParts: an answer in Hermes' form becomes the same parts in any pieces, and the parts add up to the message.
func TestParts(t *testing.T) {
	const wrote = "<think>A\nhm.</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
	format := answer.FormatOf("<think></think><tool_call>{{ tools }}", true, true)
	for _, size := range []int{1, 3, len(wrote)} {
		var kinds []string
		var last ToolCall
		w := &written{parser: format.NewParser(answer.Options{Tools: []answer.Tool{{Name: "weather"}}}), yield: func(p Part, err error) bool {
			kind := fmt.Sprintf("%T", p)
			if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
				kinds = append(kinds, kind)
			}
			if c, ok := p.(ToolCall); ok {
				last = c
			}
			return err == nil
		}}
		for rest := wrote; rest != ""; rest = rest[min(size, len(rest)):] {
			w.tell(w.parser.Feed(rest[:min(size, len(rest))]))
		}
		w.tell(w.finish())
		if got := strings.Join(kinds, " "); got != "powerinfer.Thought powerinfer.Text powerinfer.ToolCall" {
			t.Errorf("pieces of %d: %s", size, got)
		}
		m := w.message()
		var arguments struct{ City string }
		if err := json.Unmarshal(last.Arguments, &arguments); err != nil || arguments.City != "Rome" || last.Name != "weather" || last.ID == "" {
			t.Errorf("pieces of %d: %+v %v", size, last, err)
		}
		if m.Role != RoleAssistant || m.Thoughts != "A\nhm." || strings.TrimSpace(m.Content) != "Let me look." || len(m.Calls) != 1 || m.Calls[0].ID != last.ID {
			t.Errorf("pieces of %d: %+v", size, m)
		}
	}
}
