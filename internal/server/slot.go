package server

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// AnySlot asks for whichever slot is free.
const AnySlot = -1

// Slot is the state of a place in which one text at a time is generated.
type Slot struct {
	Busy    bool
	Task    int           // number of the text that is generated in it, or was last; 0: none was yet
	Request *Generation   // the request for that text; nil: it was no generation
	Tokens  []int32       // tokens of the last text that ended, as the KV cache has them
	Decoded int           // tokens of the text so far
	Result  engine.Result // result of the text, when it has ended
}

// slots are a model's slots. They differ only in what they remember: one KV cache serves all.
type slots struct {
	mu      sync.Mutex
	all     []Slot
	free    []int   // the slot that is free for longest first
	waiting []*wish // oldest first
	tasks   int
}

// wish is a request that waits for a slot.
type wish struct {
	slot  int // or AnySlot
	given chan int
}

func newSlots(n int) *slots {
	s := &slots{all: make([]Slot, n)}
	for i := range n {
		s.free = append(s.free, i)
	}
	return s
}

// take waits for the requested slot or, if that is AnySlot, for the slot that is free for longest. give must follow.
func (s *slots) take(ctx context.Context, slot int) (int, error) {
	s.mu.Lock()
	if at := slices.IndexFunc(s.free, func(i int) bool { return slot == AnySlot || slot == i }); at >= 0 {
		defer s.mu.Unlock()
		slot = s.free[at]
		s.free = slices.Delete(s.free, at, at+1)
		s.all[slot].Busy = true
		return slot, nil
	}
	w := &wish{slot, make(chan int, 1)}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case slot = <-w.given:
		return slot, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.waiting = slices.DeleteFunc(s.waiting, func(o *wish) bool { return o == w })
	s.mu.Unlock()
	select {
	case slot = <-w.given: // just before
		s.give(slot)
	default:
	}
	return 0, context.Cause(ctx)
}

// give gives a slot back, to whoever waits for it longest.
func (s *slots) give(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.waiting, func(w *wish) bool { return w.slot == AnySlot || w.slot == slot })
	if at >= 0 {
		w := s.waiting[at]
		s.waiting = slices.Delete(s.waiting, at, at+1)
		w.given <- slot
		return
	}
	s.all[slot].Busy = false
	s.free = append(s.free, slot)
}

// change changes what a slot remembers.
func (s *slots) change(slot int, f func(*Slot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.all[slot])
}

// begin notes that a text is generated in a slot; g may be nil.
func (s *slots) begin(slot int, g *Generation) {
	if g != nil { // the slot keeps what was asked, without what belongs to the request
		asked := *g
		asked.Constrain, asked.ctx, asked.shown = nil, nil, nil
		g = &asked
	}
	s.change(slot, func(p *Slot) {
		s.tasks++
		p.Task, p.Request, p.Decoded, p.Result = s.tasks, g, 0, engine.Result{}
	})
}

// SlotStates returns what the slots do.
func (m *Model) SlotStates() []Slot {
	m.slots.mu.Lock()
	defer m.slots.mu.Unlock()
	return slices.Clone(m.slots.all)
}

// SaveSlot writes the keys and values of the last text of a slot to a file in the folder of saved slots, when the slot
// is free.
func (m *Model) SaveSlot(ctx context.Context, slot int, name string) (s engine.Saved, err error) {
	err = m.withSlot(ctx, slot, name, func(path string) error {
		tokens := m.SlotStates()[slot].Tokens
		if len(tokens) == 0 {
			return Invalid("slot %d has no text to save, or one with pictures, which cannot be saved: generate another with id_slot %d", slot, slot)
		}
		s, err = m.Engine.SaveFile(ctx, path, tokens, 0)
		switch {
		case errors.Is(err, engine.ErrNotCached):
			return Invalid("slot %d cannot be saved: other texts needed the room of its text in the KV cache", slot)
		case errors.Is(err, atomicfile.ErrForeign):
			return Invalid("slot %d cannot be saved: %s", slot, About(path, err))
		}
		return err
	})
	return s, err
}

// RestoreSlot reads what SaveSlot wrote, for the next request that begins with that text, in any slot.
func (m *Model) RestoreSlot(ctx context.Context, slot int, name string) (s engine.Saved, err error) {
	err = m.withSlot(ctx, slot, name, func(path string) error {
		s, err = m.Engine.RestoreFile(ctx, path)
		switch {
		case err == nil:
			m.slots.change(slot, func(p *Slot) { p.Tokens = s.Tokens })
			return nil
		case errors.Is(err, fs.ErrNotExist):
			return Invalid("there is no saved slot %q", name)
		case errors.Is(err, engine.ErrNoRoom):
			return Unavailable("%s", engine.ErrNoRoom)
		case ctx.Err() != nil || errors.Is(err, engine.ErrClosed):
			return err
		}
		return Invalid("slot %d cannot be restored: %s", slot, About(path, err))
	})
	return s, err
}

// EraseSlot removes the last text of a slot, and its keys and values except those that other texts share. It returns
// how many tokens it had.
func (m *Model) EraseSlot(ctx context.Context, slot int) (n int, err error) {
	err = m.withSlot(ctx, slot, "erased", func(string) error {
		var tokens []int32
		m.slots.change(slot, func(p *Slot) { tokens, p.Tokens = p.Tokens, nil })
		n = len(tokens)
		return m.Engine.Erase(tokens)
	})
	return n, err
}

// maxSlotFile is the largest length of a saved slot's name, in bytes: file systems' limit, less what a temporary name
// adds.
const maxSlotFile = 200

// withSlot calls do with the path of a saved slot while nothing else is done in the slot.
func (m *Model) withSlot(ctx context.Context, slot int, name string, do func(path string) error) error {
	switch {
	case m.SlotPath == "":
		return NotSupported("slots are not saved, restored or erased here: start the server with --slot-save-path DIR")
	case slot < 0 || slot >= m.Slots:
		return Invalid("there is no slot %d; there are %d", slot, m.Slots)
	case name == "" || len(name) > maxSlotFile || strings.ContainsAny(name[:1], ".-") || strings.ContainsAny(name, `/\:`) ||
		strings.ContainsFunc(name, unicode.IsControl) || !filepath.IsLocal(name):
		return Invalid("the field filename is not a plain name of at most %d bytes, without a folder and control characters and not beginning with a dot or a dash", maxSlotFile)
	}
	if err := m.enter(1); err != nil {
		return err
	}
	defer m.waiting.Add(-1)
	if _, err := m.slots.take(ctx, slot); err != nil {
		return err
	}
	defer m.slots.give(slot)
	path := filepath.Join(m.SlotPath, name)
	return About(path, do(path))
}
