// Package ratelimit holds the fixed-window quota rule.
//
// A project may make a number of requests in each clock minute of the store's
// clock. Take is the whole rule: a pure function of the window so far, the
// charge and the moment. It knows nothing of HTTP, Redis or leases; the store
// applies it in the same transaction as the lease rule, so a request is never
// decided without being counted and never counted twice.
//
// The rule is written twice: window.go for the embedded store, and window.lua
// beside it for Redis. The cases in testdata/window.json hold the two together.
//
// A window is judged by its own start. A counter that outlives its minute,
// whatever the reason, is simply the counter of another minute and no longer
// counts against anyone.
package ratelimit
