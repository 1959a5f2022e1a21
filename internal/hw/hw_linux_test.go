package hw

import (
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// tree makes a file system rooted at / of path, content pairs.
func tree(pairs ...string) fs.FS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

const (
	unifiedMount = "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	meminfo      = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\nHugePages_Total:       0\n"
)

func TestCPUQuota(t *testing.T) {
	for name, c := range map[string]struct {
		root fs.FS
		want float64
	}{
		"no proc":      {tree(), math.Inf(1)},
		"no hierarchy": {tree("proc/self/cgroup", "0::/a\n"), math.Inf(1)},
		"v2 max": {tree("proc/self/cgroup", "0::/a\n", "proc/self/mountinfo", unifiedMount,
			"sys/fs/cgroup/a/cpu.max", "max 100000\n"), math.Inf(1)},
		"v2": {tree("proc/self/cgroup", "0::/a\n", "proc/self/mountinfo", unifiedMount,
			"sys/fs/cgroup/a/cpu.max", "250000 100000\n"), 2.5},
		"v2, the parent's is tighter": {tree("proc/self/cgroup", "0::/a/b\n", "proc/self/mountinfo", unifiedMount,
			"sys/fs/cgroup/a/b/cpu.max", "400000 100000\n", "sys/fs/cgroup/a/cpu.max", "150000 50000\n"), 3},
		"v2, the group's own is tighter": {tree("proc/self/cgroup", "0::/a/b\n", "proc/self/mountinfo", unifiedMount,
			"sys/fs/cgroup/a/b/cpu.max", "100000 100000\n", "sys/fs/cgroup/a/cpu.max", "400000 100000\n"), 1},
		"v2 seen from a container's own namespace": {tree("proc/self/cgroup", "0::/\n", "proc/self/mountinfo", unifiedMount,
			"sys/fs/cgroup/cpu.max", "50000 100000\n"), 0.5},
		"v1": {tree("proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n0::/ignored\n",
			"proc/self/mountinfo", "33 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "300000\n",
			"sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"), 3},
		"v1, the mount is the container's group": {tree("proc/self/cgroup", "4:cpu:/docker/x\n",
			"proc/self/mountinfo", "33 25 0:28 /docker/x /sys/fs/cgroup/cpu\\040s ro - cgroup cgroup rw,cpu\n",
			"sys/fs/cgroup/cpu s/cpu.cfs_quota_us", "200000\n",
			"sys/fs/cgroup/cpu s/cpu.cfs_period_us", "100000\n"), 2},
		"a group outside the mount": {tree("proc/self/cgroup", "0::/../other\n", "proc/self/mountinfo", unifiedMount,
			"sys/fs/cgroup/cpu.max", "100000 100000\n"), 1},
		"garbage": {tree("proc/self/cgroup", "x\n0::/a\n:::\n", "proc/self/mountinfo", "- \n\n1 2 - cgroup2\n"+unifiedMount,
			"sys/fs/cgroup/a/cpu.max", "lots\n"), math.Inf(1)},
	} {
		if got := (cgroups{c.root}).cpuQuota(); got != c.want {
			t.Errorf("%s: quota %v, want %v", name, got, c.want)
		}
	}
}

func TestReadMemory(t *testing.T) {
	const kib = 1 << 10
	for name, c := range map[string]struct {
		root fs.FS
		want Memory
	}{
		"no limit": {tree("proc/meminfo", meminfo), Memory{16000000 * kib, 8000000 * kib}},
		"old kernel": {
			tree("proc/meminfo", "MemTotal: 100 kB\nMemFree: 10 kB\nBuffers: 20 kB\nCached: 30 kB\n"),
			Memory{100 * kib, 60 * kib},
		},
		"v2: 4000 of 10000 used, 1000 of it cache": {tree("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a\n",
			"proc/self/mountinfo", unifiedMount, "sys/fs/cgroup/a/memory.max", "10000\n", "sys/fs/cgroup/a/memory.current", "4000\n",
			"sys/fs/cgroup/a/memory.stat", "anon 2500\nfile 1500\ninactive_file 600\nactive_file 400\n"), Memory{10000, 7000}},
		"v2: the parent has less left": {tree("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a/b\n",
			"proc/self/mountinfo", unifiedMount, "sys/fs/cgroup/a/b/memory.max", "10000\n", "sys/fs/cgroup/a/b/memory.current", "4000\n",
			"sys/fs/cgroup/a/memory.max", "20000\n", "sys/fs/cgroup/a/memory.current", "19000\n"), Memory{10000, 1000}},
		"v2: used above the limit": {tree("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a\n",
			"proc/self/mountinfo", unifiedMount, "sys/fs/cgroup/a/memory.max", "10\n", "sys/fs/cgroup/a/memory.current", "40\n"), Memory{10, 0}},
		"v2: memory.high is the limit, of a group above": {tree("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a/b/c\n",
			"proc/self/mountinfo", unifiedMount, "sys/fs/cgroup/a/b/c/memory.max", "max\n", "sys/fs/cgroup/a/b/c/memory.current", "4000\n",
			"sys/fs/cgroup/a/memory.max", "20000\n", "sys/fs/cgroup/a/memory.high", "9000\n", "sys/fs/cgroup/a/memory.current", "5000\n"), Memory{9000, 4000}},
		"v1, the group above has less left": {tree("proc/meminfo", meminfo, "proc/self/cgroup", "9:memory:/x/y\n",
			"proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "5000\n", "sys/fs/cgroup/memory/x/y/memory.usage_in_bytes", "100\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "7000\n", "sys/fs/cgroup/memory/x/memory.usage_in_bytes", "6000\n"), Memory{5000, 1000}},
		"v2 max": {tree("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a\n", "proc/self/mountinfo", unifiedMount,
			"sys/fs/cgroup/a/memory.max", "max\n", "sys/fs/cgroup/a/memory.current", "4000\n"), Memory{16000000 * kib, 8000000 * kib}},
		"v1, unlimited above": {tree("proc/meminfo", meminfo, "proc/self/cgroup", "9:memory:/x\n0::/\n",
			"proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"+unifiedMount,
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "5000\n", "sys/fs/cgroup/memory/x/memory.usage_in_bytes", "3000\n",
			"sys/fs/cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 500\ntotal_active_file 500\n"), Memory{5000, 3000}},
	} {
		if got, err := readMemory(c.root); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	if _, err := readMemory(tree()); err == nil || !strings.Contains(err.Error(), "/proc") {
		t.Errorf("without /proc: error %v", err)
	}
}

// machine has n hardware threads, two a core: i and i + n/2 are siblings, as Linux numbers them on Intel.
func machine(n int, more ...string) fs.FS {
	pairs := []string{"sys/devices/system/cpu/online", fmt.Sprintf("0-%d\n", n-1)}
	for i := range n {
		core := i % (n / 2)
		pairs = append(pairs, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/core_cpus_list", i), fmt.Sprintf("%d,%d\n", core, core+n/2))
	}
	return tree(append(pairs, more...)...)
}

func TestTopology(t *testing.T) {
	all := func(int) bool { return true }
	quota := func(max string) []string {
		return []string{"proc/self/cgroup", "0::/\n", "proc/self/mountinfo", unifiedMount, "sys/fs/cgroup/cpu.max", max}
	}
	for name, c := range map[string]struct {
		root                      fs.FS
		allowed                   func(int) bool
		logical, physical, usable int
	}{
		"hyperthreads":               {machine(16), all, 16, 8, 8},
		"both threads of two cores":  {machine(16), func(i int) bool { return i%8 < 2 }, 16, 8, 2},
		"quota 3.9":                  {machine(16, quota("390000 100000")...), all, 16, 8, 3},
		"quota 0.5":                  {machine(16, quota("50000 100000")...), all, 16, 8, 1},
		"quota above the machine":    {machine(4, quota("800000 100000")...), all, 4, 2, 2},
		"no topology":                {tree("sys/devices/system/cpu/online", "0-2,5\n"), all, 4, 4, 4},
		"no sysfs":                   {tree(), all, 0, 0, 0},
		"hostile list of processors": {tree("sys/devices/system/cpu/online", "0-9999999999,-1,3-1,x,2\n"), all, 1, 1, 1},
	} {
		got := parseTopology(c.root, c.allowed)
		if got.logical != c.logical || got.physical != c.physical || got.usable != c.usable {
			t.Errorf("%s: logical %d, physical %d, usable %d; want %d, %d, %d", name,
				got.logical, got.physical, got.usable, c.logical, c.physical, c.usable)
		}
	}
}

func TestCachesAndName(t *testing.T) {
	dir := "sys/devices/system/cpu/cpu0/cache/index"
	got := parseTopology(tree(
		dir+"0/level", "1\n", dir+"0/type", "Data\n", dir+"0/size", "48K\n",
		dir+"1/level", "1\n", dir+"1/type", "Instruction\n", dir+"1/size", "32K\n",
		dir+"2/level", "2\n", dir+"2/type", "Unified\n", dir+"2/size", "2048K\n",
		dir+"3/level", "3\n", dir+"3/type", "Unified\n", dir+"3/size", "36M\n", dir+"3/shared_cpu_list", "0-3,8-11\n",
		"sys/devices/system/cpu/online", "0-15\n",
		"sys/firmware/devicetree/base/model", "Raspberry Pi 5 Model B\x00",
	), func(int) bool { return true })
	want := topology{name: "Raspberry Pi 5 Model B", l1d: 48 << 10, l2: 2 << 20, l3: 36 << 20, l3Slices: 2, logical: 16, physical: 16, usable: 16}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseList(t *testing.T) {
	for in, want := range map[string][]int{"0-3,8": {0, 1, 2, 3, 8}, "5": {5}, "": nil, "a-b,7": {7}} {
		if got := parseList(in); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

func TestParseBusy(t *testing.T) {
	for in, want := range map[string]int{
		"0.00 0.10 0.20 1/500 99": 0,
		"3.90 2.00 1.00 6/500 99": 3, // the load is the smaller
		"9.00 2.00 1.00 3/500 99": 2, // most of the load has ended
		"9.00 2.00 1.00 0/500 99": 0,
		"NaN 1 1 5/5 1":           0,
		"":                        0,
		"garbage":                 0,
	} {
		if got := parseBusy(tree("proc/loadavg", in)); got != want {
			t.Errorf("%q: %d busy, want %d", in, got, want)
		}
	}
}

func TestUsableFollowsAffinity(t *testing.T) {
	var old, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		t.Skip(err)
	}
	for cpu := range 1024 {
		if old.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	done := make(chan int)
	go func() { // its locked thread ends with it, and the mask with the thread
		runtime.LockOSThread()
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			done <- -1
			return
		}
		done <- readTopology().usable
	}()
	switch got := <-done; got {
	case -1:
		t.Skip("affinity cannot be set here")
	case 1:
	default:
		t.Errorf("bound to one processor: %d usable cores", got)
	}
}
