// Package kitex has the test of how a service moves from Kitex: before and after. Its
// module is outside the workspace, for all that Kitex brings.
package kitex
