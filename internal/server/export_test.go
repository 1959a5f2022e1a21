package server

// BoundBodies bounds the bytes of all bodies that s holds at a time.
func (s *Server) BoundBodies(n int64) { s.mostHeld = n }
