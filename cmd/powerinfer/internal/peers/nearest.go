package peers

// Nearest returns the one of names that differs from name by a slip of one or two letters; "" if there is none.
func Nearest(name string, names []string) string {
	most := 2
	if len(name) < 5 {
		most = 1
	}
	best := ""
	for _, n := range names {
		if len(n) < 3 {
			continue // nearly everything is near to a short name
		}
		if d := distance(name, n); d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// distance returns the number of letters to insert, delete, replace, or swap with a neighbour to turn a into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case x[i-1] == y[j-1]:
				rows[i][j] = rows[i-1][j-1]
				continue
			}
			rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(x)][len(y)]
}

// DidYouMean returns a question about suggestion for the end of a sentence; "" without a suggestion.
func DidYouMean(suggestion string) string {
	if suggestion == "" {
		return ""
	}
	return " (did you mean " + suggestion + "?)"
}
