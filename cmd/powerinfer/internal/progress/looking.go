package progress

// Looking shows how much of a prompt's pictures is computed, as Generation.Looking is told.
func Looking() func(done, total int) {
	bar := New("looking at the pictures", Time)
	return func(done, total int) {
		if done == total {
			bar.Finish()
			return
		}
		bar.Count(done, total)
	}
}
