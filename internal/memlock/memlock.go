// Package memlock keeps memory out of swap.
package memlock

import (
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Lock keeps b resident until it is unmapped. The error says what the user can do.
func Lock(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := lock(b); err != nil {
		return setting.Errorf("%s: %d MiB: %w; %s or leave %s out", setting.Lock, len(b)>>20, err, remedy, setting.Lock)
	}
	return nil
}
