package diagnosis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/measure/measuretest"
)

// TestDetails: every measured figure is printed, and no other.
func TestDetails(t *testing.T) {
	m := measuretest.Machine(nil)
	var out strings.Builder
	Details(&out, &m)
	if text := out.String(); !strings.Contains(text, "RAM, GB/s read:") || strings.Contains(text, "Disk, GB/s") {
		t.Errorf("a machine without a disk:\n%s", text)
	}
	m.Disks = []measure.Disk{{Path: "a file", At: time.Unix(1000, 0), Busy: 1, Speeds: disk.Speeds{{Bytes: 8 << 10, Depth: 4, Read: 1e9}, {Bytes: 1 << 20, Depth: 4, Read: 2e9}}}}
	out.Reset()
	Details(&out, &m)
	for _, want := range []string{"8 KiB", "1 MiB", "1.000", "2.000", "with a file", "doubtful: other programs were busy with 1 task"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestGPUs: without a GPU the reason is printed.
func TestGPUs(t *testing.T) {
	m := measuretest.Machine(nil)
	var out strings.Builder
	GPUs(&out, &m, errors.New("no driver"), false)
	if want := "graphics: no driver; models are computed on the CPU\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
