// Package hw detects the machine's CPU, cores and memory.
package hw

import (
	"runtime"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/cpu"
)

// CPU describes the CPU as this process sees it. Counts are at least 1; cache sizes are bytes, of one core for L1d and
// L2 and of one shared slice for L3; 0 is unknown.
type CPU struct {
	Name          string
	PhysicalCores int // of the machine
	LogicalCores  int // of the machine: hardware threads
	Usable        int // physical cores that affinity mask and cgroup quota leave to this process
	L1d, L2, L3   int
	L3All         int // bytes of all slices together; L3 if their number is unknown
	Features
}

// Features are instruction sets that both CPU and operating system support. Those of another architecture are false.
type Features struct {
	// amd64
	AVX2, FMA, F16C bool
	AVX512          bool // F, BW, VL and DQ
	VNNI            bool // AVX512_VNNI with VL
	AVXVNNI         bool // the VEX form, without AVX-512
	AVX512BF16      bool
	AMXInt8         bool // AMX-TILE with AMX-INT8

	// arm64
	NEON    bool
	FP16    bool // half-precision arithmetic
	DotProd bool // SDOT, UDOT
	I8MM    bool // SMMLA
	BF16    bool // BFDOT, BFMMLA
	SVE     bool
}

// topology is the operating system's description of the cores, or zero.
type topology struct {
	name                      string
	physical, logical, usable int
	l1d, l2, l3               int
	l3Slices                  int
}

// Detect describes the CPU. It never fails: unknown values are zero, and cores fall back to runtime.NumCPU.
func Detect() CPU {
	t := readTopology()
	logical := first(t.logical, runtime.NumCPU())
	c := CPU{
		Name:          t.name,
		LogicalCores:  logical,
		PhysicalCores: min(first(t.physical, cpuid.CPU.PhysicalCores, logical), logical),
		L1d:           first(t.l1d, cpuid.CPU.Cache.L1D),
		L2:            first(t.l2, cpuid.CPU.Cache.L2),
		L3:            first(t.l3, cpuid.CPU.Cache.L3),
		Features:      DetectFeatures(),
	}
	c.L3All = c.L3 * max(1, t.l3Slices)
	if cpuid.CPU.BrandName != "" {
		c.Name = cpuid.CPU.BrandName
	}
	if c.Name == "" {
		c.Name = runtime.GOARCH
	}
	c.Usable = min(first(t.usable, runtime.NumCPU()), c.PhysicalCores)
	return c
}

// first returns the first known, that is positive, value.
func first(values ...int) int {
	for _, v := range values {
		if v > 0 {
			return v
		}
	}
	return 0
}

// DetectFeatures returns the instruction sets that both CPU and operating system support.
func DetectFeatures() Features {
	x, a := &cpu.X86, &cpu.ARM64
	i8mm, bf16 := systemExtensions()
	avx512 := x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ
	return Features{
		AVX2: x.HasAVX2, FMA: x.HasFMA, F16C: x.HasF16C,
		AVX512:     avx512,
		VNNI:       avx512 && x.HasAVX512VNNI,
		AVXVNNI:    x.HasAVXVNNI,
		AVX512BF16: avx512 && x.HasAVX512BF16,
		AMXInt8:    x.HasAMXTile && x.HasAMXInt8,
		NEON:       a.HasASIMD,
		FP16:       a.HasASIMDHP,
		DotProd:    a.HasASIMDDP,
		I8MM:       a.HasI8MM || i8mm,
		BF16:       bf16,
		SVE:        a.HasSVE,
	}
}
