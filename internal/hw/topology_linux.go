package hw

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const cpuDir = "sys/devices/system/cpu"

func readTopology() topology {
	var set unix.CPUSet
	allowed := set.IsSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		allowed = func(int) bool { return true } // the machine has more CPUs than the set holds
	}
	return parseTopology(os.DirFS("/"), allowed)
}

// parseTopology reads sysfs and the quota in a file system rooted at /; allowed is the affinity mask.
func parseTopology(root fs.FS, allowed func(cpu int) bool) topology {
	text := func(name string) string { return cgroups{root}.text(cpuDir, name) }
	all, mine := map[string]bool{}, map[string]bool{} // physical cores
	var t topology
	for _, cpu := range parseList(text("online")) {
		t.logical++
		dir := fmt.Sprintf("cpu%d/topology/", cpu)
		// A core is named by its threads: core_id repeats in every package.
		core := text(dir + "core_cpus_list")
		if core == "" {
			core = text(dir + "thread_siblings_list") // kernels before 5.3
		}
		if core == "" {
			core = strconv.Itoa(cpu)
		}
		all[core] = true
		if allowed(cpu) {
			mine[core] = true
		}
	}
	t.physical, t.usable = len(all), len(mine)
	// Rounded down: with one worker more than the quota allows, the kernel stops all of them for part of each period.
	if quota := (cgroups{root}).cpuQuota(); t.usable > 0 && quota < float64(t.usable) {
		t.usable = max(1, int(math.Floor(quota)))
	}
	t.name = modelName(root)
	var sharing int
	if t.l1d, t.l2, t.l3, sharing = caches(root); sharing > 0 {
		t.l3Slices = (t.logical + sharing - 1) / sharing
	}
	return t
}

// parseList parses the kernel's lists of CPUs, such as "0-3,8", and leaves malformed parts out.
func parseList(s string) []int {
	var ids []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || lo < 0 || hi >= 1<<16 {
			continue
		}
		for id := lo; id <= hi; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

// modelName is for CPUs without CPUID: the name in /proc/cpuinfo, or the board's name from the device tree.
func modelName(root fs.FS) string {
	for line := range lines(root, "proc/cpuinfo") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return strings.TrimRight(cgroups{root}.text("sys/firmware/devicetree/base", "model"), "\x00")
}

// caches reads the first CPU's data and unified caches, in bytes, and how many logical CPUs share its L3.
func caches(root fs.FS) (l1d, l2, l3, sharing int) {
	for i := range 8 {
		dir := path.Join(cpuDir, "cpu0/cache", fmt.Sprintf("index%d", i))
		text := func(name string) string { return cgroups{root}.text(dir, name) }
		if text("type") == "Instruction" {
			continue
		}
		switch size := parseSize(text("size")); text("level") {
		case "1":
			l1d = size
		case "2":
			l2 = size
		case "3":
			l3, sharing = size, len(parseList(text("shared_cpu_list")))
		}
	}
	return l1d, l2, l3, sharing
}

// parseSize parses sysfs cache sizes, such as 32K; 0 if malformed.
func parseSize(s string) int {
	unit := 1
	switch {
	case strings.HasSuffix(s, "K"):
		unit = 1 << 10
	case strings.HasSuffix(s, "M"):
		unit = 1 << 20
	}
	n, err := strconv.Atoi(strings.TrimRight(s, "KM"))
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return n * unit
}

func busyTasks() int { return parseBusy(os.DirFS("/")) }

// parseBusy reads "load1 load5 load15 running/total lastpid" (proc(5)). Busy is what was running in the last minute and
// still is: the load alone remembers work that has ended, the count alone sees passing tasks.
func parseBusy(root fs.FS) int {
	f := strings.Fields(cgroups{root}.text("proc", "loadavg"))
	if len(f) < 4 {
		return 0
	}
	running, _, _ := strings.Cut(f[3], "/")
	load, err1 := strconv.ParseFloat(f[0], 64)
	now, err2 := strconv.Atoi(running)
	if err1 != nil || err2 != nil || !(load >= 0) {
		return 0
	}
	return max(0, min(int(math.Min(load, 1<<16)), now-1)) // this process runs, too
}
