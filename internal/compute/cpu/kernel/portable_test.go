//go:build linux && amd64

package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestPortable runs this package's tests as an arm64 program under an emulator: the definitions must hold with a
// processor's own rounding of fused operations, and the kernels for ARMv8 must have their bits. One processor has all
// instructions; of the others, which lack some, the products are computed.
func TestPortable(t *testing.T) {
	testenv.Thorough(t)
	emulator, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		if emulator, err = exec.LookPath("qemu-aarch64-static"); err != nil {
			testenv.Missing(t, "qemu", "no qemu-aarch64; on Debian: apt-get install qemu-user")
		}
	}
	bin := filepath.Join(t.TempDir(), "kernel.test")
	build := exec.Command("go", "test", "-c", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", bin, ".") // shares what scripts/cross.sh compiles
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	most := "^(TestMatMul|TestPackRowByKernels|TestGroupSums|.*Extremes)$" // products of every type, without attention
	if testenv.Exhaustive(t) {
		most = "."
	}
	for _, c := range []struct{ processor, tests string }{{"max", most}, {"cortex-a53", "Extremes$"}, {"cortex-a76", "Extremes$"}} {
		run := exec.Command(emulator, bin, "-test.short", "-test.run", c.tests)
		run.Env = append(os.Environ(), "QEMU_CPU="+c.processor)
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c.processor, err, out)
		}
	}
}
