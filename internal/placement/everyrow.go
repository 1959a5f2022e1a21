package placement

// A GPU computes neurons in one of two ways. It reads only the rows that a token needs, or the gate and up rows of all
// neurons in order, which takes less time for each byte. Down columns are read of active neurons in both ways, and the
// results are the same.

// everyRow returns the bytes that are read of a unit, with all of its gate and up rows, if b bytes of it beyond Always
// are needed.
func (u *Units) everyRow(b float64) float64 {
	return float64(u.Rows) + float64(u.Size-u.Rows)*b/float64(u.Size-u.Always)
}

// step returns the seconds that a unit takes in a step of n tokens if each needs b bytes of it beyond Always: reading
// what they need, and reading every row. every is 0 if the processor does not do that.
func (u *Units) step(b float64, n int, s *Speeds) (needed, every float64) {
	read, further := b, 0.0
	if n > 1 {
		if whole := float64(u.Size - u.Always); whole > 0 {
			read = whole * AnyOf(b/whole, n)
		}
		further = float64(n-1) * s.Each
	}
	needed = u.seconds(read, s) + further*(float64(u.Always)+b)
	if u.Rows > 0 && s.EveryRow.Read > 0 {
		every = u.everyRow(read)/s.EveryRow.Read + further*u.everyRow(b)
	}
	return needed, every
}

// faster returns the time of units that take these sums of step's results, and reports whether every row is read.
func (s *Speeds) faster(u *Units, needed, every float64) (seconds float64, everyRow bool) {
	needed += s.units(u).Start
	if every += s.EveryRow.Start; u.Rows > 0 && s.EveryRow.Read > 0 && every < needed {
		return every, true
	}
	return needed, false
}

// mostTokens is the largest number of single tokens in a step for which everyRowFrom looks.
const mostTokens = 64

// everyRowFrom returns from how many tokens of a step on reading every row of k units is faster; 0: never. A token needs
// b bytes of all of them together beyond Always.
func (s *Speeds) everyRowFrom(u *Units, k int, b float64) int {
	if k == 0 || u.Rows == 0 || s.EveryRow.Read == 0 {
		return 0
	}
	for n := 2; n <= mostTokens; n++ {
		needed, every := u.step(b/float64(k), n, s)
		if _, faster := s.faster(u, float64(k)*needed, float64(k)*every); faster {
			return n
		}
	}
	return 0
}
