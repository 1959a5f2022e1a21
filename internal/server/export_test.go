package server

// BoundBodies bounds the bytes of all bodies that s holds at a time.
func (s *Server) BoundBodies(n int64) { s.mostHeld = n }

// HeldBodies returns the bytes of the bodies that s holds.
func (s *Server) HeldBodies() int64 { return s.held.Load() }
