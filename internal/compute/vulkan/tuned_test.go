package vulkan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestTunedFile: what was found is found again, unless the file is damaged or of other shaders.
func TestTunedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "products.json")
	loadTuned(path).keep("a", "b")
	if again := loadTuned(path); again.Found["a"] != "b" {
		t.Errorf("%+v", again)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, changed := range map[string]string{"damaged": string(data[:len(data)/2]), "other shaders": strings.Replace(string(data), loadTuned("").Shaders, "0", 1), "null": "null"} {
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		if again := loadTuned(path); len(again.Found) != 0 || again.Found == nil || again.path != path {
			t.Errorf("%s: %+v", name, again)
		}
	}
}

// TestTimedShape: no product that is timed takes more memory than it may, whatever it stands for.
func TestTimedShape(t *testing.T) {
	for _, rows := range []int{1, 64, 4096, 151936, 1 << 24} {
		for _, n := range []int{1, 65, 512, 1 << 20} {
			r, m := timedShape(rows, n)
			if r < 1 || r > rows || m < matTile || m%matTile != 0 || m > ceil(n, matTile)*matTile || r*m > timedOutputs {
				t.Errorf("%d rows and %d tokens are timed as %d and %d", rows, n, r, m)
			}
		}
	}
}

// TestTuned: the first product of a shape is timed and its fastest variant kept; a later device of the same GPU takes
// what is kept, an arithmetic as well, and leaves nothing in use.
func TestTuned(t *testing.T) {
	testenv.Thorough(t)
	folder := t.TempDir()
	d, messages := software(t, Options{Cache: folder})
	defer messages.check(t)
	d.long.timed = true
	v := d.variant(Mixed, quant.F16, 70, 30)
	kept := loadTuned(d.pipelines.Beside("products", ".json"))
	if len(kept.Found) != 1 || kept.Found["F16 70×64 "+Mixed.String()] != v.String() {
		t.Errorf("%s; kept is %v", v, kept.Found)
	}
	if d.Used() != 0 {
		t.Errorf("%d bytes are in use", d.Used())
	}
	for of := range kept.Found { // the other one
		for _, other := range d.variants(Mixed) {
			if other != v {
				kept.keep(of, other.String())
			}
		}
	}
	kept.keep(quant.F16.String(), Mixed.String())
	kept.keep(quant.Q4_0.String(), Ordered.String())
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, messages = software(t, Options{Cache: folder})
	defer messages.check(t)
	defer d.Close()
	if again := d.variant(Mixed, quant.F16, 70, 33); again == v || again.by != Mixed {
		t.Errorf("%s was kept, and now it is %s", v, again)
	}
	if a := d.arithmetic(quant.F16); a != Mixed {
		t.Errorf("F16 goes by %s", a)
	}
	if a := d.arithmetic(quant.Q4_0); a != Ordered {
		t.Errorf("Q4_0 goes by %s", a)
	}
}
