package http2

import "fmt"

// Code says why a stream or a connection ended (RFC 9113, section 7).
type Code uint32

// The codes of RFC 9113.
const (
	NoError            Code = 0x0
	ProtocolError      Code = 0x1
	InternalError      Code = 0x2
	FlowControlError   Code = 0x3
	SettingsTimeout    Code = 0x4
	StreamClosed       Code = 0x5
	FrameSizeError     Code = 0x6
	RefusedStream      Code = 0x7
	Cancel             Code = 0x8
	CompressionError   Code = 0x9
	ConnectError       Code = 0xa
	EnhanceYourCalm    Code = 0xb
	InadequateSecurity Code = 0xc
	HTTP11Required     Code = 0xd
)

var codeNames = [...]string{ //nolint:gochecknoglobals // a table
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String returns the code's name in RFC 9113.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", uint32(c))
}

// ConnError ends a connection: its peer has broken the protocol, or floods.
type ConnError struct {
	Code Code
	Why  string
}

// Error returns the code's name and the reason.
func (e *ConnError) Error() string { return "HTTP/2: " + e.Code.String() + ": " + e.Why }

func fatal(code Code, format string, args ...any) error {
	return &ConnError{code, fmt.Sprintf(format, args...)}
}

// GoneError is the error of what would be sent on a stream that has ended.
type GoneError struct{ Code Code }

// Error returns the code's name.
func (e *GoneError) Error() string { return "HTTP/2: the stream has ended: " + e.Code.String() }
