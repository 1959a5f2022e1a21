package vulkan

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestChooseAll: a list means its devices in its order, an empty one every GPU, once each, whatever drivers show it.
func TestChooseAll(t *testing.T) {
	all := []Info{
		{Index: 0, Name: "llvmpipe (LLVM 15, 256 bits)", Kind: CPU, Memory: 99 << 30},
		{Index: 1, Name: "Vendor UHD 770", Kind: Integrated, Memory: 60 << 30, UUID: "01"},
		{Index: 2, Name: "Maker RX 10", Kind: Discrete, Memory: 12 << 30, UUID: "02"},
		{Index: 3, Name: "Maker RX 20", Kind: Discrete, Memory: 24 << 30, UUID: "03"},
		{Index: 4, Name: "Maker RX 20 (another driver)", Kind: Discrete, Memory: 24 << 30, UUID: "03"},
		{Index: 5, Name: "Old GPU", Kind: Discrete, Memory: 48 << 30, UUID: "05", Lacks: "has a driver older than Vulkan 1.2"},
	}
	for _, c := range []struct {
		from  []Info
		list  string
		want  []int
		fault string // part of the error
		none  bool   // it is ErrNone
	}{
		{all, "", []int{2, 3}, "", false},
		{all[:2], "", []int{1}, "", false},
		{all[:1], "", nil, "software", true},
		{all, "3", []int{3}, "", false},
		{all, "3,2", []int{3, 2}, "", false},
		{all, "rx 10, 1", []int{2, 1}, "", false},
		{all, "LLVM 15, 256 bits", []int{0}, "", false},
		{all, "lavapipe,lavapipe", []int{0, 0}, "", false},
		{all, "lavapipe,3", []int{0, 3}, "", false},
		{all, "3,3", nil, "is twice", false},
		{all, "3,4", nil, "is twice", false},
		{all, "3,", nil, "a name is missing", false},
		{all, ",", nil, "a name is missing", false},
		{all, ", ", nil, "a name is missing", false},
		{all, "3,none", nil, `no device is called "none"`, false},
		{all, "2,5", nil, "older than Vulkan 1.2", false},
	} {
		got, err := ChooseAll(c.from, c.list)
		if (c.fault != "") != (err != nil) || err != nil && (!strings.Contains(err.Error(), c.fault) || errors.Is(err, ErrNone) != c.none || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: error %v, want one with %q", c.list, err, c.fault)
		}
		var indices []int
		for _, d := range got {
			indices = append(indices, d.Index)
		}
		if !slices.Equal(indices, c.want) {
			t.Errorf("%q means devices %v, want %v", c.list, indices, c.want)
		}
	}
}
