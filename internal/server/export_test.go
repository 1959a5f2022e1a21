package server

// BoundMemory bounds the bytes that all requests of s take at a time.
func (s *Server) BoundMemory(n int64) { s.memory.most = n }

// TakenMemory returns the bytes that the requests of s take.
func (s *Server) TakenMemory() int64 {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return s.memory.taken
}
