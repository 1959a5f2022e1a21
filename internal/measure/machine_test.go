package measure

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// fake is a GPU of known figures.
type fake struct {
	compute.Device
	read, up, down, handOff, launch, packs, products float64

	err    error
	closed *int
}

func (f fake) ReadBandwidth() (float64, error)                  { return f.read, nil }
func (f fake) TransferBandwidth() (up, down float64, err error) { return f.up, f.down, nil }
func (f fake) HandOff() (float64, error)                        { return f.handOff, f.err }
func (f fake) Launch() (float64, error)                         { return f.launch, nil }
func (f fake) Packing(compute.Source, func(compute.Filler)) (float64, error) {
	return f.packs, nil
}
func (f fake) Products(compute.Source, int) (float64, error) { return f.products, nil }
func (f fake) Close() error                                  { *f.closed++; return f.Device.Close() }

func TestGPUs(t *testing.T) {
	closed := 0
	good := fake{read: 9e11, up: 2e10, down: 1e10, handOff: 4e-5, launch: 2e-5, packs: 3e10, products: 7e13, closed: &closed}
	id := ID{Name: "Test 4090", Driver: "driver 1.2", UUID: "abc", Memory: 24 << 30}
	open := func(f fake) Found {
		return Found{ID: id, Open: func() (Device, error) {
			var err error
			f.Device, err = cpu.New(cpu.Options{Threads: 1})
			return f, err
		}}
	}
	slow, broken, huge := good, good, good
	slow.read = 42 // GB/s where bytes/s belong
	broken.err = errors.New("device lost")
	huge.handOff = 3
	for name, c := range map[string]struct {
		found Found
		want  GPU
	}{
		"good":        {open(good), GPU{ID: id, Read: 9e11, Upload: 2e10, Download: 1e10, HandOff: 4e-5, Launch: 2e-5, Packs: 3e10, Products: 7e13}},
		"wrong unit":  {open(slow), GPU{ID: id, Lacks: `GPU "Test 4090": 42 bytes/s is no bandwidth`}},
		"lost":        {open(broken), GPU{ID: id, Lacks: "device lost"}},
		"latency":     {open(huge), GPU{ID: id, Lacks: `GPU "Test 4090": 3 s to hand off and 2e-05 s to launch are no latencies`}},
		"unusable":    {Found{ID: id, Lacks: "no subgroups"}, GPU{ID: id, Lacks: "no subgroups"}},
		"not to open": {Found{ID: id, Open: func() (Device, error) { return nil, errors.New("in use") }}, GPU{ID: id, Lacks: "in use"}},
	} {
		got, steps := GPU{ID: id}, 0
		got.take(t.Context(), &c.found, tinyLayers(), func() { steps++ })
		if measured := got.Speeds != nil && len(got.Neurons) == len(neuronTypes()); measured != (name == "good") {
			t.Errorf("%s: layers measured: %t", name, measured)
		}
		got.Speeds = nil
		got.Neurons = nil
		if !reflect.DeepEqual(got, c.want) || steps > gpuSteps() || name == "good" && steps != gpuSteps() {
			t.Errorf("%s: %+v after %d steps, want %+v", name, got, steps, c.want)
		}
	}
	if want := 4 + 2*(1+len(neuronTypes())); closed != want { // the good one is opened for each shape of layers in each type, too
		t.Errorf("%d of %d opened GPUs were closed", closed, want)
	}
	software := GPU{ID: ID{Software: true}, Read: 1e10}
	if software.Usable() || (&GPU{ID: ID{Spare: true}, Read: 1e10}).Usable() || (&GPU{Lacks: "x"}).Usable() || !(&GPU{Read: 1e10}).Usable() {
		t.Error("what may be used")
	}
}

func example() Machine {
	return Machine{
		CPU: "Test CPU", Cores: 8, Memory: 64 << 30,
		RAM: []RAM{
			{1, 21e9, "", []Rows{{2304, 9e9}, {8192, 14e9}}},
			{8, 46e9, "", []Rows{{2304, 30e9}, {8192, 40e9}}},
			{16, 45e9, "", nil},
		},
		GPUs:     []GPU{{ID: ID{Name: "Test 4090", UUID: "abc"}, Read: 9e11, Upload: 2e10, Download: 1e10, HandOff: 4e-5, Products: 7e13, Packs: 3e10}},
		Products: 4e11, Packs: 8e9,
		Speeds: &placement.Speeds{
			Attention: placement.Rate{Start: 1e-5, Read: 3e10}, Predictor: placement.Rate{Start: 1e-5, Read: 3e10},
			Dense: placement.Rate{Start: 2e-5, Read: 4e10}, Sparse: placement.Rate{Start: 3e-5, Read: 2e10}, Each: 1e-11,
		},
		Kernels: []Kernel{{Type: "Q4_0", Cols: 4096, Chosen: "far", Usual: "near", Why: "faster", Speeds: []KernelSpeed{{"near", 15e9}, {"far", 23e9}}}},
		Taken:   &Taken{At: time.Date(2026, 11, 22, 10, 30, 0, 0, time.UTC), Buffer: 1 << 30},
	}
}

