package vision

// Occupy makes the tower compute for another request until end is called.
func (t *Tower) Occupy() (end func()) {
	t.turn <- struct{}{}
	return func() { <-t.turn }
}
