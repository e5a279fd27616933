// Package rpcx has the test of the migration of a service from rpcx: before and after. Its
// module is outside the workspace, as rpcx requires many modules.
package rpcx
