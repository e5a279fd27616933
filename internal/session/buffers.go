package session

import "sync"

// What is used again, beside package buffer's, is the process's too.
var (
	inbounds sync.Pool // *Inbound
	pendings sync.Pool // *Pending
)
