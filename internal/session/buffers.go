package session

import "sync"

// Pools of this package, which belong to the process like those of package buffer.
var (
	inbounds sync.Pool // *Inbound
	pendings sync.Pool // *Pending
)
