package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const about = `# Dependencies

<!-- make dependencies writes this page: change gen/dependencies/reasons.go instead. -->

What is not our own, and why. ` + "`make dependencies`" + ` writes this page from ` + "`go list -deps`" + `, the lock files of npm and the
scripts, and [LICENSES.txt](../LICENSES.txt) with the texts of the licences of what the program contains. Why a module was
chosen is said by hand in [reasons.go](../gen/dependencies/reasons.go). A module that our code imports without a reason
fails, and so does a licence that the program may not contain.
` + "`make vulncheck`" + ` asks the databases of Go and npm about known vulnerabilities.
`

// markdown returns the page.
func (f *found) markdown() []byte {
	var out bytes.Buffer
	out.WriteString(about)
	for i, group := range f.groups {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n", group.title, group.about)
		out.WriteString("| module | version | licence | for | why this one | imported by |\n|---|---|---|---|---|---|\n")
		var further []*module
		rows := map[string]bool{} // rows that were written: a reason for several packages has one
		for _, m := range group.modules {
			if !m.direct {
				further = append(further, m)
				continue
			}
			r := reasonFor(m.path)
			row := fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |\n", r.path, m.version, m.licence, r.use, r.why, importers(m))
			if !rows[row] {
				rows[row] = true
				out.WriteString(row)
			}
		}
		if group.distributed && len(further) > 0 {
			out.WriteString("\nThese pull in:\n\n| module | version | licence | imported by |\n|---|---|---|---|\n")
			for _, m := range further {
				fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", m.path, m.version, m.licence, importers(m))
			}
		} else if len(further) > 0 {
			fmt.Fprintf(&out, "\nThese pull in %s.\n", summary(further))
		}
		if i == 0 {
			out.WriteString("\nThe program also contains data of others:\n\n| data | licence | for | why |\n|---|---|---|---|\n")
			for _, d := range data {
				fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", d.what, d.licence, d.use, d.why)
			}
		}
	}
	return out.Bytes()
}

func importers(m *module) string {
	names := slices.Sorted(maps.Keys(m.importers))
	for i, name := range names {
		names[i] = "`" + name + "`"
	}
	return strings.Join(names, ", ")
}

// summary counts modules by licence: 12 modules (8 MIT, 4 Apache-2.0).
func summary(list []*module) string {
	counts := map[string]int{}
	for _, m := range list {
		counts[m.licence]++
	}
	licences := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, licence := range licences {
		licences[i] = fmt.Sprintf("%d %s", counts[licence], licence)
	}
	return fmt.Sprintf("%d more: %s", len(list), strings.Join(licences, "; "))
}
