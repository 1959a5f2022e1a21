package vk

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// registryFile is the registry's path in Debian's libvulkan-dev.
const registryFile = "/usr/share/vulkan/registry/vk.xml"

// registry is the content of vk.xml by C names.
type registry struct {
	types    map[string]*xmlType
	values   map[string]int64 // of constants
	commands map[string]int   // numbers of parameters
}

type xmlType struct {
	Name     string      `xml:"name,attr"`
	Inner    string      `xml:"name"`
	Category string      `xml:"category,attr"`
	Alias    string      `xml:"alias,attr"`
	Type     string      `xml:"type"`
	Text     string      `xml:",innerxml"`
	Members  []xmlMember `xml:"member"`
}

type xmlMember struct {
	Name string `xml:"name"`
	Type string `xml:"type"`
	API  string `xml:"api,attr"`
	Text string `xml:",innerxml"`
}

type xmlEnum struct {
	Name    string `xml:"name,attr"`
	Value   string `xml:"value,attr"`
	Bit     string `xml:"bitpos,attr"`
	Alias   string `xml:"alias,attr"`
	Offset  string `xml:"offset,attr"`
	Extends string `xml:"extends,attr"`
	Number  string `xml:"extnumber,attr"`
	Dir     string `xml:"dir,attr"`
}

type xmlRequire struct {
	Enums []xmlEnum `xml:"enum"`
}

type xmlFile struct {
	Types []xmlType `xml:"types>type"`
	Enums []struct {
		Enums []xmlEnum `xml:"enum"`
	} `xml:"enums"`
	Commands []struct {
		Name  string `xml:"name,attr"`
		Alias string `xml:"alias,attr"`
		Proto struct {
			Name string `xml:"name"`
		} `xml:"proto"`
		Params []struct{} `xml:"param"`
	} `xml:"commands>command"`
	Features []struct {
		Requires []xmlRequire `xml:"require"`
	} `xml:"feature"`
	Extensions []struct {
		Number   string       `xml:"number,attr"`
		Requires []xmlRequire `xml:"require"`
	} `xml:"extensions>extension"`
}

// readRegistry reads vk.xml, or skips the test.
func readRegistry(t *testing.T) *registry {
	t.Helper()
	data, err := os.ReadFile(registryFile)
	if errors.Is(err, os.ErrNotExist) {
		testenv.Missing(t, "vulkan", registryFile+" is absent (Debian: libvulkan-dev)")
	}
	if err != nil {
		t.Fatal(err)
	}
	var f xmlFile
	if err := xml.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	r := &registry{map[string]*xmlType{}, map[string]int64{}, map[string]int{}}
	for i := range f.Types {
		typ := &f.Types[i]
		if typ.Name == "" {
			typ.Name = typ.Inner
		}
		r.types[typ.Name] = typ
	}
	for _, c := range f.Commands {
		if c.Alias == "" {
			r.commands[c.Proto.Name] = len(c.Params)
		}
	}
	for _, group := range f.Enums {
		r.add(group.Enums, "")
	}
	for _, feature := range f.Features {
		for _, q := range feature.Requires {
			r.add(q.Enums, "")
		}
	}
	for _, e := range f.Extensions {
		for _, q := range e.Requires {
			r.add(q.Enums, e.Number)
		}
	}
	version := regexp.MustCompile(`VK_MAKE_API_VERSION</type>\(0, (\d+), (\d+), 0\)`)
	for name, typ := range r.types {
		if m := version.FindStringSubmatch(typ.Text); m != nil && strings.HasPrefix(name, "VK_API_VERSION_") {
			major, _ := strconv.Atoi(m[1])
			minor, _ := strconv.Atoi(m[2])
			r.values[name] = int64(major<<22 | minor<<12)
		}
	}
	return r
}

// add evaluates constants; those of extensions have a block of a thousand numbers for each.
func (r *registry) add(enums []xmlEnum, extension string) {
	for _, e := range enums {
		switch {
		case e.Value != "":
			if v, err := strconv.ParseInt(strings.Trim(e.Value, `"`), 0, 64); err == nil {
				r.values[e.Name] = v
			} else if e.Value == "(~0ULL)" {
				r.values[e.Name] = -1
			} else if n, err := strconv.Atoi(strings.TrimRight(e.Value, "U")); err == nil {
				r.values[e.Name] = int64(n)
			}
		case e.Bit != "":
			bit, _ := strconv.Atoi(e.Bit)
			r.values[e.Name] = 1 << bit
		case e.Offset != "":
			number := extension
			if e.Number != "" {
				number = e.Number
			}
			n, _ := strconv.Atoi(number)
			offset, _ := strconv.Atoi(e.Offset)
			v := int64(1000000000 + (n-1)*1000 + offset)
			if e.Dir == "-" {
				v = -v
			}
			r.values[e.Name] = v
		case e.Alias != "":
			if v, ok := r.values[e.Alias]; ok {
				r.values[e.Name] = v
			}
		}
	}
}

// field is a member as C lays it out on 64-bit machines.
type field struct {
	name         string
	offset, size uintptr
}

// layout returns a structure's members, size and alignment.
func (r *registry) layout(name string) (fields []field, size, align uintptr, err error) {
	typ := r.types[name]
	if typ == nil || typ.Category != "struct" {
		return nil, 0, 0, fmt.Errorf("the registry has no structure %s", name)
	}
	align = 1
	for _, m := range typ.Members {
		if m.API != "" && !strings.Contains(m.API, "vulkan") {
			continue
		}
		s, a, err := r.member(m)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("%s.%s: %w", name, m.Name, err)
		}
		size = (size + a - 1) / a * a
		fields = append(fields, field{name: m.Name, offset: size, size: s})
		size += s
		align = max(align, a)
	}
	return fields, (size + align - 1) / align * align, align, nil
}

var dimension = regexp.MustCompile(`\[(?:<enum>)?(\w+)(?:</enum>)?\]`)

// member returns a member's size and alignment.
func (r *registry) member(m xmlMember) (size, align uintptr, err error) {
	text := regexp.MustCompile(`<comment>.*</comment>`).ReplaceAllString(m.Text, "")
	count := uintptr(1)
	for _, d := range dimension.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(d[1])
		if err != nil {
			v, ok := r.values[d[1]]
			if !ok {
				return 0, 0, fmt.Errorf("dimension %s", d[1])
			}
			n = int(v)
		}
		count *= uintptr(n)
	}
	if strings.Contains(text, "*") {
		return 8 * count, 8, nil
	}
	size, align, err = r.size(m.Type)
	return size * count, align, err
}

// size returns a type's size and alignment.
func (r *registry) size(name string) (size, align uintptr, err error) {
	switch name {
	case "char", "uint8_t", "int8_t":
		return 1, 1, nil
	case "uint32_t", "int32_t", "float", "int", "VkBool32", "VkFlags":
		return 4, 4, nil
	case "uint64_t", "int64_t", "size_t", "double", "VkDeviceSize", "VkDeviceAddress", "VkFlags64":
		return 8, 8, nil
	}
	typ := r.types[name]
	if typ == nil {
		return 0, 0, fmt.Errorf("type %s", name)
	}
	if typ.Alias != "" {
		return r.size(typ.Alias)
	}
	switch typ.Category {
	case "enum":
		return 4, 4, nil
	case "bitmask":
		return r.size(typ.Type)
	case "handle", "funcpointer":
		return 8, 8, nil
	case "struct":
		_, size, align, err = r.layout(name)
		return size, align, err
	}
	return 0, 0, fmt.Errorf("type %s of category %q", name, typ.Category)
}
