package vulkan

// Chosen is the device that Open would open for a name, without opening it. The error is ErrNone where there is nothing to choose.
func Chosen(name string) (Info, error) {
	all, err := Devices()
	if err != nil {
		return Info{}, err
	}
	k, err := choose(all, name)
	if err != nil {
		return Info{}, err
	}
	return all[k], nil
}
