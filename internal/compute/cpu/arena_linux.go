package cpu

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages: scattered rows then miss the TLB less. The system may not have any; that is no error.
func adviseHuge(m []byte) { _ = unix.Madvise(m, unix.MADV_HUGEPAGE) }
