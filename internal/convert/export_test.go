package convert

import "slices"

// SentencePieceModel is sentencePieceModel for tests that import packages above this one.
var SentencePieceModel = sentencePieceModel

// TowerKinds returns the names of the projectors that Tower writes.
func TowerKinds() []string {
	var names []string
	for _, k := range towerKinds() {
		names = append(names, k.name)
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
