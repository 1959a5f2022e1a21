package server

import "context"

// BoundBodies bounds the bytes of all bodies that s holds at a time.
func (s *Server) BoundBodies(n int64) { s.mostHeld = n }

// HeldBodies returns the bytes of the bodies that s holds.
func (s *Server) HeldBodies() int64 { return s.held.Load() }

// BeginCompiling has a client take a turn at compiling, as a request does, until what is returned is called.
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
