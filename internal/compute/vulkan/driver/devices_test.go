package driver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// TestFamilies: the flags of families of queues as drivers list them.
func TestFamilies(t *testing.T) {
	const graphics, video = 0x1, 0x20
	for name, c := range map[string]struct {
		flags []uint32
		want  []uint32
	}{
		"NVIDIA":                     {[]uint32{graphics | 0xe, 0xc, 0xe, video | 0xc}, []uint32{0, 1}},
		"NVIDIA, video first":        {[]uint32{graphics | 0xe, video | 0xc, 0xc}, []uint32{0, 2}},
		"AMD":                        {[]uint32{graphics | 0xe, 0xe, 0xc}, []uint32{0, 2}},
		"Intel, video alone":         {[]uint32{graphics | 0x6, video | 0x4}, []uint32{0}},
		"lavapipe":                   {[]uint32{graphics | 0x6}, []uint32{0}},
		"copies first":               {[]uint32{0x4, 0x6}, []uint32{1, 0}},
		"copies in protected memory": {[]uint32{0x6, 0x1c}, []uint32{0, 1}},
		"nothing computes":           {[]uint32{0x4, graphics}, nil},
	} {
		var all []vk.QueueFamilyProperties
		for _, f := range c.flags {
			all = append(all, vk.QueueFamilyProperties{QueueFlags: f})
		}
		if got := families(all); !slices.Equal(got, c.want) {
			t.Errorf("%s: families %v, want %v", name, got, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	all := []Info{
		{Index: 0, Name: "llvmpipe (LLVM 15)", Kind: CPU, Memory: 99 << 30},
		{Index: 1, Name: "Vendor UHD 770", Kind: Integrated, Memory: 60 << 30},
		{Index: 2, Name: "Maker RX 10", Kind: Discrete, Memory: 12 << 30},
		{Index: 3, Name: "Maker RX 20", Kind: Discrete, Memory: 24 << 30},
		{Index: 4, Name: "Old GPU", Kind: Discrete, Memory: 48 << 30, Lacks: "has a driver older than Vulkan 1.2"},
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
		{all, "old GPU", 0, "cannot be used", false},
		{all, "7", 0, `no device is called "7"; there are: 0 (llvmpipe (LLVM 15)), 1`, false},
		{all[:2], "", 1, "", false},
		{all[:1], "", 0, "software", true},
		{all[4:], "", 0, "Old GPU has a driver", true},
	} {
		got, err := Choose(c.from, c.name)
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

// TestWorkgroupMatrices: a workgroup multiplies multiples of a shape of its own size, up to the largest matrix.
func TestWorkgroupMatrices(t *testing.T) {
	w := &WorkgroupMatrices{Most: 256, Shapes: []WorkgroupShape{{64, 16, 16, 128}, {32, 32, 32, 256}}}
	for _, c := range []struct {
		m, n, k, invocations int
		want                 bool
	}{
		{64, 64, 64, 128, true},
		{64, 16, 16, 256, false}, // a multiple of the other one's
		{32, 64, 64, 128, false},
		{128, 256, 64, 256, true},
		{128, 512, 64, 256, false},
		{128, 256, 64, 512, false},
	} {
		if got := w.Multiplies(c.m, c.n, c.k, c.invocations); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if new(WorkgroupMatrices).Multiplies(64, 64, 64, 128) {
		t.Error("a device without them multiplies")
	}
}
