// Package kitex has the test of the migration of a service from Kitex: before and after. Its
// module is outside the workspace, as Kitex requires many modules.
package kitex
