package vulkan

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// TestSoftwareIsNamedOnly: where there is nothing but lavapipe, nobody gets it without asking.
func TestSoftwareIsNamedOnly(t *testing.T) {
	d, _ := software(t, Options{})
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if d.Info().Kind != CPU || d.Info().Memory <= 0 || d.Info().Free <= 0 {
		t.Errorf("lavapipe is described as %+v", d.Info())
	}
	all, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Kind != CPU {
			t.Skip("there is a GPU")
		}
	}
	if _, err := Open(Options{}); !errors.Is(err, ErrNone) {
		t.Errorf("without a name: error %v, want ErrNone", err)
	}
	if _, err := Open(Options{Device: None}); !errors.Is(err, ErrNone) {
		t.Errorf("by the name of none: error %v, want ErrNone", err)
	}
}

// child runs this test binary with some of its tests and more environment.
func child(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", env, err, out)
	}
}

// TestNoDriver: a machine with a loader that finds no driver has no GPU, which is no failure. The loader reads C's
// environment, so the test runs in its own process.
func TestNoDriver(t *testing.T) {
	const marked = "POWERINFER_TEST_NO_DRIVER"
	if os.Getenv(marked) == "" {
		d, _ := software(t, Options{})
		d.Close()
		child(t, []string{marked + "=1", "VK_ICD_FILENAMES=/nonexistent.json", "VK_DRIVER_FILES=/nonexistent.json"}, "-test.run=^TestNoDriver$")
		return
	}
	if _, err := Devices(); !errors.Is(err, ErrNone) || strings.Contains(err.Error(), "\n") {
		t.Errorf("devices: error %v, want ErrNone in a line", err)
	}
	if _, err := Open(Options{Device: Software}); !errors.Is(err, ErrNone) {
		t.Errorf("open: error %v, want ErrNone", err)
	}
}

// TestWithoutSupport: a binary built with -tags nogpu says so.
func TestWithoutSupport(t *testing.T) {
	if vk.Supported {
		t.Skip("built with GPU support")
	}
	if _, err := Open(Options{}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "built without GPU support") {
		t.Errorf("error %v", err)
	}
}
