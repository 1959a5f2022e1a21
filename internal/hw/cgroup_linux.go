package hw

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// cgroups finds this process's control groups in a file system rooted at /. Limits hold for a group and all above it.
type cgroups struct{ root fs.FS }

// controllerDirs returns the directories that can limit the process through a controller (cpu, memory), innermost
// first, and whether they belong to the unified hierarchy (version 2). None if there is no such controller.
func (g cgroups) controllerDirs(controller string) (dirs []string, unified bool) {
	group, unified := g.group(controller)
	if group == "" {
		return nil, false
	}
	mountRoot, mountPoint := g.mount(controller, unified)
	if mountPoint == "" {
		return nil, false
	}
	// In a container the mount may show only the group itself, while /proc/self/cgroup names it from the host's root.
	rel, ok := strings.CutPrefix(group+"/", strings.TrimSuffix(mountRoot, "/")+"/")
	if !ok {
		rel = ""
	}
	rel = path.Clean("/" + rel) // a group outside the namespace begins with /..
	for dir := path.Join(mountPoint, rel); ; dir = path.Dir(dir) {
		dirs = append(dirs, strings.TrimPrefix(dir, "/"))
		if len(dir) <= len(mountPoint) {
			return dirs, unified
		}
	}
}

// group reads the group's path from lines of id:controllers:path (cgroups(7)); version 2 has id 0 and no controllers. A
// controller of version 1 is not in version 2.
func (g cgroups) group(controller string) (group string, unified bool) {
	for line := range lines(g.root, "proc/self/cgroup") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" && f[1] == "" {
			group, unified = f[2], true
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			if c == controller {
				return f[2], false
			}
		}
	}
	return group, unified
}

// mount finds the hierarchy in lines of "id parent device root point options [fields] - type source super" (proc(5)).
func (g cgroups) mount(controller string, unified bool) (root, point string) {
	for line := range lines(g.root, "proc/self/mountinfo") {
		left, right, ok := strings.Cut(line, " - ")
		f, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 5 || len(r) < 3 {
			continue
		}
		match := unified && r[0] == "cgroup2"
		if !unified && r[0] == "cgroup" {
			for option := range strings.SplitSeq(r[2], ",") {
				match = match || option == controller
			}
		}
		if match {
			return unescape.Replace(f[3]), path.Clean(unescape.Replace(f[4]))
		}
	}
	return "", ""
}

// unescape undoes the kernel's octal escapes in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// cpuQuota returns the CPU time that the groups allow, in cores; +Inf without a limit.
func (g cgroups) cpuQuota() float64 {
	quota := math.Inf(1)
	dirs, unified := g.controllerDirs("cpu")
	for _, dir := range dirs {
		var used, period string
		if unified {
			used, period, _ = strings.Cut(g.text(dir, "cpu.max"), " ")
		} else {
			used, period = g.text(dir, "cpu.cfs_quota_us"), g.text(dir, "cpu.cfs_period_us")
		}
		u, err1 := strconv.ParseFloat(used, 64) // "max" and -1 are no limit
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && u > 0 && p > 0 {
			quota = min(quota, u/p)
		}
	}
	return quota
}

// memory bounds m by the groups' limits. A group's file cache counts as available, as it does in MemAvailable.
func (g cgroups) memory(m Memory) Memory {
	limitFiles, usageFile, prefix := []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_"
	dirs, unified := g.controllerDirs("memory")
	if unified { // a group beyond memory.high is slowed down until it has given memory back
		limitFiles, usageFile, prefix = []string{"memory.max", "memory.high"}, "memory.current", ""
	}
	for _, dir := range dirs {
		limit := uint64(math.MaxUint64)
		for _, file := range limitFiles {
			if n, err := strconv.ParseUint(g.text(dir, file), 10, 64); err == nil { // "max" means no limit
				limit = min(limit, n)
			}
		}
		if limit >= 1<<62 { // version 1's largest page count means no limit
			continue
		}
		m.Total = min(m.Total, limit)
		usage, err := strconv.ParseUint(g.text(dir, usageFile), 10, 64)
		if err != nil {
			continue
		}
		stat := fields(g.root, path.Join(dir, "memory.stat"))
		usage -= min(usage, stat[prefix+"inactive_file"]+stat[prefix+"active_file"])
		m.Available = min(m.Available, limit-min(limit, usage))
	}
	return m
}

func (g cgroups) text(dir, name string) string {
	b, _ := fs.ReadFile(g.root, path.Join(dir, name))
	return strings.TrimSpace(string(b))
}

// lines yields a file's lines; none if it cannot be read.
func lines(root fs.FS, name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return
		}
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

// fields reads lines of "key value" or "key: value unit"; values that are no numbers are left out.
func fields(root fs.FS, name string) map[string]uint64 {
	m := map[string]uint64{}
	for line := range lines(root, name) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if v, err := strconv.ParseUint(f[1], 10, 64); err == nil {
			m[strings.TrimSuffix(f[0], ":")] = v
		}
	}
	return m
}
