package gguf

// Describe returns a file that is nowhere: the header of a model that someone described. Its tensors have the data that
// they are given, mostly none.
func Describe(path, magic string, keys []KV, tensors []*Tensor) *File {
	f := &File{Path: path, Magic: magic, Version: 3, Alignment: 32, Keys: keys, Tensors: tensors, index: map[string]int{}, tensors: map[string]*Tensor{}}
	for i, k := range keys {
		f.index[k.Key] = i
	}
	for _, t := range tensors {
		f.tensors[t.Name] = t
	}
	return f
}
