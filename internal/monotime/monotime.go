// Package monotime is a clock that is fine enough to measure with. On Windows package time follows the timer interrupt,
// half a millisecond to sixteen between two readings: a token took no time, and memory seemed twice as fast as it is.
package monotime

import "time"

// Since returns the time since an earlier reading of Now.
func Since(begin time.Duration) time.Duration { return Now() - begin }
