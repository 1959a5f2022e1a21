package server

// ReadScales reads a field that lists scales of LoRA adapters by their numbers, as llama-server has it. Adapters that
// it does not name get unnamed's, 0 where that is nil. It returns nil where the field is absent.
func (m *Model) ReadScales(f *Fields, name string, unnamed []float32) []float32 {
	var list []struct {
		ID    *int     `json:"id"`
		Scale *float32 `json:"scale"`
	}
	if !f.Read(name, &list) {
		return nil
	}
	n := len(m.Engine.Adapters())
	scales := make([]float32, n)
	copy(scales, unnamed)
	for _, a := range list {
		switch {
		case a.ID == nil || a.Scale == nil:
			f.Fail(Invalid("the field %s lists adapters as {\"id\": 0, \"scale\": 1}", name))
			return nil
		case *a.ID < 0 || *a.ID >= n:
			f.Fail(Invalid("the field %s: there is no adapter %d; the server was started with %d, by --lora", name, *a.ID, n))
			return nil
		}
		scales[*a.ID] = *a.Scale
	}
	return scales
}
