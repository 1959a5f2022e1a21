package vulkan

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

func TestChoose(t *testing.T) {
	all := []Info{
		{Index: 0, Name: "llvmpipe (LLVM 15)", Kind: CPU, Memory: 99 << 30},
		{Index: 1, Name: "Vendor UHD 770", Kind: Integrated, Memory: 60 << 30},
		{Index: 2, Name: "Maker RX 10", Kind: Discrete, Memory: 12 << 30},
		{Index: 3, Name: "Maker RX 20", Kind: Discrete, Memory: 24 << 30},
		{Index: 4, Name: "Old Card", Kind: Discrete, Memory: 48 << 30, Lacks: "has a driver older than Vulkan 1.2"},
	}
	for _, c := range []struct {
		from  []Info
		name  string
		want  int
		fault string // part of the error
		none  bool   // it is ErrNone
	}{
		{all, "", 3, "", false},
		{all, "1", 1, "", false},
		{all, "rx 10", 2, "", false},
		{all, "Maker", 2, "", false},
		{all, "lavapipe", 0, "", false},
		{all, "LLVMPIPE", 0, "", false},
		{all, "4", 0, "older than Vulkan 1.2", false},
		{all, "old card", 0, "cannot be used", false},
		{all, "7", 0, `no device is called "7"; there are: 0 (llvmpipe (LLVM 15)), 1`, false},
		{all[:2], "", 1, "", false},
		{all[:1], "", 0, "software", true},
		{all[4:], "", 0, "Old Card has a driver", true},
	} {
		got, err := choose(c.from, c.name)
		if (c.fault != "") != (err != nil) || err != nil && (!strings.Contains(err.Error(), c.fault) || errors.Is(err, ErrNone) != c.none) {
			t.Errorf("%q: error %v, want one with %q", c.name, err, c.fault)
		}
		if err == nil && got != c.want {
			t.Errorf("%q means device %d, want %d", c.name, got, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error has more than one line: %v", c.name, err)
		}
	}
}

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

// TestNoDriver: a machine whose loader finds no driver has no GPU, which is no failure. The loader reads its environment as C has it, so
// the test runs in a process of its own.
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
