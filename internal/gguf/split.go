package gguf

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// Parts returns the names of all parts of the split file with this first part, or only the name.
func Parts(path string) []string {
	m := partName.FindStringSubmatch(path)
	if m == nil {
		return []string{path}
	}
	n, _ := strconv.Atoi(m[3]) // five digits
	return append(PartNames(m[1], n), path)
}

// PartNames returns the names of a split file's n parts, which begin with stem.
func PartNames(stem string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, n)
	}
	return list
}

// maxParts is the largest number of five digits.
const maxParts = 99999

// splitCount returns how many parts the file belongs to; 1 if it does not say.
func (f *File) splitCount() (int, error) {
	n, ok, err := f.Uint("split.count")
	if err != nil || !ok || n <= 1 {
		return 1, err
	}
	if n > maxParts {
		return 0, fmt.Errorf("%s: key \"split.count\": %d parts", f.Path, n)
	}
	return int(n), nil
}

// openSplit adds the other parts' tensors to f, which is the first part.
func (f *File) openSplit(parts int) error {
	m := partName.FindStringSubmatch(f.Path)
	if m == nil {
		return fmt.Errorf("%s: one of %d parts, but its name does not end in -00001-of-%05d.gguf", f.Path, parts, parts)
	}
	if no, _, err := f.Uint("split.no"); err != nil || no != 0 || m[2] != "00001" {
		return fmt.Errorf("%s: this is part %s of %d; open the first: %s-00001-of-%05d.gguf", f.Path, m[2], parts, m[1], parts)
	}
	if n, _ := strconv.Atoi(m[3]); n != parts {
		return fmt.Errorf("%s: named as one of %d parts, but key \"split.count\" says %d", f.Path, n, parts)
	}
	for i := 1; i < parts; i++ {
		path := fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, parts)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s: part %d of %d is missing: %s", f.Path, i+1, parts, path)
		}
		if err := f.addPart(path, i, parts); err != nil {
			return err
		}
	}
	if n, ok, err := f.Uint("split.tensors.count"); err != nil || ok && n != uint64(len(f.Tensors)) {
		return fmt.Errorf("%s: %d tensors in %d parts, key \"split.tensors.count\" says %d", f.Path, len(f.Tensors), parts, n)
	}
	return nil
}

func (f *File) addPart(path string, no, parts int) error {
	p, err := openPart(path)
	if err != nil {
		return err
	}
	f.mappings = append(f.mappings, p.mappings...)
	n, _, err := p.Uint("split.no")
	count, err2 := p.splitCount()
	if err != nil || err2 != nil || n != uint64(no) || count != parts || p.Magic != f.Magic {
		return fmt.Errorf("%s: not part %d of the %d that %s begins", path, no+1, parts, f.Path)
	}
	for _, t := range p.Tensors {
		if f.tensors[t.Name] != nil {
			return fmt.Errorf("%s: tensor %q is also in an earlier part", path, t.Name)
		}
		t.PartNo = no
		f.tensors[t.Name] = t
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}
