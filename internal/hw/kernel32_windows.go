package hw

import "golang.org/x/sys/windows"

var (
	kernel32                       = windows.NewLazySystemDLL("kernel32.dll")
	globalMemoryStatusEx           = kernel32.NewProc("GlobalMemoryStatusEx")
	getProcessAffinityMask         = kernel32.NewProc("GetProcessAffinityMask")
	getLogicalProcessorInformation = kernel32.NewProc("GetLogicalProcessorInformation")
	isProcessorFeaturePresent      = kernel32.NewProc("IsProcessorFeaturePresent")
)
