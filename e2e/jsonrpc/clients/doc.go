// Package jsonrpc has the tests of JSON-RPC with clients of other projects, in Go, JavaScript
// and Python, over TCP, HTTP and WebSocket, against one server on one port.
// "make interop-jsonrpc" installs the clients and runs them.
package jsonrpc
