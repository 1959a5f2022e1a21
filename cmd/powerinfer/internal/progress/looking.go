package progress

// Looking returns a function for Generation.Looking that shows a bar.
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
