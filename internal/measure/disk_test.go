package measure

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/disk"
)

// What was measured of a disk is kept for all paths on it, once.
func TestDisksAreKept(t *testing.T) {
	folder := t.TempDir()
	kept := filepath.Join(folder, "sub", "disks.json")
	device, err := disk.Device(folder)
	if err != nil {
		t.Fatal(err)
	}
	speeds := disk.Speeds{{Bytes: 4096, Depth: 8, Read: 2e8}}
	want := Disk{Device: device, Path: folder, At: time.Now().UTC(), Speeds: speeds}
	if err := writeDisks(kept, []Disk{{Device: "another", Path: "/", At: time.Now(), Speeds: speeds}, want}); err != nil {
		t.Fatal(err)
	}
	got, err := DiskOf(t.Context(), kept, kept, nil)
	if err != nil || got.Path != want.Path || !got.At.Equal(want.At) || len(got.Speeds) != 1 || got.Speeds[0] != speeds[0] {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := DiskOf(t.Context(), kept, filepath.Join(folder, "missing"), nil); err == nil {
		t.Error("a file that is not there has a disk")
	}
	for _, bad := range []string{"{", `[{"device":"` + device + `","path":"x"}]`, `[{"device":"` + device + `","speeds":[{"bytes":1,"depth":1,"read":-1}]}]`} {
		if err := os.WriteFile(kept, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if d, ok := KeptDisk(kept, folder); ok {
			t.Errorf("%s: %+v", bad, d)
		}
	}
}
