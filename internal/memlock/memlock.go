// Package memlock keeps memory out of swap.
package memlock

import "fmt"

// Lock keeps b resident until it is unmapped. The error says what the user of --mlock can do.
func Lock(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := lock(b); err != nil {
		return fmt.Errorf("--mlock: %d MiB: %w; %s or leave --mlock out", len(b)>>20, err, remedy)
	}
	return nil
}