func TestBest(t *testing.T) {
	m := example()
	best := m.Best()
	if best.Threads != 8 || best.Row(1) != 30e9 || best.Row(5000) != 30e9 || best.Row(5300) != 40e9 || best.Row(1<<20) != 40e9 || m.RAM[2].Row(9) != 45e9 {
		t.Errorf("%+v", best)
	}
	for cores, want := range map[int][]int{0: {1}, 1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 16: {1, 8, 16}} {
		if got := threadCounts(cores); !slices.Equal(got, want) {
			t.Errorf("%d cores: %v", cores, got)
		}
	}
}

func TestPlacement(t *testing.T) {
	m := example()
	m.GPUs[0].Launch, m.GPUs[0].Memory = 3e-5, 24<<30
	m.GPUs = append(m.GPUs, GPU{ID: ID{Name: "llvmpipe", Software: true, Memory: 1}, Read: 1e10, HandOff: 1}, GPU{ID: ID{Name: "old"}, Lacks: "x"})
	p := m.Placement(4608)
	if p.Stream != 46e9 || p.Rows != 30e9 || p.HandOff != 4e-5 || len(p.GPUs) != 1 {
		t.Fatalf("%+v", p)
	}
	if g := p.GPUs[0]; g.Name != "Test 4090" || g.Read != 9e11 || g.Launch != 3e-5 || g.Budget != 24<<30 {
		t.Errorf("%+v", g)
	}
}

