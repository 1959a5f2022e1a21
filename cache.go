package powerinfer

import "context"

// SavedCache says how much of a text SaveCache wrote or RestoreCache read.
type SavedCache struct {
	Tokens []int32 // the beginning of the text: its keys and values were saved or restored
	Bytes  int64   // size of the file
}

// SaveCache writes keys and values to a file: those of the longest beginning of text that the model still holds.
// RestoreCache then spares another process that computation. most limits the file's bytes; 0: no limit. The file
// appears when it is complete, and replaces only another such file or an empty one. It also holds the text's tokens.
func (m *Model) SaveCache(ctx context.Context, path string, text []int32, most int64) (SavedCache, error) {
	s, err := m.session.SaveFile(ctx, path, text, most)
	return SavedCache(s), tell(err)
}

// RestoreCache reads a file that SaveCache wrote with the same model. A generation with a prompt that begins with the
// text then continues after it, unless the generation must be reproducible and the file comes from other devices. If
// the context is shorter than the text, RestoreCache restores the text's beginning. It refuses a file of another model,
// or a damaged one.
func (m *Model) RestoreCache(ctx context.Context, path string) (SavedCache, error) {
	s, err := m.session.RestoreFile(ctx, path)
	return SavedCache(s), tell(err)
}
