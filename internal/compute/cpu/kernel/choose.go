package kernel

// ChooseSlack is the number of elements by which a list's memory must exceed its longest list.
const ChooseSlack = 8

// Choose appends to list the places of x, counted from first, that are not at most bound, as NaN is not, or, with
// orEqual, that are at least bound, which NaN is not either. There must be room for all of x and ChooseSlack more.
func (k *Kernels) Choose(list []int32, x []float32, first int32, bound float32, orEqual bool) []int32 {
	n := len(list)
	room := list[n : n+len(x)+ChooseSlack]
	whole, count := 0, 0
	if f := k.choose[index(orEqual)]; f != nil && len(x) >= 8 {
		whole = len(x) &^ 7
		count = int(f(&room[0], &x[0], uintptr(whole/8), bound))
	}
	count += chooseGeneric(room[count:], x, whole, bound, orEqual)
	if first != 0 {
		for i := range room[:count] {
			room[i] += first
		}
	}
	return list[:n+count]
}

func index(orEqual bool) int {
	if orEqual {
		return 1
	}
	return 0
}

// chooser writes places of n groups of eight floats to dst and returns how many.
type chooser func(dst *int32, x *float32, n uintptr, bound float32) uintptr

// chooseGeneric writes the places of x[from:] that are not at most bound, or with orEqual at least bound, to dst and
// returns how many.
func chooseGeneric(dst []int32, x []float32, from int, bound float32, orEqual bool) int {
	n := 0
	for i, v := range x[from:] {
		if orEqual && v >= bound || !orEqual && !(v <= bound) {
			dst[n] = int32(from + i)
			n++
		}
	}
	return n
}
