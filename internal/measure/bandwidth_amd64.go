package measure

import "golang.org/x/sys/cpu"

//go:generate go -C ../../gen run ./read -out ../internal/measure/read_amd64.s -stubs ../internal/measure/read_stub_amd64.go -pkg measure

func sumWords(b []byte) uint64 {
	if !cpu.X86.HasAVX2 || len(b) < readBlock {
		return sumGeneric(b)
	}
	return sumAVX2(&b[0], uintptr(len(b)/readBlock))
}
