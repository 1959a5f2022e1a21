package kernel

func archVectors() []Vector { return nil }
