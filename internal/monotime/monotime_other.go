//go:build !windows

package monotime

import "time"

var began = time.Now()

// Now returns the time since some moment of this process, never less than before.
func Now() time.Duration { return time.Since(began) }
