package server

import (
	"slices"
	"sort"

	"github.com/powerinfer-go/powerinfer/internal/chat"
)

// Shorten leaves out the oldest messages of a conversation that would leave no room for a token. What the model was
// told at the beginning and the last message stay. A tool's result goes with its call.
func (m *Model) Shorten(c *Conversation) error {
	all := c.Messages
	first := slices.IndexFunc(all, func(m chat.Message) bool { return m.Role != "system" && m.Role != "developer" })
	if first < 0 {
		return nil
	}
	var cuts []int // where what is kept may begin
	for i := first; i < len(all); i++ {
		if all[i].Role != "tool" {
			cuts = append(cuts, i)
		}
	}
	var err error
	keep := func(i int) []chat.Message { return slices.Concat(all[:first], all[cuts[i]:]) }
	fits := func(i int) bool {
		c.Messages = keep(i)
		_, ids, renderErr := m.Render(c)
		if renderErr != nil && i == 0 {
			err = renderErr
		}
		return renderErr == nil && len(ids) < m.Engine.Context()
	}
	if len(cuts) == 0 || fits(0) || err != nil {
		c.Messages = all
		return err
	}
	n := 1 + sort.Search(len(cuts)-1, func(i int) bool { return fits(i + 1) })
	c.Messages = keep(min(n, len(cuts)-1))
	return nil
}
