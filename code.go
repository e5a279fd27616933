package tandem

import "strconv"

// A Code classifies the outcome of a call. The values are gRPC's
// (https://grpc.io/docs/guides/status-codes/), so they cross protocols
// unchanged.
type Code uint8

// The codes. OK is never the code of an [*Error].
const (
	OK                 Code = 0  // the call succeeded
	Canceled           Code = 1  // the caller gave up
	Unknown            Code = 2  // the method returned an error that names no code
	InvalidArgument    Code = 3  // the arguments can't be right, whatever the state
	DeadlineExceeded   Code = 4  // time ran out
	NotFound           Code = 5  // the requested thing does not exist
	AlreadyExists      Code = 6  // the thing to create exists already
	PermissionDenied   Code = 7  // the caller is authenticated, but not allowed
	ResourceExhausted  Code = 8  // a limit, quota or queue is full
	FailedPrecondition Code = 9  // the state does not allow it; a retry alone won't help
	Aborted            Code = 10 // a conflict; retry the whole transaction
	OutOfRange         Code = 11 // past the valid range
	Unimplemented      Code = 12 // no such method, codec or compressor here
	Internal           Code = 13 // an invariant broke, or the method panicked
	Unavailable        Code = 14 // no server could take the call just now
	DataLoss           Code = 15 // data is lost or corrupt
	Unauthenticated    Code = 16 // the caller is not authenticated
)

var codeNames = [...]string{
	"ok", "canceled", "unknown", "invalid argument", "deadline exceeded", "not found",
	"already exists", "permission denied", "resource exhausted", "failed precondition",
	"aborted", "out of range", "unimplemented", "internal", "unavailable", "data loss",
	"unauthenticated",
}

// String returns the code's name in lower case words.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "code " + strconv.Itoa(int(c))
}

// Valid reports whether c is one of the defined codes.
func (c Code) Valid() bool { return int(c) < len(codeNames) }
