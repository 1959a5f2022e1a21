package main

import (
	"fmt"
	"slices"
	"strings"
)

// results holds the figures of all runs by number of clients and server, one for each round.
type results map[int]map[string][]seen

func (r results) add(clients int, server string, s seen) {
	if r[clients] == nil {
		r[clients] = map[string][]seen{}
	}
	r[clients][server] = append(r[clients][server], s)
}

// figures are a table's figures. Greater is better.
var figures = []struct {
	name string
	of   func(s seen) float64
	more bool // a greater figure is better
}{
	{"tokens/s", func(s seen) float64 { return s.rate }, true},
	{"first token, ms", func(s seen) float64 { return s.first.Seconds() * 1000 }, false},
	{"95 % of gaps, ms", func(s seen) float64 { return s.gap.Seconds() * 1000 }, false},
}

// table returns medians with their range, and how many times as good the first server is as the others, within rounds.
func (r results) table(servers []server, clients []int) string {
	var b strings.Builder
	b.WriteString("| clients | |")
	for _, s := range servers {
		fmt.Fprintf(&b, " %s |", s.name)
	}
	for _, s := range servers[1:] {
		fmt.Fprintf(&b, " %s / %s |", servers[0].name, s.name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 1+2*len(servers)) + "\n")
	for _, n := range clients {
		for _, f := range figures {
			fmt.Fprintf(&b, "| %d | %s |", n, f.name)
			column := func(name string) (x []float64) {
				for _, s := range r[n][name] {
					x = append(x, f.of(s))
				}
				return x
			}
			first := column(servers[0].name)
			for _, s := range servers {
				fmt.Fprintf(&b, " %s |", spread(column(s.name), 1))
			}
			for _, s := range servers[1:] {
				ratios := column(s.name)
				for i, x := range ratios {
					if ratios[i] = x / first[i]; f.more {
						ratios[i] = first[i] / x
					}
				}
				fmt.Fprintf(&b, " %s |", spread(ratios, 2))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// spread returns the median of x and its range.
func spread(x []float64, digits int) string {
	if len(x) == 0 {
		return "–"
	}
	x = slices.Sorted(slices.Values(x))
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, (x[(len(x)-1)/2]+x[len(x)/2])/2, digits, x[0], digits, x[len(x)-1])
}
