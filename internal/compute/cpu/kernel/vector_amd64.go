package kernel

func avx2Vector() Vector { return genericVector() }
