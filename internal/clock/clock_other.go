//go:build !windows

package clock

import "time"

var began = time.Now()

// Now is the time since some moment of this process, never less than before.
func Now() time.Duration { return time.Since(began) }
