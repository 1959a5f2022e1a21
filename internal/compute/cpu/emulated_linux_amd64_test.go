package cpu

import (
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
	said, status, err := emulate.Rerun(t.TempDir(), emulated+"=1", "-test.run=^TestEmulatedMatrixUnit$/^(Experts|Attention)$/^(shapes|heads_of_20|parts_of_70)", "-test.short", "-test.v")
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"Experts", "Attention"} {
		if status != 0 || !strings.Contains(said, "--- PASS: TestEmulatedMatrixUnit/"+verb) {
			t.Fatalf("status %d\n%s", status, said)
		}
	}
	t.Logf("%s", said)
}
