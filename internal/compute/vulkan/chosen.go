package vulkan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// Chosen returns the device that Open would open for a name, without opening it. The error is ErrNone if there is none
// to choose.
func Chosen(name string) (Info, error) {
	all, err := Devices()
	if err != nil {
		return Info{}, err
	}
	k, err := driver.Choose(all, name)
	if err != nil {
		return Info{}, err
	}
	return all[k], nil
}

// ChooseAll returns the devices out of all that list names, with names as in Open and commas between them, or Usual
// devices if list is empty. The error is ErrNone if there is nothing to choose.
func ChooseAll(all []Info, list string) ([]Info, error) {
	if list != "" && strings.Trim(list, ", ") == "" { // a part of many a name
		return nil, fmt.Errorf("a name is missing in the list of devices %q", list)
	}
	k, err := driver.Choose(all, list)
	switch {
	case err == nil && list == "":
		return Usual(all), nil
	case err == nil: // names may hold commas, too
		return all[k : k+1], nil
	case !strings.Contains(list, ","):
		return nil, err
	}
	var chosen []Info
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return nil, fmt.Errorf("a name is missing in the list of devices %q", list)
		}
		k, err := driver.Choose(all, name)
		if err != nil {
			return nil, err
		}
		if name != Software && has(chosen, all[k]) { // which tests name twice
			return nil, fmt.Errorf("device %d (%s) is twice in the list of devices %q", all[k].Index, all[k].Name, list)
		}
		chosen = append(chosen, all[k])
	}
	return chosen, nil
}

// Usual returns the devices used when none is named: every GPU, or, if there is none, the best device that is not
// software. A GPU that two drivers show is used through the first.
func Usual(all []Info) []Info {
	var gpus []Info
	for _, d := range all {
		if d.Kind == Discrete && d.Lacks == "" && !has(gpus, d) {
			gpus = append(gpus, d)
		}
	}
	if k, err := driver.Choose(all, ""); err == nil && len(gpus) == 0 {
		return all[k : k+1]
	}
	return gpus
}

// has reports whether list contains d, or the same GPU through another driver.
func has(list []Info, d Info) bool {
	known := strings.Trim(d.UUID, "0") != ""
	return slices.ContainsFunc(list, func(e Info) bool { return e.Index == d.Index || known && e.UUID == d.UUID })
}