// What was measured is found again, on the same machine with the same GPUs only.
func TestCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "machine.json")
	m := example()
	found := []Found{{ID: m.GPUs[0].ID}}
	now := This(found)
	m.CPU, m.Cores, m.Memory = now.CPU, now.Cores, now.Memory+1
	if _, ok := Cached(path, found); ok {
		t.Error("found before it was written")
	}
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Of(context.Background(), path, found, func(_, _ int64) { t.Error("measured what was kept") })
	if err != nil || got.Best().Stream != 46e9 || !reflect.DeepEqual(got.GPUs[0], m.GPUs[0]) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, other := range map[string][]Found{
		"no GPU": nil, "another": {{ID: ID{Name: "Test 4090", UUID: "abd"}}}, "driver": {{ID: ID{Name: "Test 4090", UUID: "abc", Driver: "2"}}},
		"two": {found[0], found[0]},
	} {
		if _, ok := Cached(path, other); ok {
			t.Errorf("%s: taken for the same machine", name)
		}
	}
	for name, change := range map[string]func(*Machine){
		"cores": func(m *Machine) { m.Cores++ }, "cpu": func(m *Machine) { m.CPU += "x" }, "memory": func(m *Machine) { m.Memory += 1 << 31 },
	} {
		c := m
		change(&c)
		if err := c.Write(path); err != nil {
			t.Fatal(err)
		}
		if _, ok := Cached(path, found); ok {
			t.Errorf("%s: taken for the same machine", name)
		}
	}
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	if kept, err := WithKernels(t.Context(), path, found, nil); err != nil || !slices.EqualFunc(kept.Kernels, m.Kernels, func(a, b Kernel) bool { return a.Chosen == b.Chosen }) {
		t.Errorf("kernels that were kept are measured again: %v", err)
	}
	m.GPUs[0].Speeds = m.Speeds // as versions wrote it that did not measure every row
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, ok := Cached(path, found); ok {
		t.Error("a machine whose GPU was not measured with every row is not measured anew")
	}
	m.Speeds, m.GPUs[0].Speeds = nil, nil // as versions wrote it that did not measure layers
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, ok := Cached(path, found); ok {
		t.Error("a machine whose layers were not measured is not measured anew")
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	for want, text := range map[string]string{
		"EOF":                                     "",
		"invalid character":                       "ram",
		"ram: no bandwidth":                       `{"cpu": "x", "cores": 4}`,
		"46 bytes/s with 8 threads is no":         `{"ram": [{"threads": 8, "stream": 46}]}`,
		"1e+10 bytes/s with 0 threads":            `{"ram": [{"stream": 1e10}]}`,
		"0 bytes/s on rows of 2304 bytes":         `{"ram": [{"threads": 8, "stream": 46e9, "rows": [{"bytes": 2304}]}]}`,
		`unknown field "strem"`:                   `{"ram": [{"threads": 8, "strem": 46e9}]}`,
		`GPU "x": 1 bytes/s is no bandwidth`:      `{"ram": [{"threads": 8, "stream": 46e9}], "gpus": [{"name": "x", "read": 1}]}`,
		`GPU "x": -1 s to hand off`:               `{"ram": [{"threads": 8, "stream": 46e9}], "gpus": [{"name": "x", "read": 1e9, "upload": 1e9, "download": 1e9, "hand_off": -1}]}`,
		"cannot unmarshal number -1 into":         `{"memory": -1}`,
		"cannot unmarshal number 1e999 into Go s": `{"ram": [{"threads": 8, "stream": 1e999}]}`,
	} {
		path := filepath.Join(dir, "machine.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(filepath.Join(dir, "missing")); err == nil || !strings.Contains(err.Error(), "missing: "+syscall.ENOENT.Error()) {
		t.Errorf("%v", err)
	}
}

// Exactly the rows that were picked are read, once each, with any number of threads.
func TestReadRows(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	buf := make([]byte, 8<<20) // enough rows that a list has a third or three times its share less than once in 1e12 times
	for i := range buf {
		buf[i] = byte(rng.Uint32())
	}
	for _, bytes := range []int{64, 2304, 2312, 8192} {
		lists := deal(rng, len(buf)/bytes)
		all := slices.Concat(lists[:]...)
		slices.Sort(all)
		if n := len(all); n != len(buf)/bytes || int(all[n-1]) != n-1 || len(slices.Compact(all)) != n {
			t.Errorf("seed %d: %d of %d rows are dealt out", seed, n, len(buf)/bytes)
		}
		rows := lists[0]
		if n := len(rows); n < len(buf)/bytes/rowDensity/3 || n > 3*len(buf)/bytes/rowDensity || !slices.IsSorted(rows) {
			t.Errorf("seed %d: %d of %d rows", seed, n, len(buf)/bytes)
		}
		var want uint64
		for _, r := range rows {
			want += sumGeneric(buf[int(r)*bytes : (int(r)+1)*bytes])
		}
		for _, threads := range []int{1, 3} {
			if _, got := readRows(buf, rows, bytes, threads); got != want {
				t.Errorf("seed %d: rows of %d bytes, %d threads: sum %x, want %x", seed, bytes, threads, got, want)
			}
		}
	}
}

func TestTake(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Take(ended, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if !testenv.Exhaustive(t) {
		t.Skip("reads gigabytes, as the script of powerinfer doctor does")
	}
	closed, last, total := 0, int64(0), int64(0)
	gpu := fake{read: 9e11, up: 2e10, down: 1e10, closed: &closed}
	found := []Found{{ID: ID{Name: "fake"}, Open: func() (Device, error) {
		var err error
		gpu.Device, err = cpu.New(cpu.Options{Threads: 1})
		return gpu, err
	}}}
	path := filepath.Join(t.TempDir(), "machine.json")
	m, err := Of(context.Background(), path, found, func(d, n int64) {
		if d != last+1 {
			t.Errorf("step %d after %d", d, last)
		}
		last, total = d, n
	})
	if err != nil || last != total || closed != 3 {
		t.Fatalf("%v after %d of %d steps", err, last, total)
	}
	kept, err := Read(path)
	if err != nil || kept.Taken == nil || kept.Taken.Buffer == 0 || kept.Best().Stream != m.Best().Stream || kept.GPUs[0].Read != 9e11 {
		t.Errorf("measured %+v, kept %+v", m, kept)
	}
	for _, r := range m.RAM {
		t.Logf("%d threads: %.1f GB/s in order by %s, %.1f on rows of %d, %.1f on rows of %d", r.Threads, r.Stream/1e9, r.Way, r.Rows[0].Read/1e9, r.Rows[0].Bytes, r.Rows[1].Read/1e9, r.Rows[1].Bytes)
	}
}
