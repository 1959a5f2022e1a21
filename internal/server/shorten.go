package server

import (
	"context"
	"slices"
	"sort"

	"github.com/powerinfer-go/powerinfer/internal/chat"
)

// Shorten leaves out the oldest messages of a conversation that would leave no room for a token. What the model was
// told at the beginning, the last thing that the user asked, and the last message stay. A tool's result goes with its
// call.
func (m *Model) Shorten(ctx context.Context, c *Conversation) error {
	all := c.Messages
	first := slices.IndexFunc(all, func(m chat.Message) bool { return m.Role != "system" && m.Role != "developer" })
	if first < 0 {
		return nil
	}
	var cuts []int // where the kept part may begin
	for i := first; i < len(all); i++ {
		if all[i].Role != "tool" {
			cuts = append(cuts, i)
		}
	}
	asked := len(all) - 1
	for asked >= first && (all[asked].Role != "user" || all[asked].IsEmpty()) {
		asked--
	}
	var err error
	keep := func(i int) []chat.Message {
		kept := slices.Clone(all[:first])
		if first <= asked && asked < cuts[i] {
			kept = append(kept, all[asked])
		}
		return append(kept, all[cuts[i]:]...)
	}
	fits := func(i int) bool {
		c.Messages = keep(i)
		_, ids, renderErr := m.Render(ctx, c)
		if renderErr != nil && i == 0 {
			err = renderErr
		}
		return renderErr == nil && len(ids) < m.Context()
	}
	if len(cuts) == 0 || fits(0) || err != nil {
		c.Messages = all
		return err
	}
	n := 1 + sort.Search(len(cuts)-1, func(i int) bool { return fits(i + 1) })
	c.Messages = keep(min(n, len(cuts)-1))
	return nil
}
