package vulkan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TestPipelineCache: compiled pipelines outlive the process; a damaged file is as good as none, and is replaced.
func TestPipelineCache(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made", "when needed")
	var file string
	use := func(damage func(file string)) (found int) {
		t.Helper()
		if damage != nil {
			damage(file)
		}
		d, messages := software(t, Options{Cache: folder})
		file = d.pipelines.File()
		found = len(d.pipelines.Read())
		x := tensorOf(t, d, 1, 8)
		if err := d.Run(compute.Segment{Name: "add", Rows: 1}, &compute.Params{}, func(v compute.Verbs) { v.Add(x, x) }); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		messages.check(t)
		return found
	}
	if found := use(nil); found != 0 {
		t.Errorf("%d bytes in a new folder", found)
	}
	if use(nil) == 0 {
		t.Fatal("nothing was kept")
	}
	edit := func(f func(data []byte) []byte) func(string) {
		return func(file string) {
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, f(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, damage := range map[string]func(string){
		"cut":     edit(func(d []byte) []byte { return d[:len(d)-1] }),
		"flipped": edit(func(d []byte) []byte { d[len(d)/2] ^= 1; return d }),
		"empty":   edit(func([]byte) []byte { return nil }),
		"short":   edit(func(d []byte) []byte { return d[:10] }),
		"absent":  func(file string) { _ = os.Remove(file) },
	} {
		if found := use(damage); found != 0 {
			t.Errorf("%s: %d bytes were believed", name, found)
		}
		if found := use(nil); found == 0 {
			t.Errorf("%s: the file was not replaced", name)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(file) {
		t.Errorf("the folder holds %v: %v", left, err)
	}
}
