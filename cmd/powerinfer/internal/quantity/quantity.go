// Package quantity writes numbers as people read them: "2 tokens", "7.2B", "about 10s".
package quantity

import (
	"fmt"
	"time"
)

// Of returns "1 token" or "2 tokens".
func Of(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// GiB returns bytes in GiB.
func GiB[T int64 | uint64](n T) float64 { return float64(n) / (1 << 30) }

// MiB returns bytes in MiB.
func MiB(n int64) float64 { return float64(n) / (1 << 20) }

// Kilobytes returns bytes in kB, with the unit.
func Kilobytes(b float64) string { return fmt.Sprintf("%.1f kB", b/1000) }

// Parameters returns a number of parameters as in models' names: 7.2B, 135M.
func Parameters(n int64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"T", 1e12}, {"B", 1e9}, {"M", 1e6}, {"K", 1e3}} {
		if v := float64(n) / u.size; v >= 1 {
			return fmt.Sprintf("%.3g%s", v, u.name)
		}
	}
	return fmt.Sprint(n)
}

// Rounded returns an estimate with at most two significant digits.
func Rounded(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", 10*float64(int(v/10)))
	}
	return fmt.Sprintf("%.2g", v)
}

// Time returns d in steps that a person would use.
func Time(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Second:
		return max(d, time.Second).Round(time.Second)
	case d < 10*time.Minute:
		return d.Round(10 * time.Second)
	}
	return d.Round(time.Minute)
}

// TimeSpan returns the time between least and most in words, or one time if both round to the same.
func TimeSpan(least, most time.Duration) string {
	from, to := Time(least), Time(most)
	if from == to {
		return fmt.Sprintf("about %s", to)
	}
	return fmt.Sprintf("%s to %s", from, to)
}
