package cpu

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/emulate"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/compute/devicetest"
	xcpu "golang.org/x/sys/cpu"
)

// emulated says, in a program's environment, that AMX is emulated.
const emulated = "POWERINFER_TEST_EMULATED"

// TestEmulatedMatrixUnit holds the operations that go by tiles to the scalar device where AMX is emulated.
func TestEmulatedMatrixUnit(t *testing.T) {
	if os.Getenv(emulated) != "" {
		open := func(t *testing.T) compute.Device {
			t.Helper()
			d, err := New(Options{Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			d.k = kernel.AMX()
			return d
		}
		devicetest.Promise{Bfloats: true}.Run(t, devicetest.Family{open})
		return
	}
	if !xcpu.X86.HasAVX512BF16 {
		t.Skip("this processor lacks AVX-512 BF16, which is not emulated")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	status, err := emulate.Run([]string{program, "-test.run=^TestEmulatedMatrixUnit$/^Experts$/^(shapes|mixed)$", "-test.short", "-test.v"}, append(os.Environ(), emulated+"=1"), out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if status != 0 || !strings.Contains(string(said), "--- PASS: TestEmulatedMatrixUnit/Experts") {
		t.Fatalf("status %d\n%s", status, said)
	}
	t.Logf("%s", said)
}
