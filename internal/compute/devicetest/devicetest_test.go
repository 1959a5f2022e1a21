package devicetest

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
)

// TestScalarDevice plays every script on the device that defines it: scripts are sound, and the definition itself gives the same
// bytes for any company.
func TestScalarDevice(t *testing.T) {
	Run(t, func(*testing.T) compute.Device { return ref.New() })
}
