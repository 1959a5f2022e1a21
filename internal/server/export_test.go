package server

import "context"

// BoundMemory bounds the bytes that all requests of s take at a time.
func (s *Server) BoundMemory(n int64) { s.memory.most = n }

// TakenMemory returns the bytes that the requests of s take.
func (s *Server) TakenMemory() int64 {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return s.memory.taken
}

// BeginCompiling takes a turn at compiling for a client, until end is called.
func (m *Model) BeginCompiling(ctx context.Context, client string) (end func(), err error) {
	if err := m.grammars.turn.take(ctx, client); err != nil {
		return nil, err
	}
	return func() { m.grammars.turn.give(client) }, nil
}

// WaitToCompile returns how many wait for their turn at compiling.
func (m *Model) WaitToCompile() int {
	t := &m.grammars.turn
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// Compiled returns how many compiled grammars are kept.
func (m *Model) Compiled() int {
	m.grammars.mu.Lock()
	defer m.grammars.mu.Unlock()
	return len(m.grammars.all)
}
