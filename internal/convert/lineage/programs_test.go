package lineage_test

import (
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/family"
)

// TestNames holds that every family is a program, and no other name is one, and that draft models are draft programs. The traces of internal/model hold each to
// what it computes.
func TestNames(t *testing.T) {
	var want []string
	for _, f := range lineage.All() {
		want = append(want, f.Name)
	}
	slices.Sort(want)
	if got := family.Names(); !slices.Equal(got, want) {
		t.Errorf("programs are %s, not %s", got, want)
	}
	for _, f := range lineage.Drafting() {
		if !family.IsDraft(f.Name) {
			t.Errorf("%s is no draft program", f.Name)
		}
	}
}
