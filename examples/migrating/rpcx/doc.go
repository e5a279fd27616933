// Package rpcx has the test of how a service moves from rpcx: before and after. Its
// module is outside the workspace, for all that rpcx brings.
package rpcx
