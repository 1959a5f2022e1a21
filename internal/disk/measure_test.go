package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is measured covers all sizes, and is read as a Reader reads.
func TestMeasure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Measure(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("an empty file: %v", err)
	}
	if err := os.Truncate(path, LeastMeasured); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	last := int64(0)
	s, err := measure(t.Context(), f, time.Microsecond, time.Microsecond, func(done, total int64) {
		if done < last || done > total {
			t.Errorf("%d of %d are done after %d", done, total, last)
		}
		last = done
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range measuredSizes {
		if !slices.ContainsFunc(s, func(v Speed) bool { return v.Bytes == size && v.Depth == 1 && !v.InOrder }) {
			t.Errorf("pieces of %d bytes were not measured", size)
		}
	}
	if s.InOrder() <= 0 || s.At(4096) <= 0 {
		t.Errorf("%+v", s)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(gone, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled measurement: %v", err)
	}
	if _, err := Measure(gone, filepath.Dir(path), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled measurement: %v", err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("%v: %d files are left, want 1", err, len(list))
	}
}
