package kernel

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"golang.org/x/sys/unix"
)

// BenchmarkRead measures how fast one thread reads memory (Max does next to nothing else), which bounds a decoded
// token's attention.
func BenchmarkRead(b *testing.B) {
	const n = 64 << 20
	x := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(bigWeights(b, 4*n)))), n)
	k := Variants()[0]
	b.SetBytes(int64(4 * len(x)))
	for b.Loop() {
		k.Max(x)
	}
}

// BenchmarkAttention: a decoded token's reads against memory (MB/s), a prompt's arithmetic (GFLOPS, in
// time that the thread had a processor). One thread.
func BenchmarkAttention(b *testing.B) {
	rng := testenv.Rand(b)
	for _, k := range Variants()[:1] {
		for _, c := range []struct {
			headDim, group, positions, tokens int
			t                                 compute.KVType
		}{
			{64, 8, 256, 1, compute.KVQ8_0},
			{128, 1, 256, 1, compute.KVQ8_0},
			{128, 4, 256, 1, compute.KVQ8_0},
			{128, 8, 256, 1, compute.KVQ8_0},
			{128, 8, 256, 1, compute.KVQ4_0},
			{64, 8, 1 << 17, 1, compute.KVQ8_0},
			{128, 1, 1 << 17, 1, compute.KVQ8_0},
			{128, 4, 1 << 17, 1, compute.KVQ8_0},
			{128, 4, 1 << 17, 1, compute.KVQ4_0},
			{128, 8, 1 << 17, 1, compute.KVQ8_0},
			{128, 8, 1 << 17, 1, compute.KVQ4_0},
			{64, 8, 256, 1, compute.KVF16},
			{128, 4, 1 << 17, 1, compute.KVBF16},
			{128, 4, 512, 12, compute.KVQ8_0},
			{128, 1, 256, 1, compute.KVF16},
			{128, 4, 256, 1, compute.KVF16},
			{128, 8, 256, 1, compute.KVF16},
			{128, 1, 1 << 17, 1, compute.KVF16},
			{128, 4, 1 << 17, 1, compute.KVF16},
			{128, 8, 1 << 17, 1, compute.KVF16},
			{64, 8, 1 << 17, 1, compute.KVF16},
			{64, 1, 512, 48, compute.KVF16},
			{64, 4, 512, 12, compute.KVF16},
			{128, 1, 512, 48, compute.KVF16},
			{128, 4, 512, 12, compute.KVF16},
			{128, 4, 4096, 12, compute.KVF16},
			{80, 1, 512, 48, compute.KVF16},
			{72, 1, 4096, 48, compute.KVF32}, // towers
			{80, 1, 1024, 48, compute.KVF32},
			{64, 1, 1024, 48, compute.KVF32},
		} {
			b.Run(fmt.Sprintf("%s/dim=%d/group=%d/positions=%d/tokens=%d/%s", k.Name, c.headDim, c.group, c.positions, c.tokens, c.t), func(b *testing.B) {
				s := newSequenceIn(rng, compute.KVShape{Heads: 2, Key: c.headDim, Value: c.headDim, KeyType: c.t, ValueType: c.t}, c.group, c.positions, c.tokens, 0)
				s.kv.K, s.kv.V = inHugePages(b, s.kv.K), inHugePages(b, s.kv.V)
				n := c.tokens * c.group
				p := NewPartial(make([]float32, PartialLen(n, c.headDim)), n, c.headDim)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				begin := processorTime(b)
				for b.Loop() {
					for chunk := range Chunks(c.positions) {
						k.AttendChunk(p, s.q, &s.kv, s.spans, Scores{}, chunk)
					}
				}
				took := processorTime(b) - begin
				if c.tokens == 1 {
					b.SetBytes(int64(2 * c.positions * c.t.RowBytes(c.headDim)))
				}
				flops := 0.0
				for _, v := range s.spans {
					flops += 4 * float64(v.To) * float64(c.headDim*c.group)
				}
				b.ReportMetric(flops*float64(b.N)/took.Seconds()/1e9, "GFLOPS")
			})
		}
	}
}

// processorTime returns what the thread has had of a processor.
func processorTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// inHugePages returns a copy of x as the device holds a cache.
func inHugePages(b *testing.B, x []byte) []byte {
	y := bigWeights(b, len(x))
	copy(y, x)
	return y
}

// BenchmarkRow: rows of 4096 in the cache; B/s counts each operand once. Copy is the bound.
func BenchmarkRow(b *testing.B) {
	const n = 4096
	rng := testenv.Rand(b)
	x, y, w := normals(rng, n), normals(rng, n), normals(rng, n)
	h := make([]uint16, n)
	cos, sin := make([]float32, 64), make([]float32, 64)
	for _, k := range Variants() {
		for _, c := range []struct {
			name     string
			operands int64
			run      func()
		}{
			{"Copy", 2, func() { copy(y, x) }},
			{"Add", 3, func() { k.Add(y, x) }},
			{"RMSNorm", 3, func() { k.RMSNorm(y, x, w, 1e-5) }},
			{"LayerNorm", 3, func() { k.LayerNorm(y, x, w, nil, 1e-5) }},
			{"SiLU", 3, func() { k.Activate(y, x, w, compute.Activation{Kind: compute.SiLU}) }},
			{"GELU", 3, func() { k.Activate(y, x, w, compute.Activation{Kind: compute.GELU}) }},
			{"ReLU", 3, func() { k.Activate(y, x, w, compute.Activation{Kind: compute.ReLU}) }},
			{"Rotate", 2, func() { k.Rotate(x, 128, cos, sin, compute.Halves) }},
			{"RotateInterleaved", 2, func() { k.Rotate(x, 128, cos, sin, compute.Interleaved) }},
			{"ToF16", 2, func() { k.ToF16(h, w) }},
			{"Max", 1, func() { k.Max(w) }},
		} {
			b.Run(k.Name+"/"+c.name, func(b *testing.B) {
				b.SetBytes(4 * n * c.operands)
				for b.Loop() {
					c.run()
				}
			})
		}
	}
	b.Run("LogSumExp/32000", func(b *testing.B) {
		logits := normals(rng, 32000)
		for b.Loop() {
			Variants()[0].LogSumExp(logits)
		}
	})
}
