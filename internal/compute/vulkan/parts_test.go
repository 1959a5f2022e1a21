package vulkan

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestBytes: a superblock of each quantised type takes what docs/vulkan.md says, in the file and in GPU memory, and
// what a GPU that counts says.
func TestBytes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/vulkan.md")
	if err != nil {
		t.Fatal(err)
	}
	type bytes struct{ file, memory int64 }
	told := map[quant.Type]bytes{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\w+) \| (\d+) \| (\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		typ, ok := quant.Named(m[1], quant.Types())
		if !ok {
			t.Errorf("docs/vulkan.md lists %s, which is no type", m[1])
		}
		file, _ := strconv.ParseInt(m[2], 10, 64)
		memory, _ := strconv.ParseInt(m[3], 10, 64)
		told[typ] = bytes{file, memory}
	}
	const rows = 32 // regions are aligned
	for _, typ := range quant.Types() {
		if !typ.Quantised() {
			continue
		}
		d := Counter(Info{Memory: 1 << 40, Free: 1 << 40})
		w, err := d.Matrix(compute.Source{Name: "w", Type: typ, Rows: rows, Cols: quant.QKK}, compute.Dense)
		if err != nil {
			t.Fatal(err)
		}
		if have := (bytes{int64(typ.RowBytes(quant.QKK)), mem(w).bytes() / rows}); have != told[typ] {
			t.Errorf("256 elements of %s take %+v, and docs/vulkan.md says %+v", typ, have, told[typ])
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
