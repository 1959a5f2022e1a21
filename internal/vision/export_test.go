package vision

// Occupy has the tower compute for somebody else until what is returned is called.
func (t *Tower) Occupy() (end func()) {
	t.turn <- struct{}{}
	return func() { <-t.turn }
}
